"""`Store.reserve` and `Store.promote`: what a worker gets, and what becomes due."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import Struct

from stayer.core.errors import LeaseLost
from stayer.core.happenings import Expire
from stayer.core.lifecycle import decide
from stayer.core.model import Task
from stayer.core.ordering.affinity import open_to
from stayer.core.ordering.lanes import handles_lane
from stayer.core.ordering.rate_limit import Bucket
from stayer.core.worker_model import Handles
from stayer.stores.sql.commit import apply
from stayer.stores.sql.flows import relay
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.locking import claim_rows, lock_queues, share_settings
from stayer.stores.sql.rows import (
    bucket_from_cells,
    limits_from_cell,
    task_from_row,
)
from stayer.stores.sql.select_limited import KeyLimits, best_in_lines
from stayer.stores.sql.transaction import UNCLAIMED, Row, Transaction

_attempt = attrgetter("attempt")
_ALL = 2**31 - 1
MANY_LANES = 32
"""How many lanes are looked into, each by itself."""
_LOOKED_AT = 50, 1000
"""How many tasks beyond those wanted are looked at where there are more, first and at last."""


def reserve(
    tx: Transaction,
    worker: str,
    queues: Sequence[str],
    limit: int,
    handles: Handles,
    ledger: Ledger,
) -> list[Task]:
    """Give the worker the best tasks that it can run, queue by queue: it holds each under a new
    attempt.
    """
    are_locked = share_settings(tx, queues)
    for queue in queues[:1]:
        tx.prefetch("reserve.queue", queue)
        tx.bulk.expect_lanes(tx, queue, MANY_LANES + 1)
        tx.bulk.expect_next(tx, worker, queue, limit, handles)
    registered = tx.one("reserve.worker", worker)
    if registered is None:
        raise LeaseLost(
            f"worker {worker} is not registered, or was declared lost: it may take no tasks"
        )
    node, drains = registered
    if drains:
        return []
    tasks: list[Task] = []
    for queue in queues:
        rules = _rules(tx, queue, ledger, are_locked)
        tx.bulk.see(tx, worker, node, queue, rules is _OPEN)
        left = min(limit - len(tasks), rules.room(limit, tx.now))
        if left <= 0:
            continue
        seqs = _chosen(tx, queue, left, handles, rules, node)
        if not seqs:
            continue
        tasks += _take(tx, seqs, queue, worker, node, ledger)
        if rules.bucket is not None:
            # Somebody may have taken from it at a later moment than this one began.
            moment = max(tx.now, rules.bucket.at or 0.0)
            if moment - tx.now > rules.bucket.rate.per:
                moment = tx.now  # the clock was set back
            tokens = rules.bucket.level(tx.now) - len(seqs)
            tx.send("reserve.tokens", [(tokens, moment, queue)])
        ledger.note_move(queue, "pending", "reserved", len(seqs))
    return tasks


def _take(
    tx: Transaction, seqs: list[int], queue: str, worker: str, node: str, ledger: Ledger
) -> list[Task]:
    """The tasks of a queue, now held by the worker."""
    first = number = ledger.numbers(len(seqs))
    tasks = tx.bulk.take(tx, seqs, first, queue, worker, node)
    for times, alike in groupby(tasks, key=_attempt):
        ids = [task.id for task in alike]
        ledger.add_events(number, ids, queue, "reserved", times, worker)
        if times > 1:
            for position in range(number - first, number - first + len(ids)):
                ledger.grown(seqs[position])
        number += len(ids)
    return tasks


def best(
    tx: Transaction,
    queue: str,
    limit: int,
    handles: Handles,
    node: str | None = None,
    *,
    claim: bool,
) -> list[int]:
    """The next tasks of a queue, best first, from all lanes that are handled on this node; with
    `claim`, from now on for nobody else.
    """
    names = _lanes(tx, queue, MANY_LANES + 1)
    if len(names) > MANY_LANES:
        for more in _LOOKED_AT:
            standing = _along_the_order(tx, queue, limit, limit + more, handles, node)
            if standing is not None:
                return claim_rows(tx, standing) if claim else standing
        names = _lanes(tx, queue, _ALL)
    lanes = choose_handled(names, handles, node)
    if not lanes:
        return []
    looking = "" if claim else UNCLAIMED
    if len(lanes) == 1:
        return tx.bulk.seqs(tx, "reserve.next" + looking, queue, lanes[0], tx.now, limit)
    among = tx.array(lanes)
    return tx.bulk.seqs(tx, "reserve.next_of_all" + looking, queue, among, tx.now, limit)


def _along_the_order(
    tx: Transaction, queue: str, limit: int, looked_at: int, handles: Handles, node: str | None
) -> list[int] | None:
    """The same where there are too many lanes to look into each, say one for every script: along
    the order of all tasks. None if it takes more than a look at so many that stand first.
    """
    can_be_taken: dict[str, bool] = {}
    found: list[int] = []
    for part in ("reserve.before", "reserve.standing", "reserve.behind"):
        rows = tx.all(part, queue, looked_at)
        for seq, lane, start_before in rows:
            if seq is None or (start_before is not None and start_before <= tx.now):
                continue
            if lane not in can_be_taken:
                can_be_taken[lane] = bool(choose_handled([lane], handles, node))
            if can_be_taken[lane]:
                found.append(seq)
                if len(found) == limit:
                    return found
        if len(rows) == looked_at:
            return None
    return found


def promote(tx: Transaction, limit: int) -> float | None:
    """Due tasks become pending, the longest due first; those that nobody has started in time end;
    dependents hear of what has ended.
    """
    overdue = [task_from_row(row) for row in tx.all("promote.expired", tx.now, limit)]
    if overdue:
        apply(tx, [decide(task, Expire()) for task in overdue])
    relay(tx, limit)
    _open_to_all(tx, limit)
    due = tx.all("promote.due", tx.now, limit)
    if due:
        tx.run("promote", tx.now, tx.array(row[0] for row in due))
        ledger = Ledger(tx)
        for seq, id, queue, attempt in due:
            ledger.event(seq, id, queue, "pending", attempt, None, "due")
            ledger.note_move(queue, "scheduled", "pending")
        ledger.write()
    return following(tx)


def _open_to_all(tx: Transaction, limit: int) -> None:
    """Let any node have what has waited for one of its own for long enough, or for nothing."""
    rows = tx.all("promote.near", tx.now, limit)
    if rows:
        tx.run("promote.anywhere", tx.array(seq for seq, _ in rows))
        ledger = Ledger(tx)
        for _, queue in rows:
            ledger.note_wake_up(queue)
        ledger.write()


def following(tx: Transaction) -> float | None:
    """When time next brings something: a task that is due, or a start that a rate allows."""
    moments = [row[0] for row in tx.all("promote.next")]
    moments += [row[0] for row in tx.all("promote.nodes")]
    for cells in tx.all("promote.rates"):
        bucket = bucket_from_cells(*cells)
        moments.append(None if bucket is None else bucket.next(tx.now))
    return min((moment for moment in moments if moment is not None), default=None)


class _Rules(Struct, frozen=True):
    """What a queue lets be taken; `places` None: any number."""

    places: int | None = 0
    lined: bool = False
    limits: KeyLimits = KeyLimits()
    fair: bool = False
    bucket: Bucket | None = None

    def room(self, enough: int, now: float) -> int:
        """How many more may be taken, as far as that is the queue's to say."""
        room = enough if self.places is None else self.places
        return room if self.bucket is None else min(room, self.bucket.room(now))


_CLOSED, _OPEN = _Rules(), _Rules(None)


def _rules(tx: Transaction, queue: str, ledger: Ledger, is_locked: bool) -> _Rules:
    settings = tx.one("reserve.queue", queue)
    if settings is None or settings[0]:
        return _CLOSED
    if _is_open(settings):
        return _OPEN
    if not is_locked and lock_queues(
        tx, [queue]
    ):  # those who take from it come one after the other
        settings = tx.one("reserve.queue", queue)
        if settings is None or settings[0]:
            return _CLOSED
    _, places, lined, key_limit, key_limits, fair, rate, per, tokens, at = settings
    if places is not None and not tx.dialect.counts_what_runs:
        places -= ledger.more_running(queue)
    return _Rules(
        places,
        lined != 0,
        KeyLimits(key_limit, limits_from_cell(key_limits)),
        fair is not None,
        bucket_from_cells(rate, per, tokens, at),
    )


def _is_open(settings: Row) -> bool:
    """Whether the queue has no limit, no lines and no rate: then it need not be asked."""
    _, places, lined, _, _, _, rate, *_ = settings
    return places is None and not lined and rate is None


def _chosen(
    tx: Transaction, queue: str, limit: int, handles: Handles, rules: _Rules, node: str
) -> list[int]:
    if not rules.lined:
        return best(tx, queue, limit, handles, node, claim=True)
    lanes = choose_handled(_lanes(tx, queue, _ALL), handles, node)
    return claim_rows(tx, best_in_lines(tx, queue, lanes, limit, rules.limits, rules.fair))


def _lanes(tx: Transaction, queue: str, limit: int) -> list[str]:
    return tx.bulk.lanes(tx, queue, limit)


def choose_handled(lanes: Iterable[str], handles: Handles, node: str | None) -> list[str]:
    """Those that a worker on this node (None: on any) can run."""
    return [name for name, lane in open_to(node, lanes) if handles_lane(lane, handles)]
