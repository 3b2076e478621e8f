"""Telling somebody outside how a task fares: hooks as they are written, notices as they are kept.

A hook says whom to tell of what: `failed,expired:mail`. Before the colon are words for what may
happen to a task; behind it is the name of a hook of the configuration, or a URL. A notice is one
thing to be told to one of them. Pure.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from stayer.core import codec, units
from stayer.core.errors import BadInput
from stayer.core.fields import MOST
from stayer.core.limits import HOOK, check_count, check_length, quote
from stayer.core.model import FINISHED, JSON, QUEUED, State, Task
from stayer.core.units import rfc3339
from stayer.core.worker_model import Worker

NoticeState = Literal["pending", "delivered", "failed"]
NOTICE_STATES: tuple[NoticeState, ...] = ("pending", "delivered", "failed")

ENDED = "ended"
ENDINGS = ("error", "killed", "oom", "timeout", "silent", "lost", "expired", "environment")
"""How a task may have failed for good."""
LATE, NO_PROGRESS = "late", "no_progress"
"""What no change of a task brings: somebody has to look (`service.notify.slow_tasks`)."""
WORDS = (ENDED, *FINISHED, *ENDINGS, "started", "retrying", LATE, NO_PROGRESS)
"""What a hook may ask to be told of."""
WORKER_LOST = "worker_lost"
"""The event of a notice that is about a worker, and no task."""
_FAILURES = ("error", "killed", "oom", "timeout", "silent")

_TARGET_LIMIT = 2000
_WORD = rf"(?:{'|'.join(WORDS)})(?:=[0-9a-z.]+)?"
_HOOK = re.compile(rf"({_WORD}(?:,{_WORD})*):(.*)")
_LIKE_EVENTS = re.compile(r"([a-z_]+(?:=[^:,]*)?(?:,[a-z_]+(?:=[^:,]*)?)*):(?!//)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_URL = re.compile(
    r"https?://(?P<user>[^/?#]*@)?(?P<host>[^/?#@:\[\]]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?([/?#].*)?"
)
_EXAMPLE = "write for example mail, failed,expired:mail or https://example.org/hook"

FIELD_LIMIT = 8_000
"""A field of a record that is longer as JSON is left out of a notice."""
_TRACEBACK = 4_000
_TASKS_NAMED, _TASKS_SAID = 100, 5
"""How many tasks of a lost worker a notice names, and how many its line for people."""
SAID_LIMIT = 4_000
"""How much is kept of what came of the last try, in characters."""

NOBODY = "nobody who delivers knows this hook: name it in the configuration of workers"
"""What is said of a notice that nobody has tried for long enough."""

KEPT = 30 * 86400.0
"""How long a notice that is delivered or has failed is kept, in seconds from its making."""

_FIRST_WAIT, _GROWTH, _LONGEST_WAIT, _SPREAD = 10.0, 3.0, 4 * 3600.0, 0.4


class Notice(Struct, frozen=True, kw_only=True):
    """Something to be told to somebody, and how far that has come."""

    id: str
    """The same at every try: by it a receiver tells a repetition."""
    task: str
    """Empty, if it is about a worker."""
    queue: str
    event: str
    """`complete`, `failed`, `cancelled`, `started`, `retrying`, `late`, `no_progress`; of a worker
    `worker_lost`."""
    to: str
    """The name of a hook, or a URL."""
    attempt: int
    at: float
    """When it happened."""
    state: NoticeState = "pending"
    tries: int = 0
    """How often somebody has set out to deliver it, the one under way included. It never goes back:
    by it, it is known whose a try is."""
    forgiven: int = 0
    """How many of these were before it was last retried, or put back untried: they don't count for
    giving up."""
    since: float | None = None
    """When it was last retried: from then on its age counts, else from `at`."""
    next: float | None = None
    """When it is to be tried again; while it is being delivered, when that counts as lost."""
    said: str | None = None
    """What came of the last try."""
    record: dict[str, JSON] = {}
    """The task (or worker) as it was then, in the words of every door."""

    def age(self, now: float) -> float:
        """Return for how many seconds delivery has been tried."""
        return now - (self.at if self.since is None else self.since)


class NoticePage(Struct, frozen=True):
    """Some notices, newest first, and where to go on (None: that was all)."""

    notices: tuple[Notice, ...]
    next: str | None = None


class Delivery(Struct, frozen=True):
    """What came of a try: delivered; to be tried again `after` so many seconds; or neither, for
    good.
    """

    delivered: bool
    said: str
    after: float | None = None
    is_put_back: bool = False
    """There was no try: it does not count for giving up."""

    @property
    def state(self) -> NoticeState:
        """The state that it leads to."""
        if self.delivered:
            return "delivered"
        return "failed" if self.after is None else "pending"


def parse(written: str) -> str:
    """Read a hook as the stores keep it, with its words in front; BadInput says what to fix."""
    if isinstance(written, str):
        check_length("notify", written, HOOK)
    if not isinstance(written, str) or not written.strip():
        raise BadInput(f"notify {quote(written)}: say whom to tell: {_EXAMPLE}")
    hook = written.strip()
    found = _HOOK.fullmatch(hook)
    words, target = (found[1], found[2].strip()) if found else (ENDED, hook)
    if not found and (like := _LIKE_EVENTS.match(hook)):
        raise BadInput(
            f"notify {written!r}: {like[1]!r} is nothing that can happen to a task: there are "
            f"{', '.join(WORDS)}"
        )
    if found:
        _check_times(written, words)
    _check_target(written, target)
    return f"{','.join(dict.fromkeys(words.split(',')))}:{target}"


def _check_times(written: str, words: str) -> None:
    """Refuse times where there is nothing to wait for, and silence without one."""
    for word in words.split(","):
        name, is_timed, after = word.partition("=")
        if is_timed and name not in (LATE, NO_PROGRESS):
            raise BadInput(f"notify {written!r}: {name} has no time: write {name} alone")
        if not is_timed and name == NO_PROGRESS:
            raise BadInput(f"notify {written!r}: say after how long: no_progress=30m")
        if is_timed and units.duration(after) <= 0:
            raise BadInput(f"notify {written!r}: {word}: give a time above 0, such as 30m")


def parse_all(written: Sequence[str]) -> tuple[str, ...]:
    """Hooks as the stores keep them, each once."""
    if isinstance(written, str) or not isinstance(written, Sequence):
        raise BadInput(f"notify {quote(written)}: give a list, such as [{quote(written)}]")
    check_count("notify", written, MOST["notify"].items)
    return tuple(dict.fromkeys(map(parse, written)))


def _check_target(written: str, target: str) -> None:
    if target.partition("=")[0] in WORDS:
        raise BadInput(f"notify {written!r}: that says of what, not whom to tell: {_EXAMPLE}")
    if not is_url(target):
        if not _NAME.fullmatch(target):
            raise BadInput(f"notify {written!r}: {target!r} is no hook's name: {_EXAMPLE}")
        return
    if len(target) > _TARGET_LIMIT or not target.isascii() or not target.isprintable():
        raise BadInput(
            f"notify {written[:80]!r}: give a URL of at most {_TARGET_LIMIT} plain characters; "
            "write others as %XX"
        )
    if " " in target:
        raise BadInput(f"notify {written!r}: a URL has no spaces: write %20")
    parts = _URL.fullmatch(target)
    if parts is None:
        raise BadInput(f"notify {written!r}: only http and https can be told: {_EXAMPLE}")
    if parts["user"]:
        raise BadInput(
            f"notify …@{parts['host']}: a task is no place for a password, others can read it: "
            "make it a hook of the configuration, and name that"
        )


def is_url(target: str) -> bool:
    """Return whether it says where to go, and not just who."""
    return "://" in target


def hook_name(target: str) -> str:
    """Return the name of the hook; nothing if it is a URL."""
    return "" if is_url(target) else target


def meaning(before: State, to: State, ending: str | None) -> tuple[str, ...]:
    """Return what a change of a task's state means to those who want to hear, the word that names
    the event first; nothing, to most.
    """
    if to == before:
        return ()
    if to in FINISHED:
        return (to, ENDED, ending) if to == "failed" and ending is not None else (to, ENDED)
    if to == "started":
        return ("started",)
    if to in QUEUED and ending in _FAILURES:
        return ("retrying",)
    return ()


def list_targets(hooks: Iterable[str], happened: Sequence[str]) -> list[str]:
    """Whom these hooks want told of what happened, each once."""
    targets: dict[str, None] = {}
    for hook in hooks:
        wanted, _, target = hook.partition(":")
        if not set(wanted.split(",")).isdisjoint(happened):
            targets[target] = None
    return list(targets)


def notice_id(task: str, at: float, number: int, target: str) -> str:
    """Return the id of what is to be told of an event of this number; no other can
    come to have it.
    """
    text = f"{task}\n{at:.17g}\n{number}\n{target}"
    import hashlib  # brings in OpenSSL

    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:24]


def notice_record_of(task: Task, also: Sequence[str] = ()) -> dict[str, JSON]:
    """Return the task's record as a notice has it: without its variables and hooks, which may be
    secret, and without what is long; `left_out` names that, and what is not known anymore.
    """
    shown = codec.record(task)
    del shown["env"], shown["notify"], shown["orders"]
    error = shown["error"]
    if isinstance(error, dict) and isinstance(trace := error.get("traceback"), str):
        error["traceback"] = trace[-_TRACEBACK:]
    left_out: list[JSON] = [
        name
        for name, value in shown.items()
        if name in also or (value and len(codec.encode(value)) > FIELD_LIMIT)
    ]
    for name in left_out:
        shown[str(name)] = None
    return {**shown, "left_out": left_out}


def lost_worker_notice(
    worker: Worker, held: Sequence[Task], queue: str, to: str, now: float
) -> Notice:
    """Make the notice of a worker that is lost; its id is the same, whoever makes it."""
    record: dict[str, JSON] = {
        "worker": worker.id,
        "node": worker.node,
        "pid": worker.pid,
        "version": worker.version,
        "queues": list(worker.queues),
        "lease": worker.lease,
        "started_at": rfc3339(worker.started_at),
        "last_beat": rfc3339(worker.beat_at),
        "running": len(held),
        "tasks": [
            {"id": task.id, "queue": task.queue, "name": task.name, "attempt": task.attempt}
            for task in held[:_TASKS_NAMED]
        ],
    }
    return Notice(
        id=notice_id(worker.id, worker.started_at, worker.number, to), task="", queue=queue,
        event=WORKER_LOST, to=to, attempt=0, at=now, next=now, record=record,
    )  # fmt: skip


def notice_record(notice: Notice) -> dict[str, JSON]:
    """Return a notice as JSON shows it."""
    return {
        "id": notice.id,
        "task": notice.task,
        "queue": notice.queue,
        "event": notice.event,
        "to": notice.to,
        "attempt": notice.attempt,
        "at": rfc3339(notice.at),
        "state": notice.state,
        "tries": notice.tries,
        "next": None if notice.next is None else rfc3339(notice.next),
        "said": notice.said,
    }


def payload(notice: Notice) -> dict[str, JSON]:
    """Make what a receiver is sent."""
    return {
        "type": "worker.lost" if notice.event == WORKER_LOST else f"task.{notice.event}",
        "timestamp": rfc3339(notice.at),
        "id": notice.id,
        "data": dict(notice.record),
    }


_SAYINGS = {"retrying": " is being retried", LATE: " is late", NO_PROGRESS: " makes no progress"}


def sentence(notice: Notice) -> str:
    """Say what happened in a line for people."""
    shown = notice.record
    if notice.event == WORKER_LOST:
        return _sentence_of_worker(shown)
    what = shown.get("name") or " ".join(map(str, _list(shown.get("command"))))
    text = f"{notice.task} ({what[:80]})" if isinstance(what, str) and what else notice.task
    text += _SAYINGS.get(notice.event, f" {notice.event}")
    if notice.event in (LATE, NO_PROGRESS):
        text += f": {shown.get('because')}"
    error = shown.get("error")
    if notice.event in ("failed", "retrying") and isinstance(error, dict):
        text += f": {error.get('type')}: {str(error.get('message', ''))[:200]}".rstrip(": ")
    return f"{text} [queue {notice.queue}, attempt {notice.attempt}]"


def _sentence_of_worker(shown: dict[str, JSON]) -> str:
    text = f"worker {shown.get('worker')} on {shown.get('node')} is lost: "
    text += f"nothing heard since {shown.get('last_beat')}"
    ran = [str(task.get("id")) for task in _list(shown.get("tasks")) if isinstance(task, dict)]
    if not ran:
        return f"{text}; it ran nothing"
    more = f" and {len(ran) - _TASKS_SAID} more" if len(ran) > _TASKS_SAID else ""
    return f"{text}; it ran {', '.join(ran[:_TASKS_SAID])}{more}"


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def wait(id: str, tries: int) -> float:
    """Seconds until the next try after so many: longer each time, and spread, or all that failed
    together come back together.
    """
    longest = min(_LONGEST_WAIT, _FIRST_WAIT * _GROWTH ** min(tries - 1, 20))
    chance = zlib.crc32(f"{id} {tries}".encode()) / 2**32
    return longest * (1 - _SPREAD / 2 + _SPREAD * chance)
