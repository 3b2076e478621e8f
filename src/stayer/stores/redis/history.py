"""The history of a task: behind its record in its value, or before that in a list of its own."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from stayer.core.decoding import json_decoder, msgpack_decoder
from stayer.core.history.attempt_times import moment_of
from stayer.core.history.gaps import DROPPED, keep_across_gap, note
from stayer.core.model import Attempt, Event, Fault, State
from stayer.stores.redis.record import (
    INITIALLY_SCHEDULED,
    INITIALLY_WAITING,
    created_and_seq,
    record_end,
    task,
    usage,
)

_fault = json_decoder(Fault)


class About(msgspec.Struct, array_like=True, frozen=True):
    """What an entry of a task's history says; `worker` is true for the one that has the attempt.
    `was_at` is there where it was told late: when it was.
    """

    at: float
    event: str
    worker: str | bool = False
    note: str | bool = False
    ending: str | bool = False
    error: str | bool = False
    node: str | bool = False
    pid: int | bool = False
    was_at: float | bool = False


class Moment(msgspec.Struct, frozen=True):
    """One entry of a task's history; `number` is 0 where it is no event."""

    number: int
    attempt: int
    about: About


_moment = struct.Struct(">QII")
_about = msgpack_decoder(About).decode


def history(value: bytes, older: Sequence[bytes]) -> Iterator[Moment]:
    """Yield all that happened to a task since it was made, oldest first.

    Entries stand behind each other: number, attempt, length of the rest, and the rest. One without
    a rest begins a part of the older ones: its number is how many entries came before.
    """
    read = missing = 0
    for part in (*older, value[record_end(value) :]):
        position = 0
        while position < len(part):
            number, attempt, length = _moment.unpack_from(part, position)
            position += _moment.size
            if not length:
                missing, read = number - read, number
                continue
            about = _about(part[position : position + length])
            if missing:
                yield Moment(number - 1, 0, About(about.at, DROPPED, note=note(missing)))
                missing = 0
            yield Moment(number, attempt, about)
            position += length
            read += 1


def events(value: bytes, older: Sequence[bytes]) -> list[Event]:
    """Return the events of a task; the first is in its record."""
    (created, seq), known = created_and_seq(value), task(value)
    initial: State = "scheduled" if value[0] & INITIALLY_SCHEDULED else "pending"
    if value[0] & INITIALLY_WAITING:
        initial = "waiting"
    id, queue = known.id, known.queue
    found = [Event(number=seq, at=created, id=id, queue=queue, event=initial)]
    holder: str | None = None
    for moment in history(value, older):
        about = moment.about
        holder = about.worker if isinstance(about.worker, str) else holder
        if about.event == DROPPED:
            holder = None
        if moment.number:
            worker, note = holder if about.worker else None, about.note
            found.append(
                Event(
                    number=moment.number,
                    at=about.at,
                    id=id,
                    queue=queue,
                    event=about.event,
                    attempt=moment.attempt,
                    worker=worker,
                    note=note if isinstance(note, str) else None,
                )
            )
    return found


def attempts(value: bytes, older: Sequence[bytes], usages: dict[int, bytes]) -> list[Attempt]:
    """Return the attempts of a task, put together from its history."""
    found: dict[int, dict[str, Any]] = {}
    for moment in history(value, older):
        about = moment.about
        if about.event == DROPPED:
            found = keep_across_gap(found, task(value))
        if about.event == "reserved":
            node = about.node or None
            found[moment.attempt] = {"worker": about.worker, "node": node, "reserved_at": about.at}
        attempt = found.get(moment.attempt)
        if attempt is None:
            continue
        if about.event == "started":
            attempt["started_at"] = moment_of(about.at, about.was_at or None, attempt)
            attempt["pid"] = None if about.pid is False else about.pid
        if about.ending:
            attempt["finished_at"] = moment_of(about.at, about.was_at or None, attempt)
            attempt["ending"] = about.ending
            error = about.error
            attempt["error"] = _fault.decode(error) if isinstance(error, str) else None
    return [
        Attempt(
            attempt=number, usage=usage(usages[number]) if number in usages else None, **attempt
        )
        for number, attempt in sorted(found.items())
    ]
