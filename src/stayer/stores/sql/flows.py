"""What ties tasks together: upstreams, the outbox, flows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from stayer.core.decoding import json_decoder
from stayer.core.errors import BadInput
from stayer.core.flows.model import (
    Ended,
    FlowInfo,
    FlowPage,
    NewFlow,
    Part,
    Upstreams,
    decide_waiting,
)
from stayer.core.model import FINISHED, NewTask, State, Task
from stayer.store import REMEMBERED
from stayer.stores.sql.commit import apply, need
from stayer.stores.sql.rows import check_row, form, task_from_row
from stayer.stores.sql.transaction import UNCLAIMED, Row, Transaction

_parts = json_decoder(tuple[Part, ...])
_NEWEST = 2**62


def upstream_states(
    tx: Transaction,
    tied: Sequence[NewTask],
    tasks: Sequence[NewTask],
    there: Mapping[str, State],
) -> dict[str, State]:
    """How all that the tied ones are to run after stands, be it `there`, among the new `tasks` or
    elsewhere; raises BadInput for what nobody knows.
    """
    states: dict[str, State] = {new.id: there.get(new.id, "pending") for new in tasks}
    wanted = {id for new in tied for id in (*new.after, *new.behind) if id not in states}
    if wanted:
        named = tx.array(sorted(wanted))
        states.update(tx.all("upstreams.purged", named, tx.now - REMEMBERED))
        states.update(tx.all("states" if tx.may_stay_open else "upstreams.there", named))
    for new in tied:
        for id in (*new.after, *new.behind):
            if id not in states:
                raise BadInput(
                    f"task {new.id} is to run after {id!r}, and there is no such task: submit that "
                    "one first, or both together. Nothing was accepted"
                )
    return states


def waits_for(new: NewTask, states: Mapping[str, State]) -> set[str]:
    """Those of its upstreams that don't count yet."""
    anyhow = new.policy.when_failed == "run"
    after = {
        id
        for id in new.after
        if states[id] != "complete" and not (anyhow and states[id] in FINISHED)
    }
    # How it ended, and where, is told as if it ended now.
    near = set() if new.policy.near is None else {new.policy.near}
    return after | near | {id for id in new.behind if states[id] not in FINISHED}


def tie(tx: Transaction, tasks: Sequence[NewTask], states: Mapping[str, State]) -> None:
    """Enter what these tasks, which are there, are to run after."""
    rows: list[Row] = []
    for new in tasks:
        waits, after = waits_for(new, states), set(new.after)
        rows += (
            (new.id, position, id, int(id not in after), id in waits)
            for position, id in enumerate(dict.fromkeys((*new.after, *new.behind)))
        )
    if rows:
        tx.many("upstreams.add", rows)
        if tx.may_stay_open:
            _tie_later(tx, {row[0] for row in rows if row[4]})
            return
        upstreams = {row[2] for row in rows}
        tx.run("upstreams.needed", tx.array(upstreams))
        ended = {row[2] for row in rows if row[4] and states[row[2]] in FINISHED}
        tx.many("outbox.add", [(id, states[id], tx.now) for id in ended])


def _tie_later(tx: Transaction, ids: Collection[str]) -> None:
    """Whoever relays once this is committed lets their upstreams know. To do it now would lock what
    others need: an upstream's row, or its place in the outbox.
    """
    tx.many("outbox.add", [(id, "waiting", tx.now) for id in sorted(ids)])


def relay(tx: Transaction, limit: int) -> bool:
    """Pass on to up to so many dependents what has ended; whether there is more."""
    ended: dict[int, list[Ended]] = {}
    heard: list[str] = []
    alive: list[str] = []
    left = limit
    for id, state in _claim_outbox(tx, limit):
        if state not in FINISHED:
            alive.append(id)
        waiters = tx.all("outbox.waiters", id, left) if state in FINISHED else []
        for seq, anyhow in waiters:
            ended.setdefault(seq, []).append(Ended(id, state, anyhow != 0))
        left -= len(waiters)
        if left <= 0:
            break
        heard.append(id)
    _tell(tx, ended)
    if alive:  # one that was deleted may have come again: then it is this one that is waited for
        tx.run("upstreams.needed", tx.array(alive))
    if heard:
        tx.run("outbox.acknowledge", tx.array(heard))
    # One that came within a caller's transaction; behind what was acknowledged, which may name the
    # same upstreams, before this one was there.
    upstreams = [id for (id,) in tx.all("waits.of", tx.array(alive))] if alive else []
    if upstreams:
        need(tx, sorted(upstreams))
    return tx.one("outbox" + UNCLAIMED, 1) is not None


def _claim_outbox(tx: Transaction, limit: int) -> list[tuple[str, State]]:
    """Claim what has ended, with the state that each is in now. Where several write at a time, the
    statement that claims may see a row of the outbox that is newer than what it sees of the task.
    """
    claimed = tx.all("outbox", limit)
    if not claimed or not tx.dialect.lock:
        return [(id, state or noted) for id, state, noted in claimed]
    states: dict[str, State] = {id: noted for id, _, noted in claimed}
    states |= dict(tx.all("states", tx.array(states)))
    return list(states.items())


def _tell(tx: Transaction, ended: Mapping[int, Sequence[Ended]]) -> None:
    # Locked before any wait is looked at: of two who bring the last two ends at the same time, the
    # second one has to see that nothing is left.
    rows = tx.all("get.locked", tx.array(ended)) if ended else []
    tasks = {row[-1]: task_from_row(row) for row in rows}
    tx.many("waits.end", [(seq, each.id) for seq, of in ended.items() for each in of])
    changes = []
    for seq in ended:
        task = tasks.get(seq)
        if task is None:
            continue  # deleted meanwhile
        waits = tx.one("waits.any", seq)
        assert waits is not None
        if task.state == "waiting":
            change = decide_waiting(task, ended[seq], waits[0], _near(tx, task))
            changes += [] if change is None else [change]
    apply(tx, changes)


def _near(tx: Transaction, task: Task) -> Task | None:
    """The one that it is to run near."""
    if task.policy.near is None:
        return None
    row = tx.one("get", tx.array([task.policy.near]))
    return None if row is None else task_from_row(row)


def upstreams(tx: Transaction, ids: Sequence[str]) -> list[Upstreams]:
    """What each was to run after."""
    found = []
    for id in ids:
        rows = tx.all("upstreams", id)
        found.append(
            Upstreams(
                tuple(upstream for upstream, anyhow in rows if not anyhow),
                tuple(upstream for upstream, anyhow in rows if anyhow),
            )
        )
    return found


def waits(tx: Transaction, id: str, limit: int) -> tuple[list[str], int]:
    """Some of what it waits for, and how many they are."""
    count = tx.one("waits.count", id)
    assert count is not None
    return [upstream for (upstream,) in tx.all("waits", id, limit)], count[0]


def add_flow(tx: Transaction, flow: NewFlow) -> bool:
    """Whether it was not there before."""
    parts = msgspec.json.encode(flow.parts).decode()
    return tx.run("flow.add", flow.id, flow.name, flow.owner, tx.now, parts) == 1


def flows(tx: Transaction, cursor: str | None, limit: int) -> FlowPage:
    """One page, and where the next one begins."""
    try:
        before = _NEWEST if cursor is None else int(cursor)
    except ValueError:
        raise BadInput(f"{cursor!r} is not a cursor: use the one that came with the page") from None
    rows = tx.all("flows", before, limit + 1)
    following = str(rows[limit - 1][0]) if len(rows) > limit else None
    return FlowPage(tuple(_flow(tx, row) for row in rows[:limit]), following)


def flow(tx: Transaction, id: str) -> FlowInfo | None:
    """One flow."""
    row = tx.one("flow", id)
    return None if row is None else _flow(tx, row)


_FLOW = form("integer", "2 text", "text?", "real", "text")


def _flow(tx: Transaction, row: Row) -> FlowInfo:
    _, id, name, owner, created, parts = check_row(row, _FLOW)
    counts: dict[str, dict[State, int]] = {}
    for part, state, number in tx.all("flow.counts", id):
        counts.setdefault(part or "", {})[state] = number
    return FlowInfo(
        id=id, name=name, owner=owner, created=created, parts=_parts.decode(parts), counts=counts
    )


def explain_taken_ids(ids: Collection[str]) -> str:
    """What is wrong with a flow whose tasks have ids that are in use."""
    some = ", ".join(sorted(ids)[:3])
    return (
        f"{len(ids)} of the flow's tasks have ids that are or were in use ({some}): give the flow "
        "another id. Nothing was accepted"
    )
