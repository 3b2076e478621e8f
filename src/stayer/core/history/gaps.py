"""What is said of a history whose middle was dropped: its beginning and its newest part are kept
(`store.HISTORY_HEAD`, `HISTORY_TAIL`). Pure; called by the stores where they read or copy one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stayer.core.history.line import Line
from stayer.core.model import Task

DROPPED = "dropped"
"""The event that stands where others are no longer kept."""
_PART = 50
"""How many lines of a long history are one part: the middle goes by parts."""


def note(count: int) -> str:
    """Return what the event of a gap says."""
    return f"{count:,} events were here: of so many only the first and the last are kept"


def _missing(said: str | None) -> int:
    """Return how many events such a note stands for."""
    return int((said or "0").partition(" ")[0].replace(",", ""))


def cut_into_parts(lines: Sequence[Line]) -> list[tuple[int, list[Line]]]:
    """Cut a history at its gaps, and where a part would become too long; with each part, how many
    lines came before it.
    """
    parts: list[tuple[int, list[Line]]] = []
    position = 0
    for line in lines:
        if line.event == DROPPED:
            position += _missing(line.note)
            continue
        is_next = parts and parts[-1][0] + len(parts[-1][1]) == position
        if not is_next or len(parts[-1][1]) >= _PART:
            parts.append((position, []))
        parts[-1][1].append(line)
        position += 1
    return parts


def keep_across_gap(found: dict[int, dict[str, Any]], task: Task) -> dict[int, dict[str, Any]]:
    """Return what is known of attempts, by number, when reading comes to the gap. One whose end was
    dropped must not seem to go on, so only the newest may be without; and that one is known from
    the task's record, should its beginning be gone.
    """
    known = {
        number: attempt
        for number, attempt in found.items()
        if "ending" in attempt or number == task.attempt
    }
    if task.attempt and task.attempt not in known:
        known[task.attempt] = {
            "worker": task.worker,
            "node": task.node,
            "pid": task.pid,
            "started_at": task.started_at,
        }
    return known
