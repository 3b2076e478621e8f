"""How long texts and lists may be: tables from which checks, messages and OpenAPI follow. Those
of the fields of a task and of filters are a part of `core.fields` and `core.filters`.

Lengths are checked before anything is parsed or matched: what is too long costs nobody but its
sender. Numbers count characters, or items of a list. `docs/reference/json.md` shows them all.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING

from msgspec import Struct

from stayer.core.errors import BadInput

if TYPE_CHECKING:
    from stayer.core.worker_model import Handles

ID = 256
"""The id of a task."""
WORD = 200
"""A name, a queue, a tag, a pattern for errors: whatever else is one word."""
UNIT = 100
"""A duration, size, rate, moment, cron expression or time zone."""
PATH = 4096
"""A path, as the kernel has it."""
TEXT = 64_000
"""A word of a command, or a variable: no more than the whole record may have."""
HOOK = 2200
"""A hook: the words for what happened, and a URL of up to 2,000 characters."""
RECORD = 64_000
"""Bytes of the whole record as JSON, without parameters, result, error and progress."""
WRITTEN = 6_400_000
"""Bytes of one task as JSON, before anybody reads it: parameters and record, with six for each
character (`\\u0061`). As many are taken from the list of Redis at once.
"""
META = 4_000
"""Bytes of the fields of the user's own as JSON: every list of tasks carries them."""
QUEUE_DEFAULTS = 4_000
"""Bytes of what a queue says for its tasks as JSON: each of them has it, besides its own."""
CONDITION = 1000
"""A condition on one of them, or on a parameter: a path, `=` and a value."""
FLOW_TASKS = 20_000
"""Parts of a flow, and tasks: it is accepted in one step."""
FLOW_TIES = 200_000
"""Pairs of a task and one that it runs after, in a flow or another submission."""
FLOW_BYTES = 64_000_000
"""Bytes of the parameters and records of all tasks of a flow, as JSON. A few words can ask for far
more than they are long, so all three are counted before anything is laid out.
"""
NOTE = 1000
"""A note in the history of a task, or a message with its progress."""
ERROR_TYPE, ERROR_TEXT, ERROR_BASES = 1000, 64_000, 50
"""The type of an error; its message, or its traceback; and how many classes it is also one of."""
LOCK = 256_000
"""A lock: what requirements became when they were pinned. As `task/prepare/build.py` has it, which
stands alone.
"""
HANDLES, HANDLES_TEXT = 1000, 64_000
"""Patterns of what a worker runs, and their characters in all: each is compared with what waits in
the queue, while the store does nothing else.
"""
LIST = 10_000_000
"""Bytes after which a page of a list ends, but for its first record."""


COMPARED = 32_000_000
"""Bytes of the parameters and results of all tasks that are compared at once: all are in memory."""


class Most(Struct, frozen=True):
    """What fits: characters of the text, or of each item; and how many items (None: no list)."""

    characters: int
    items: int | None = None


_WORD, _UNIT = Most(WORD), Most(UNIT)
PROGRAM = Most(PATH)
"""The first word of a command, which workers match with patterns."""
SCHEDULE: dict[str, Most] = {
    "name": Most(150),
    "cron": _UNIT,
    "zone": _UNIT,
    "jitter": _UNIT,
    "origin": Most(PATH),
}
"""The fields of a schedule; the name is shorter than an id, which is made of it and of a tick."""
QUEUE: dict[str, Most] = {
    "name": _WORD,
    "key_limits": Most(WORD, 1000),
    "rate": _UNIT,
    "notify": Most(HOOK, 10),
}
"""The settings of a queue; of key limits so many in all, not only at a time."""


def quote(value: object) -> str:
    """Quote a value for an error message: no more of it than a reader needs."""
    if isinstance(value, int) and value.bit_length() > 200:
        return "so long a number"
    if isinstance(value, str):
        return repr(value) if len(value) <= 60 else f"{value[:60]!r}…"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def check_length(what: str, text: str, most: int = WORD) -> None:
    """BadInput if there are more characters than fit."""
    if len(text) > most:
        raise BadInput(
            f"{what} {quote(text[:20] + '…')} has {len(text):,} characters, at most {most:,} fit"
        )


def check_count(what: str, items: Sized, most: int | None) -> None:
    """BadInput if there are more items than fit."""
    if most is not None and len(items) > most:
        raise BadInput(f"{what}: {len(items):,} are too many, at most {most:,} fit")


def check_handles(handles: Handles) -> None:
    """BadInput if there are more patterns than fit, or longer ones."""
    found = (*handles.names, *handles.programs, *handles.variables)
    if len(found) > HANDLES:
        raise BadInput(
            f"handles: {len(found):,} patterns are too many, at most {HANDLES:,} fit: let one "
            "stand for several, as in encode.*"
        )
    if (size := sum(map(len, found))) > HANDLES_TEXT:
        raise BadInput(
            f"handles: the patterns have {size:,} characters, at most {HANDLES_TEXT:,} fit in all"
        )


def cut(text: str, most: int) -> str:
    """Return as much of a text as fits, for what is not worth refusing its news."""
    return text if len(text) <= most else text[: most - 1] + "…"
