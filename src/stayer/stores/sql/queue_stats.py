"""`Store.sample` and `Store.figures`: what queues did, by the minute, the hour and the day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from stayer.core.insight.queue_stats import COUNTED, KEPT, MADE_UP_FOR, MEASURED, Figures
from stayer.core.model import RUNNING
from stayer.stores.sql import reads
from stayer.stores.sql.rows import check_row, form
from stayer.stores.sql.transaction import Transaction

MINUTE = 60
_FORM = form("real", "text", "2 integer?", "real?", "4 integer", "2 real")
FIELDS = ("at", "queue", *MEASURED, *COUNTED)


def last_sampled(tx: Transaction) -> int | None:
    """Up to when all is counted."""
    row = tx.one("figures.last")
    return None if row is None else int(row[0])


def whole_minutes(now: float) -> int:
    """The end of the last minute that is over."""
    return int(now // MINUTE) * MINUTE


def count_minutes(tx: Transaction, last: int | None) -> list[Figures]:
    """The figures of each minute since then. Only reads, so that nobody waits for it."""
    end = whole_minutes(tx.now)
    begin = end - MINUTE if last is None else max(last, end - MADE_UP_FOR)
    found: list[Figures] = []
    for at in range(begin, end, MINUTE):
        each = _minute(tx, at)
        if at == end - MINUTE:
            _measure(tx, each)
        found += each.values()
    return found


def write(tx: Transaction, last: int | None, points: Sequence[Figures], end: int) -> bool:
    """Enter them, unless somebody else has counted these minutes meanwhile."""
    claimed = (
        tx.run("figures.first", str(end))
        if last is None
        else tx.run("figures.claim", str(end), str(last))
    )
    if not claimed:
        return False
    for step, kept in KEPT.items():
        rows = [(step, *_cells(replace(each, at=each.at // step * step))) for each in points]
        tx.many("figures.add", rows)
        tx.run("figures.forget", step, tx.now - kept)
    return True


def read(
    tx: Transaction, since: float, until: float, step: int, queues: Sequence[str] | None
) -> list[Figures]:
    """Those of a stretch of time."""
    wanted = [""] if queues is None else list(queues)
    rows = tx.all("figures", step, since, until, not wanted, tx.array(wanted))
    return [Figures(**dict(zip(FIELDS, check_row(row, _FORM), strict=True))) for row in rows]


def _cells(point: Figures) -> Iterator[object]:
    return (getattr(point, name) for name in FIELDS)


def _minute(tx: Transaction, at: int) -> dict[str, Figures]:
    """What was counted in one minute: that of all queues, and of each that did something."""
    found = {"": Figures(at=at)}
    for name, number in tx.all("figures.submitted", float(at), float(at + MINUTE)):
        if number:
            _add(found, Figures(at=at, queue=name, submitted=number))
    for name, state, number, ran, waited in tx.all("figures.ended", float(at), float(at + MINUTE)):
        point = Figures(at=at, queue=name, ran=ran, waited=waited)
        _add(found, replace(point, **{state: number}))
    return found


def _add(found: dict[str, Figures], point: Figures) -> None:
    for name in (point.queue, ""):
        known = found.get(name, Figures(at=point.at, queue=name))
        sums = {each: getattr(known, each) + getattr(point, each) for each in COUNTED}
        found[name] = replace(known, **sums)


def _measure(tx: Transaction, found: dict[str, Figures]) -> None:
    """How it stands now, for the minute that has just ended."""
    whole = replace(found[""], depth=0, running=0)
    for queue in reads.queues(tx):
        depth = queue.counts.get("pending", 0)
        running = sum(queue.counts.get(state, 0) for state in RUNNING)
        age = None if queue.oldest is None else max(0.0, tx.now - queue.oldest)
        known = found.get(queue.name)
        if known is None and not depth and not running:
            continue  # at rest: nothing to tell
        known = known or Figures(at=whole.at, queue=queue.name)
        found[queue.name] = replace(known, depth=depth, running=running, age=age)
        whole = replace(
            whole,
            depth=(whole.depth or 0) + depth,
            running=(whole.running or 0) + running,
            age=max((each for each in (whole.age, age) if each is not None), default=None),
        )
    found[""] = whole
