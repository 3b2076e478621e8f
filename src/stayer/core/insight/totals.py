"""What happened in a store since counting began: how many tasks were submitted, were started and
ended, and how long they waited and ran. For metrics, whose counters must only ever grow.

Counted from the store's events, and kept in the store with the number of the last event counted: so
they go on where they were after a restart, and several servers show the same. Pure.
"""

from __future__ import annotations

import base64
import zlib
from bisect import bisect_left
from collections.abc import Sequence
from typing import get_args

import msgspec
from msgspec import Struct

from stayer.core.decoding import decode_json
from stayer.core.model import FINISHED, QUEUED, Attempt, Ending, Event, Task

WAIT_BUCKETS = (1, 5, 15, 60, 300, 900, 3600, 10800, 43200, 86400, 604800)
RUN_BUCKETS = (1, 5, 15, 60, 300, 900, 3600, 10800, 21600, 43200, 86400, 259200, 604800)
"""Upper bounds, in seconds: tasks take from moments to days."""
MOST_QUEUES = 100
MOST_SERIES = 300
"""How many pairs of a queue and a kind are told apart: what comes later is counted as `OTHER`."""
OTHER = "(other)"
UNKNOWN = "(unknown)"
"""The kind of a task that was deleted before it was counted."""
WORKER_LOST = "worker lost"
"""The event that a worker was declared lost. It is about no task and no queue."""

SUBMITTED, STARTED, ENDED, RETRIED, LOST = "submitted", "started", "ended", "retried", "lost"
WAITED, RAN = "waited", "ran"
BUCKETS = {WAITED: WAIT_BUCKETS, RAN: RUN_BUCKETS}
_ENDINGS = frozenset(get_args(Ending))
BY_OPERATOR = "operator"
"""The reason of a retry that somebody asked for."""


class Totals(Struct, kw_only=True):
    """All that is counted. Keys are words with tabs between: what, queue, kind, then what else."""

    seen: int
    """The number of the last event that is counted."""
    since: float
    """When counting began."""
    counts: dict[str, int] = {}
    spans: dict[str, list[float]] = {}
    """Histograms: the sum, then how many there are in each bucket."""


def begin(last_event: int, now: float) -> Totals:
    """Begin to count with what happens from now on."""
    return Totals(seen=last_event, since=now)


def encode(totals: Totals) -> str:
    """Make the text that a store keeps: short, for some databases take 64 kB at most."""
    return base64.b85encode(zlib.compress(msgspec.json.encode(totals), 9)).decode()


def decode(text: str) -> Totals | None:
    """Read such a text; None if it is none."""
    try:
        return decode_json(zlib.decompress(base64.b85decode(text)), Totals)
    except (ValueError, zlib.error, msgspec.DecodeError):
        return None


class Tally:
    """Adds events to totals."""

    def __init__(self, totals: Totals) -> None:
        self.totals = totals
        self._pairs = {tuple(key.split("\t")[1:3]) for key in totals.counts}
        self._queues = {queue for queue, _ in self._pairs}

    def add(
        self,
        event: Event,
        task: Task | None,
        history: Sequence[Event] = (),
        attempts: Sequence[Attempt] = (),
    ) -> None:
        """Count one event, of a task that is as the store has it by now (None: it is gone), with
        its history or its attempts if they are needed: see `needs_history`, `needs_attempts`.
        """
        self.totals.seen = max(self.totals.seen, event.number)
        if event.event == WORKER_LOST:
            self._count(LOST)
        if not event.id:
            return
        queue, kind = self._labels(event.queue, UNKNOWN if task is None else task.kind)
        word = (event.note or "").partition(":")[0]
        if _is_birth(event, task):
            self._count(SUBMITTED, queue, kind)
        elif event.event in QUEUED and (reason := _retry_reason(word)):
            self._count(RETRIED, queue, kind, reason)
        elif event.event == STARTED:
            self._count(STARTED, queue, kind)
            if task is not None:
                self._measure(WAITED, queue, "", event.at - _waits_since(event, task, history))
        elif event.event in FINISHED:
            self._count(ENDED, queue, kind, event.event, word or event.event)
        if task is not None and (ran := _ran(event, task, attempts)) is not None:
            self._measure(RAN, queue, kind, ran)

    def _count(self, *words: str) -> None:
        key = "\t".join(words)
        self.totals.counts[key] = self.totals.counts.get(key, 0) + 1

    def _measure(self, what: str, queue: str, kind: str, seconds: float) -> None:
        buckets = BUCKETS[what]
        empty = [0.0] * (len(buckets) + 2)
        cells = self.totals.spans.setdefault("\t".join((what, queue, kind)), empty)
        cells[0] += max(0.0, seconds)
        cells[1 + bisect_left(buckets, seconds)] += 1

    def _labels(self, queue: str, kind: str) -> tuple[str, str]:
        """Return the labels under which it counts: there are so many, and no more."""
        found = " ".join(queue.split()), " ".join(kind.split())
        if found in self._pairs:
            return found
        if found[0] not in self._queues and len(self._queues) >= MOST_QUEUES:
            found = OTHER, OTHER
        elif len(self._pairs) >= MOST_SERIES:
            found = found[0], OTHER
        self._pairs.add(found)
        self._queues.add(found[0])
        return found


def needs_history(event: Event, task: Task | None) -> bool:
    """Return whether only the task's history says since when it waited for this start: it is not
    its first, or it had to wait for something else before it could be taken.
    """
    if task is None or event.event != STARTED:
        return False
    return event.attempt > 1 or task.eta is not None or task.upstreams > 0


def needs_attempts(event: Event, task: Task | None) -> bool:
    """Return whether only the list of attempts says how long this one ran: the record tells of the
    newest, and of none while the task waits.
    """
    if task is None or not _ends_attempt(event):
        return False
    return task.attempt != event.attempt or task.finished_at is None


def _is_birth(event: Event, task: Task | None) -> bool:
    """Return whether it tells of the submission. A task that has waited for others comes to be
    pending in the same words, but later.
    """
    if event.event not in QUEUED or event.attempt or event.note:
        return False
    return task is None or abs(event.at - task.created) < 1e-3


def _ends_attempt(event: Event) -> bool:
    """Return whether an attempt has ended: what was ended while it waited has no worker."""
    word = (event.note or "").partition(":")[0]
    return (
        event.attempt > 0
        and event.worker is not None
        and word in _ENDINGS
        and (event.event in FINISHED or event.event in QUEUED)
    )


def _retry_reason(word: str) -> str | None:
    """Return why a task that comes to wait is run again; None: it never ran, or waits on."""
    if word in _ENDINGS:
        return word
    return BY_OPERATOR if word.startswith("retried") else None


def _waits_since(event: Event, task: Task, history: Sequence[Event]) -> float:
    """Return when the task came to be there for the taking."""
    pending = [each.at for each in history if each.event == "pending" and each.at <= event.at]
    return pending[-1] if pending else max(task.created, task.eta or 0.0)


def _ran(event: Event, task: Task, attempts: Sequence[Attempt]) -> float | None:
    """Return for how many seconds the attempt ran that has ended; None: it never began, or nobody
    knows.
    """
    if not _ends_attempt(event):
        return None
    if not needs_attempts(event, task):
        began, ended = task.started_at, task.finished_at
    else:
        known = next((each for each in attempts if each.attempt == event.attempt), None)
        if known is None:
            return None
        began, ended = known.started_at, known.finished_at
    return None if began is None or ended is None else ended - began
