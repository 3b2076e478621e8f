"""What ties tasks of different queues together.

A task that waits for one in another shard has that in the set of what it waits for, as if it were
here; and the shard of the other knows that this one listens. An end there is noted for others;
whoever sees the note tells each shard that listens to look again, and then takes it away. To look
again is a note too, in the shard of who waits; whoever sees that one asks how the other is now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stayer.core.flows.model import FlowInfo, FlowPage
from stayer.core.model import FINISHED, Change, NewTask, State
from stayer.stores.redis import flows as ties
from stayer.stores.redis.record import Raw, pack
from stayer.stores.redis_cluster.fan_out import FanOut

if TYPE_CHECKING:
    from stayer.stores.redis_cluster.router import Shards

GONE = "cancelled"
"""What a task counts as that was deleted before its end."""


def states(shards: Shards, ids: Sequence[str]) -> dict[str, str]:
    """Return how these tasks are, or were when they were purged; those that nobody knows are left
    out.
    """
    found: dict[str, str] = {}
    shards.forget(ids)  # a place that was remembered may be one of the past
    for queue, numbered in shards.by_place(ids, ids).items():
        if queue:
            some = [id for _, id in numbered]
            answers = shards.server_of(queue).run("known_states", *some)
            found |= _read_states(some, answers)
    return found


def listen_for(shards: Shards, tasks: Sequence[NewTask]) -> dict[str, str]:
    """Listen to all in other shards that these new tasks are to run after; how those are."""
    coming = {new.id: new.queue for new in tasks}
    wanted = {new.id: (new.queue, (*new.after, *new.behind)) for new in tasks}
    return listen(shards, wanted.values(), coming)


def listen(
    shards: Shards, wanted: Iterable[tuple[str, Sequence[str]]], coming: Mapping[str, str]
) -> dict[str, str]:
    """Let queues hear of the ends of tasks in others, some of which have still to come."""
    pairs = list(wanted)
    outside = {id for _, ids in pairs for id in ids} - coming.keys()
    shards.forget(outside)
    places = {**(shards.places(sorted(outside)) if outside else {}), **coming}
    questions: dict[tuple[str, str], dict[str, None]] = {}
    for queue, ids in pairs:
        for id in ids:
            if id in places and places[id] != queue:
                questions.setdefault((places[id], queue), {})[id] = None
    found = dict.fromkeys(outside, GONE) | dict.fromkeys(coming, "pending")
    for (place, queue), those in questions.items():
        given = [part for id in those for part in (id, int(id in coming))]
        answers = shards.server_of(place).run("listen", queue, *given)
        found |= _read_states(list(those), answers)
    return found


def _read_states(ids: Sequence[str], answers: Sequence[bytes | None]) -> dict[str, str]:
    pairs = zip(ids, answers, strict=True)
    return {id: answer.decode() for id, answer in pairs if answer is not None}


def relay(fan_out: FanOut, queues: Iterable[str], limit: int, rounds: int) -> bool:
    """Pass on what has ended in these queues, and what follows from it; whether there is more that
    can be passed on.
    """
    todo = list(queues)
    for _ in range(rounds):
        if not todo:
            break
        changed: dict[str, None] = {}
        for queue in todo:
            step = partial(_step, fan_out, queue, limit)
            changed |= dict.fromkeys(fan_out.at(queue, step) or ())
        todo = list(changed)
    return bool(todo)


def _step(fan_out: FanOut, queue: str, limit: int) -> list[str]:
    """Pass on some of it; the queues in which there is more to do now."""
    shards, misses = fan_out.shards, fan_out.misses
    server = shards.server_of(queue)
    values, ends, unknown, afar = server.run("outbox", limit, pack({}))
    more = ties.relay_ends(server, values, ends, shards.get)
    if unknown:
        words = [each.decode() for each in unknown]
        notes = dict(zip(words[::2], words[1::2], strict=True))
        seen = _read_upstreams(fan_out, queue, notes)
        if seen:
            values, ends, *_ = server.run("outbox", limit, pack(seen))
            more = ties.relay_ends(server, values, ends, shards.get)
    changed: list[str] = []
    if afar:
        undelivered = _relay_to_others(fan_out, afar, changed)
        done = [each for each in afar if undelivered.isdisjoint(each[3:])]
        passed = [part for id, note, *_ in done for part in (id, note)]
        more = server.run("passed_on", *passed) > 0
    # What waits for a shard that can't be reached is left for later.
    return [*changed, queue] if more and fan_out.misses == misses else changed


def _read_upstreams(
    fan_out: FanOut, queue: str, notes: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """Return how tasks of other shards are, with the notes that were seen: those that can be
    reached.
    """
    now = fan_out.attempt(lambda: _ask_states(fan_out.shards, queue, list(notes)))
    if now is not None:
        return {id: (note, now.get(id, GONE)) for id, note in notes.items()}
    seen = {}
    for id, note in notes.items():
        if fan_out.is_slow:
            break
        one = fan_out.attempt(lambda id=id: _ask_states(fan_out.shards, queue, [id]))  # type: ignore[misc]
        if one is not None:
            seen[id] = (note, one.get(id, GONE))
    return seen


def _ask_states(shards: Shards, queue: str, ids: Sequence[str]) -> dict[str, str]:
    """Return how these are. The id of one that was deleted may have come again in a shard to which
    nobody has listened.
    """
    found = states(shards, ids)
    alive = [id for id, state in found.items() if state not in FINISHED]
    return found | (listen(shards, [(queue, alive)], {}) if alive else {})


def _relay_to_others(fan_out: FanOut, afar: Sequence[Raw], changed: list[str]) -> set[bytes]:
    """Let others look again, and note those that have something to do then; the answer is those
    that can't be reached.
    """
    ends_of: dict[bytes, list[Raw]] = {}
    for id, _, is_gone, *queues in afar:
        for queue in queues:
            ends_of.setdefault(queue, []).extend((id, is_gone))
    undelivered: set[bytes] = set()
    for queue, those in ends_of.items():
        name = queue.decode()
        look = partial(fan_out.shards.server_of(name).run, "look_again", *those)
        answer = fan_out.at(name, look)
        if answer is None:
            undelivered.add(queue)
        elif answer > 0:
            changed.append(name)
    return undelivered


_RANKS = {state: rank for rank, state in enumerate(("waiting", "scheduled", "pending"))}


def in_order(
    changes: Sequence[Change], places: Mapping[str, str]
) -> list[tuple[str, list[tuple[int, Change]]]]:
    """Changes with their numbers, in groups by queue. What waits comes after what it waits for, so
    that it does not hear of an end that is being taken back; and what may begin when another has
    ended comes before what can end.
    """
    ranks: dict[str, int] = {}
    groups: dict[tuple[int, str], list[tuple[int, Change]]] = {}
    for number, change in enumerate(changes):
        if (queue := places.get(change.id)) is None:
            continue
        rank = _RANKS.get(change.state, len(_RANKS))
        for id in change.effect.waits or ():
            rank = max(rank, ranks.get(id, 0) + (places.get(id) != queue))
        ranks[change.id] = rank
        groups.setdefault((rank, queue), []).append((number, change))
    return [(queue, group) for (_, queue), group in sorted(groups.items())]


def free(shards: Shards, queue: str, limit: int) -> bool:
    """Ask the others if they need what is to be forgotten here; whether some of it is free."""
    server = shards.server_of(queue)
    rows = server.run("asked", limit)
    by_queue: dict[str, list[bytes]] = {}
    for id, _, *queues in rows:
        for each in queues:
            by_queue.setdefault(each.decode(), []).append(id)
    needed = {
        id for each, ids in by_queue.items() for id in shards.server_of(each).run("needed", *ids)
    }
    unneeded = [part for id, note, *_ in rows if id not in needed for part in (id, note)]
    if unneeded:
        server.run("free", *unneeded)
    return bool(unneeded)


def flow(shards: Shards, id: str) -> FlowInfo | None:
    """Read one flow, put together from the shards that have some of it."""
    answers = shards.each("flows", id, "", 1) if id else []
    return next(iter(_merge(answers).values()), None)


def flows(shards: Shards, cursor: str | None, limit: int) -> FlowPage:
    """Read one page of flows. All shards have the flows in the same order."""
    found = _merge(shards.each("flows", "", cursor or "", limit + 1))
    places = sorted(found, reverse=True)
    shown = tuple(found[place] for place in places[:limit])
    return FlowPage(shown, places[limit - 1] if len(places) > limit > 0 else None)


def _merge(answers: Sequence[Raw]) -> dict[str, FlowInfo]:
    found: dict[str, FlowInfo] = {}
    for _, *rows in answers:
        for place, part in ties.read_flows(rows):
            found[place] = _sum(found[place], part) if place in found else part
    return found


def _sum(one: FlowInfo, other: FlowInfo) -> FlowInfo:
    counts: dict[str, dict[State, int]] = {part: {**of} for part, of in one.counts.items()}
    for part, of in other.counts.items():
        mine = counts.setdefault(part, {})
        for state, number in of.items():
            mine[state] = mine.get(state, 0) + number
    return replace(one, counts=counts)
