"""The history of a task: the column `history`, a JSON array a line, and what can be read from it.

A line is number, time, event, attempt, worker, note, ending, error, node, pid, and when it was if
it was told late; what is not there at its end is left out. The worker is `true` where it is the one
that has the attempt. A line with the number 0 is no event, but only the end of an attempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from stayer.core.decoding import json_decoder
from stayer.core.history.attempt_times import moment_of
from stayer.core.history.gaps import DROPPED, keep_across_gap, note
from stayer.core.history.line import Line
from stayer.core.model import Attempt, Event, Task, Usage

LONGEST = 4000
"""What a row keeps of its history; more is moved out of it when the next line comes."""


_decode = json_decoder(Line).decode_lines
_encode = msgspec.json.Encoder().encode


def line(*parts: Any) -> str:
    """The parts of a `Line`, as they are stored."""
    end = len(parts)
    while parts[end - 1] is None:
        end -= 1
    return _encode(parts[:end]).decode() + "\n"


def after_number(*parts: Any) -> str:
    """A line's parts from the second on, where SQL itself puts the number before them."""
    return "," + line(*parts)[1:]


def around_attempt(now: float, worker: str, node: str) -> tuple[str, str]:
    """The line of a reservation: what stands between number and attempt, and behind it."""
    behind = _encode((worker, None, None, None, node)).decode()
    return f',{now!r},"reserved",', f",{behind[1:]}\n"


def read_history(parts: Sequence[tuple[int | None, str]]) -> list[Line]:
    """A history, oldest first, from its parts: how many lines came before (None: those of the parts
    before it), and the lines. One more stands where some are missing.
    """
    lines: list[Line] = []
    read = 0
    for before, part in parts:
        found = _decoded(part)
        if before is not None and before > read and found:
            following = found[0]
            lines.append(
                Line(following.number - 1, following.at, DROPPED, note=note(before - read))
            )
            read = before
        lines += found
        read += len(found)
    return lines


def _decoded(part: str) -> list[Line]:
    """The lines that can be read: what somebody wrote there by hand must not hide the rest."""
    try:
        return _decode(part)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
        lines = []
        for each in str(part).splitlines():
            with suppress(msgspec.MsgspecError, ValueError, RecursionError):
                lines += _decode(each)
        return lines


def events(id: str, queue: str, lines: Sequence[Line]) -> Iterator[Event]:
    """What happened to a task."""
    holder: str | None = None
    newest = 0
    for line in lines:
        holder = line.worker if isinstance(line.worker, str) else holder
        if line.event == DROPPED:
            holder = None
        if line.number:
            # Of two who change a task at once, the second may have drawn its number first.
            newest = max(line.number, newest + 1)
            yield Event(
                number=newest,
                at=line.at,
                id=id,
                queue=queue,
                event=line.event,
                attempt=line.attempt,
                worker=holder if line.worker else None,
                note=line.note,
            )


def attempts(task: Task, lines: Sequence[Line], usages: Mapping[int, Usage]) -> list[Attempt]:
    """The attempts of a task."""
    found: dict[int, dict[str, Any]] = {}
    for line in lines:
        if line.event == DROPPED:
            found = keep_across_gap(found, task)
        if line.event == "reserved":
            found[line.attempt] = {"worker": line.worker, "node": line.node, "reserved_at": line.at}
        attempt = found.get(line.attempt)
        if attempt is None:
            continue
        if line.event == "started":
            attempt.update(started_at=moment_of(line.at, line.was_at, attempt), pid=line.pid)
        if line.ending is not None:
            ended = moment_of(line.at, line.was_at, attempt)
            attempt.update(finished_at=ended, ending=line.ending, error=line.error)
    return [
        Attempt(attempt=number, usage=usages.get(number), **attempt)
        for number, attempt in sorted(found.items())
    ]
