"""What a worker knows of one attempt that it holds, and the news of it for the store."""

from __future__ import annotations

import logging
import math
import os
import re
import time
from collections import deque
from signal import SIGKILL, SIGUSR1
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from stayer.core import codec
from stayer.core import meta as own_fields
from stayer.core.decoding import decode_json
from stayer.core.errors import BadInput
from stayer.core.happenings import Note, SetMeta
from stayer.core.insight.statistics import weight
from stayer.core.model import JSON, LogPiece, Progress, Report, Task, Usage
from stayer.core.units import format_duration, format_size
from stayer.service.lease.heartbeat import moment
from stayer.store import LOG_HEAD, LOG_PIECE, LOG_TAIL
from stayer.worker import safe_files
from stayer.worker.run_directory import Run
from stayer.worker.run_layout import signature
from stayer.worker.statistics_reader import StatisticsReader

logger = logging.getLogger("stayer.worker")

_LOG_A_BEAT_BYTES = 1_000_000
_REPORT_READ_BYTES = 1_000_000
_CHARGED_AFTER_INTERRUPTS = 100
"""A task that was interrupted so many times is charged if its code can't be loaded."""
_KEEPER_TIMEOUT_S = 30.0
"""After how long without a sign of its keeper an attempt is given up."""
_KEEPER_LOOK_S = 5.0
_KEEPER_OVERDUE_S = 3.0
_FIRST_NEWS_AFTER_S, _KINDS_OF_NEWS = 1.0, 3
"""What ends sooner, in seconds, tells all at its end; there are log, report and usage."""
_OTHER_REPORT = re.compile(rb'\s*\{\s*"(?:metric|step)"(?!.*"(?:done|total|progress|message)"\s*:)')
"""A line with nothing of progress in it. There may be many more of these."""
_PLAIN_REPORT = re.compile(r"\s*([0-9.]+)\s*(?:/\s*([0-9.]+)|(%))?\s*(.*)")


class _News(NamedTuple):
    """How far the store will know when the beat gets through."""

    log_sent: int
    report_read: int
    checkpoint: object
    usage: Usage | None
    paused: bool
    meta: dict[str, JSON]
    """Fields of its own that it has set."""


class HeldAttempt:
    """An attempt that this worker holds."""

    def __init__(self, task: Task, run: Run, *, fresh: bool = False) -> None:
        """`fresh`: it has just been reserved, and the store knows nothing of its process."""
        self.task = task
        self.run = run
        self.is_fresh = fresh
        self._checked_at = self._since = moment()
        self.is_heard = False
        """The kernel tells when its keeper writes that it runs, or how it ended."""
        self.known = True
        """`task` is what the store says, not only what the run directory does."""
        self.order_seen: int = run.keeper_orders.get("seen", 0)
        self.stop_grace: float | None = None
        self.lost = False
        self.lost_at = 0.0
        self._standstill_told = 0.0 if self.is_fenced() else self.fenced_since
        """When the freeze began of whose end was told: of one before our time, by another."""
        self.watched_until = 0.0
        self._log_sent = 0
        self._report_read = 0
        self._statistics = StatisticsReader(run, fresh=fresh)
        self._checkpoint_sent = run.read_given_checkpoint()
        self._first: tuple[float, float] | None = None
        self._last: Progress | None = None
        self._missing_since: float | None = None
        self._alone_since: float | None = None
        self._usage_sent: Usage | None = None
        self._paused_sent = False if fresh else None
        self._sent_news: _News | None = None
        self.was_cut_short = False
        """The last beat had no room for all that is new."""
        self._first_news: set[str] = set()
        self._refused: str | None = None
        self.unsent_notes: deque[Note | SetMeta] = deque()
        """What the store's history of the task should say, and fields that it has set."""
        self._refused_meta: str | None = None

    @property
    def key(self) -> tuple[str, int]:
        return self.task.id, self.task.attempt

    @property
    def is_own(self) -> bool:
        """It is what its worker was told to run, not a command that it brought along."""
        return self.task.command is None

    @property
    def loads_code(self) -> bool:
        """Its process is our runner, and may say that it could not load the worker's code. The code
        of the task is in the same process, and might say so too: not for ever.
        """
        return (
            self.is_own
            and self.run.is_runner
            and self.task.interruptions < _CHARGED_AFTER_INTERRUPTS
        )

    def is_overdue(self) -> bool:
        """Return whether no keeper has taken it up, though it was asked for a while ago."""
        if moment() - self._checked_at < _KEEPER_OVERDUE_S or self.run.has_keeper():
            return False
        self._checked_at = moment()
        return True

    def waits_in_vain(self) -> bool:
        """Return whether no keeper has taken it up for so long that none should any more: the
        nursery hangs.
        """
        if self.task.state != "reserved" or moment() - self._since < _KEEPER_OVERDUE_S:
            return False
        if self.run.process_status is not None or self.run.has_ended() or self.run.has_keeper():
            return False
        return moment() - self._since > _KEEPER_TIMEOUT_S or "stop" in self.run.keeper_orders

    def is_preparing(self) -> bool:
        """Return whether its process prepares its code, and has not become the task yet."""
        return self.run.prepares and self.run.prepared is None

    def age(self) -> float:
        """Return how long ago its process began, in seconds; 0 if it has not."""
        started = (self.run.process_status or {}).get("started")
        return max(0.0, moment() - started / os.sysconf("SC_CLK_TCK")) if started else 0.0

    def is_fenced(self) -> bool:
        """Return whether its keeper has frozen it, for want of a lease."""
        running = self.run.process_status
        return running is not None and "fenced" in running["stopped"] and not self.run.has_ended()

    @property
    def fenced_since(self) -> float:
        """When its keeper froze it, the last time that it did."""
        return _as_number((self.run.process_status or {}).get("fenced_since"))

    def note_freeze(self) -> None:
        """Note, once for each freeze that is over, for how long it had stood still."""
        running = self.run.process_status
        if running is None or "fenced" in running["stopped"]:
            return  # it stands still, or did until it was killed
        since = self.fenced_since
        if since == self._standstill_told:
            return
        self._standstill_told = since
        until, slept = (_as_number(running.get(name)) for name in ("fenced_until", "slept"))
        still = max(0.0, (until or moment()) - since)
        text = f"stood still for {format_duration(still)} without a lease"
        if slept:
            text = f"{text}, after its machine slept for {format_duration(slept)}"
        logger.warning("task %s goes on: it %s", self.task.id, text)
        self.unsent_notes.append(Note("thawed", text))

    def end_as_lost(self) -> None:
        """Have it end at once: it is not ours any more."""
        self.lost, self.lost_at = True, time.monotonic()
        self.ask(stop={"why": "fence", "grace": 0.0})

    def ask(self, **wanted: object) -> bool:
        """Give its keeper an order; False if it can't be given now."""
        try:
            self.run.order(**wanted)
        except OSError as error:
            logger.warning("task %s can't be given an order: %s", self.task.id, error)
            return False
        return True

    def has_news(self) -> bool:
        """Return whether there is something that the store has not got."""
        return (
            self._size("log") > self._log_sent
            or self._size("report") > self._report_read
            or self._statistics.count_unread_bytes() > 0
            or self._checkpoint_signature() != self._checkpoint_sent
            or self._usage() != self._usage_sent
        )

    def has_vanished(self) -> bool:
        """Somebody deleted the run directory, and its keeper has ended, or had the time to."""
        if self.run.is_there():
            self._missing_since = None
            return False
        if self._missing_since is None:
            self._missing_since = moment()
            self.run.signal_keeper(SIGUSR1)  # it looks, and sees
        missing = moment() - self._missing_since
        if not self.run.has_begun:
            return missing > _KEEPER_TIMEOUT_S
        if missing > _KEEPER_LOOK_S and self.run.keeper_lives():
            self.run.signal_keeper(SIGKILL)  # it stands still; what it keeps dies with it
        return not self.run.keeper_lives()

    def is_abandoned(self) -> bool:
        """Neither its keeper nor its nursery will say how it ended."""
        if not self.run.is_orphan():
            self._alone_since = None
            return False
        if self._alone_since is None:
            self._alone_since = moment()
        return self.run.nursery_is_gone() or moment() - self._alone_since > _KEEPER_TIMEOUT_S

    def count_unsent_bytes(self) -> int:
        """Return how many bytes of log, checkpoint and statistics have not been sent."""
        is_new = self._checkpoint_signature() != self._checkpoint_sent
        checkpoint = self._size("checkpoint") if is_new else 0
        log = max(0, self._size("log") - self._log_sent)
        return checkpoint + log + self._statistics.count_unread_bytes()

    def unsent_checkpoint(self) -> bytes | None:
        """Return the checkpoint, if the store has not got it."""
        if self._checkpoint_signature() == self._checkpoint_sent:
            return None
        return self._read_checkpoint()

    def gather(self, room: int) -> Report | None:
        """Gather the news, with so many bytes of log and checkpoint at most; `mark_delivered` says
        that they arrived, else they are gathered again.
        """
        self._sent_news = None
        self.was_cut_short = False
        try:
            return self._gather(room)
        except OSError:  # the run directory is being removed, or the disk fails: not the beat
            return None
        except Exception:  # whatever a task wrote must not keep the others from being heard
            logger.exception("the news of task %s can't be read", self.task.id)
            return None

    def _gather(self, room: int) -> Report | None:
        signature, checkpoint = self._read_new_checkpoint(room)
        room -= len(checkpoint or b"")
        statistics, has_to_wait = self._statistics.gather(self.age(), room)
        self.was_cut_short |= has_to_wait
        if statistics is not None:
            room -= weight(statistics)
        log, log_sent = self._read_log(room)
        progress, report_read, meta = self._read_report()
        usage, paused = self._usage(), self._is_paused()
        self._sent_news = _News(log_sent, report_read, signature, usage, paused, meta)
        new_usage = None if usage == self._usage_sent else usage
        new_pause = None if paused == self._paused_sent else paused
        news = (progress, checkpoint, statistics, new_usage, new_pause)
        if not log and all(new is None for new in news):
            return None
        return Report(
            id=self.task.id,
            attempt=self.task.attempt,
            progress=progress,
            checkpoint=checkpoint,
            log=log,
            usage=new_usage,
            statistics=statistics,
            paused=new_pause,
        )

    def mark_delivered(self) -> None:
        """Note that the beat with the news got through."""
        news, self._sent_news = self._sent_news, None
        if news is not None:
            self._statistics.mark_delivered()
            self._log_sent, self._report_read = news.log_sent, news.report_read
            self._checkpoint_sent = news.checkpoint
            self._usage_sent, self._paused_sent = news.usage, news.paused
            if news.meta:
                self.unsent_notes.append(SetMeta(news.meta, by_task=True))

    def has_urgent_news(self) -> bool:
        """Return whether a checkpoint, or what somebody has asked for, must not wait for the next
        beat.
        """
        return (
            self._checkpoint_signature() != self._checkpoint_sent
            or self._is_paused() != self._paused_sent
            or self._has_first_news()
        )

    def _has_first_news(self) -> bool:
        """Return whether something is there for the first time. Whoever looks just after the start
        finds something. Once each, so that long tasks cost a beat an interval.
        """
        if len(self._first_news) == _KINDS_OF_NEWS or self.age() < _FIRST_NEWS_AFTER_S:
            return False
        before = len(self._first_news)
        self._first_news.update(name for name in ("log", "report") if self._size(name))
        if self._usage() is not None:
            self._first_news.add("usage")
        return len(self._first_news) > before

    def _is_paused(self) -> bool:
        running = self.run.process_status
        return running is not None and "paused" in running["stopped"] and not self.run.has_ended()

    def _usage(self) -> Usage | None:
        """Return what the keeper said last."""
        report = self.run.exit or self.run.process_status or {}
        used = report.get("usage")
        if not isinstance(used, dict) or not used:
            return None
        try:
            return Usage(
                ran=round(max(0.0, float(report.get("ran", 0.0)) - self.run.prepared_for), 3),
                cpu=round(float(used.get("cpu", 0.0)), 3),
                rss=int(used.get("rss", 0)),
                peak=int(used.get("peak", 0)),
                read=int(used.get("read", 0)),
                written=int(used.get("written", 0)),
                processes=int(used.get("processes", 0)),
            )
        except (TypeError, ValueError, OverflowError):  # not a keeper's words
            return None

    def _read_log(self, room: int) -> tuple[tuple[LogPiece, ...], int]:
        end, start = self._size("log"), self._log_sent
        if end <= start:
            return (), start
        if room <= 0:
            self.was_cut_short = True
            return (), start
        # What will be dropped from the middle is not sent at all.
        if start >= LOG_HEAD and end - start > LOG_TAIL:
            start = end - LOG_TAIL
        pieces: list[LogPiece] = []
        length = min(_LOG_A_BEAT_BYTES, end - start)
        if length > room:
            length, self.was_cut_short = room, True
        found = self.run.part.read_part("log", start, length)
        for at in range(0, len(found), LOG_PIECE):
            pieces.append(LogPiece(start + at, found[at : at + LOG_PIECE]))
        return tuple(pieces), start + len(found)

    def _read_report(self) -> tuple[Progress | None, int, dict[str, JSON]]:
        """Return the last complete line that makes sense, and the fields that it has set."""
        end = self._size("report")
        if end <= self._report_read:
            return None, self._report_read, {}
        start = max(self._report_read, end - _REPORT_READ_BYTES)  # only the last lines count
        data = self.run.part.read_part("report", start, end - start)
        whole = data.rfind(b"\n") + 1
        found: Progress | None = None
        lines = [line for line in data[:whole].splitlines() if not _OTHER_REPORT.match(line)]
        for line in reversed(lines[-1000:]):
            found = parse_report(line.decode(errors="replace"))
            if found is not None:
                found = self._complete(found)
                break
        return found, start + whole, self._read_meta(data[:whole])

    def _read_meta(self, data: bytes) -> dict[str, JSON]:
        """Return what lines such as `{"meta": {"team": "vision"}}` set, the last value of each."""
        found: dict[str, JSON] = {}
        for line in data.splitlines() if b'"meta"' in data else ():
            try:
                written = decode_json(line, dict[str, Any]).get("meta")
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                continue
            if written is None:
                continue
            try:
                wanted = {**found, **own_fields.check_names("meta", written)}
                own_fields.merge(self.task.meta, wanted)
            except BadInput as error:
                self._refuse_meta(str(error))
            else:
                found = wanted
        return found

    def _refuse_meta(self, why: str) -> None:
        """Note that fields are not kept, once for each reason."""
        if why != self._refused_meta:
            self._refused_meta = why
            self.unsent_notes.append(Note("meta not kept", why))
            logger.warning("meta that task %s sets is not kept: %s", self.task.id, why)

    def _complete(self, found: Progress) -> Progress:
        """Fill in how far it was: a line with a message only says nothing of that."""
        if found.done is None and self._last is not None:
            found = replace(found, done=self._last.done, total=self._last.total)
        self._last = replace(found, remaining=self._remaining(found))
        return self._last

    def _remaining(self, progress: Progress) -> float | None:
        """Estimate the time left, from the rate since the first report of this attempt."""
        done, total, now = progress.done, progress.total, moment()
        if done is None or total is None:
            return None
        if self._first is None:
            self._first = now, done
            return None
        began, first = self._first
        rate = (done - first) / (now - began) if now > began else 0.0
        return (total - done) / rate if rate > 0 else None

    def _read_new_checkpoint(self, room: int) -> tuple[object, bytes | None]:
        """Read its signature and, if it is new, the checkpoint: the last signature if there is no
        room for it in this beat.
        """
        signature = self._checkpoint_signature()
        if signature == self._checkpoint_sent:
            return signature, None
        if room < self._size("checkpoint") <= codec.CHECKPOINT_LIMIT:
            self.was_cut_short = True
            return self._checkpoint_sent, None
        return signature, self._read_checkpoint()

    def _read_checkpoint(self) -> bytes | None:
        try:
            return self.run.part.read("checkpoint", codec.CHECKPOINT_LIMIT)
        except safe_files.TooLong:
            found, limit = self.run.part.stat("checkpoint"), format_size(codec.CHECKPOINT_LIMIT)
            size = format_size(found.st_size) if found else "too large"
            self._refuse_checkpoint(
                f"it is {size}, the limit is {limit}: keep the data elsewhere, and where it is here"
            )
        except safe_files.NotPlainFile:
            self._refuse_checkpoint("it is no plain file: write one, then rename it over")
        except OSError:
            return None
        return None

    def _refuse_checkpoint(self, why: str) -> None:
        """Note that it is not kept, once for each reason: a task that saves every minute would fill
        its history with it.
        """
        if why != self._refused:
            self._refused = why
            self.unsent_notes.append(Note("checkpoint not kept", why))
            logger.warning("a checkpoint of task %s is not kept: %s", self.task.id, why)

    def _checkpoint_signature(self) -> object:
        return signature(self.run.part.folder / "checkpoint")

    def _size(self, name: str) -> int:
        found = self.run.part.stat(name)
        return 0 if found is None else found.st_size


def _as_number(value: object) -> float:
    """Return the number that a keeper wrote, or a task in its place; 0 if it is no number."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def parse_report(line: str) -> Progress | None:
    """Read a line such as `{"progress": 0.4}`, `{"done": 4, "total": 10, "message": …}`, `4/10
    message` or `40%`.
    """
    line = line.strip()
    if line.startswith("{"):
        try:
            content = decode_json(line, dict[str, Any])
        except (msgspec.DecodeError, RecursionError):
            return None
        if content.keys() == {"meta"}:  # it says nothing of how far it is
            return None
        done, total = content.get("done"), content.get("total")
        if "progress" in content:
            done, total = content["progress"], 1.0
        message = content.get("message")
        if done is None and not message and ("metric" in content or "step" in content):
            return None
    else:
        found = _PLAIN_REPORT.fullmatch(line)
        if found is None:
            return None
        done, total, percent, message = found.groups()
        total = 100.0 if percent else total
    try:
        done, total = (None if number is None else float(number) for number in (done, total))
    except (TypeError, ValueError, OverflowError):
        return None
    if not all(number is None or math.isfinite(number) for number in (done, total)):
        return None
    text = str(message)[:1000].encode("utf-8", "backslashreplace").decode() if message else None
    return Progress(done, total, text)
