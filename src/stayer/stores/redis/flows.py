"""What ties tasks together: upstreams, the outbox, flows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import msgspec

from stayer.core.decoding import convert, json_decoder
from stayer.core.errors import BadInput, Refused
from stayer.core.flows.model import (
    Ended,
    FlowInfo,
    FlowPage,
    NewFlow,
    Part,
    Upstreams,
    decide_waiting,
    explain_unique_conflict,
)
from stayer.core.model import State, Task
from stayer.stores.redis import reads, record
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.pack import changes
from stayer.stores.redis.pack.changes import Arguments
from stayer.stores.redis.record import Raw


class _About(msgspec.Struct):
    """What the key of a flow says."""

    name: str
    owner: str | None
    created: float
    micros: int
    parts: tuple[Part, ...]


about: Callable[[bytes], _About] = json_decoder(_About).decode
"""Read the key of a flow."""


def pack_flow(flow: NewFlow, created: float | None = None) -> bytes:
    """A new flow as the script gets it; its time comes from there, unless it is given."""
    said = {"name": flow.name, "owner": flow.owner, "parts": flow.parts}
    moment = () if created is None else (repr(created),)
    return record.pack((flow.id, msgspec.json.encode(said).decode(), *moment))


class FlowKnown(Exception):
    """A flow with this id is there."""


def refuse(problem: Raw) -> NoReturn:
    """Raise what a submit was refused for."""
    if problem == b"known flow":
        raise FlowKnown
    if problem[0] == b"unknown upstream":
        task, upstream = (each.decode() for each in problem[1:])
        raise BadInput(
            f"task {task} is to run after {upstream!r}, and there is no such task: submit that one "
            "first, or both together. Nothing was accepted"
        )
    if problem[0] == b"kept out":
        raise Refused(explain_unique_conflict(problem[1].decode(), problem[2].decode()))
    ids = sorted(each.decode() for each in problem[1])
    raise Refused(
        f"{len(ids)} of the flow's tasks have ids that are or were in use ({', '.join(ids[:3])}): "
        "give the flow another id. Nothing was accepted"
    )


def relay(server: Server, limit: int) -> bool:
    """Let up to so many waiters hear of what has ended; whether there is more to pass on."""
    values, ends, *_ = server.run("outbox", limit, record.pack({}))
    return relay_ends(server, values, ends, partial(reads.get, server))


def relay_ends(
    server: Server,
    values: Sequence[bytes],
    ends: Sequence[Raw],
    get: Callable[[Sequence[str]], Sequence[Task | None]],
) -> bool:
    """Let these waiters hear of what has ended; whether there is more to pass on."""
    waiters: list[Raw] = []
    tasks = record.tasks(values)
    wanted = list(dict.fromkeys(task.policy.near for task in tasks if task.policy.near))
    nearby = dict(zip(wanted, get(wanted), strict=True)) if wanted else {}
    for task, (number, *words) in zip(tasks, ends, strict=True):
        ended = [_read_ended(words[at : at + 3]) for at in range(0, len(words), 3)]
        upstream = nearby.get(task.policy.near) if task.policy.near else None
        left = number - len(ended)
        change = decide_waiting(task, ended, left, upstream) if task.state == "waiting" else None
        group = changes.pack_changes([change], Arguments(0))[0] if change else False
        waiters.append((task.id, number, [each.id for each in ended], group))
    return bool(server.run("relay", record.pack(waiters)))


def _read_ended(words: Sequence[bytes]) -> Ended:
    id, state, kind = (word.decode() for word in words)
    return Ended(id, convert(state, State), kind == "b")


def upstreams(server: Server, ids: Sequence[str]) -> list[Upstreams]:
    """Return what each was to run after."""
    found = []
    for members, _, _ in server.run("ties", 0, *ids) if ids else ():
        named = [member.decode() for member in members]
        found.append(
            Upstreams(
                tuple(name[1:] for name in named if name[0] == "a"),
                tuple(name[1:] for name in named if name[0] == "b"),
            )
        )
    return found


def waits(server: Server, id: str, limit: int) -> tuple[list[str], int]:
    """Return some of what it waits for, and how many they are."""
    [(_, some, number)] = server.run("ties", limit, id)
    return [each.decode() for each in some], number


def flows(server: Server, cursor: str | None, limit: int) -> FlowPage:
    """Read one page of flows, and where the next one begins."""
    following, *rows = server.run("flows", "", cursor or "", limit)
    return FlowPage(tuple(found for _, found in read_flows(rows)), following.decode() or None)


def flow(server: Server, id: str) -> FlowInfo | None:
    """Read one flow."""
    _, *rows = server.run("flows", id, "", 1)
    return next((found for _, found in read_flows(rows)), None) if id else None


def read_flows(rows: Sequence[Raw]) -> list[tuple[str, FlowInfo]]:
    """Flows as the script tells of them, each with its place in the order of all."""
    return [_flow(*rows[at : at + 3]) for at in range(0, len(rows), 3)]


def _flow(id: bytes, stored: bytes, pairs: Sequence[Any]) -> tuple[str, FlowInfo]:
    known = about(stored)
    counts: dict[str, dict[State, int]] = {}
    for at in range(0, len(pairs), 2):
        state, _, part = pairs[at].decode().partition(" ")
        if number := int(pairs[at + 1]):
            counts.setdefault(part, {})[state] = number
    found = FlowInfo(
        id=id.decode(),
        name=known.name,
        owner=known.owner,
        created=known.created,
        parts=known.parts,
        counts=counts,
    )
    return f"{known.micros:016d}{found.id}", found
