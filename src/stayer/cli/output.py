"""What goes to the screen: one-line messages, JSON, and text that can do no harm there.

Tables for people are in `tables.py`, which imports rich; nothing here needs it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

import rich_click as click

from stayer.core.safe_text import printable

if TYPE_CHECKING:
    from stayer.core.model import JSON
    from stayer.store import ReadStore

_LINES_PER_WRITE = 500
"""How many values are written at a time."""

# msgspec escapes the control characters below the space; terminals obey these too.
_CONTROL_CHARACTERS = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


safe = printable
"""Text that can do no harm on a screen."""


def print_line(text: str) -> None:
    """Print one line for people, on stdout."""
    click.echo(safe(text))


def note(text: str) -> None:
    """Print one line for people on stderr, where it disturbs no program that reads stdout."""
    click.echo(f"stayer: {safe(' '.join(text.split()))}", err=True)


def note_unreachable(away: dict[str, str]) -> int:
    """Say which queues a list lacks, if any; return the exit code, for programs."""
    if not away:
        return 0
    from stayer.core.availability import describe_away
    from stayer.core.errors import StoreUnreachable

    note(describe_away(away))
    return StoreUnreachable.exit_code


def json_text(value: JSON, *, pretty: bool = False) -> str:
    """Encode a value as JSON that is also harmless on a terminal."""
    from stayer.core import codec

    text = codec.encode_pretty(value) if pretty else codec.encode(value)
    return _CONTROL_CHARACTERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_json(value: JSON) -> None:
    """Print one indented JSON value."""
    _write(json_text(value, pretty=True) + "\n")


def print_outcome(line: str, record: JSON, as_json: bool) -> None:
    """Say what was done: one line for people, or the same as JSON."""
    if as_json:
        print_json(record)
    else:
        print_line(line)


def print_json_lines(values: Iterable[JSON]) -> None:
    """Print one JSON value a line, as they come."""
    print_lines(json_text(value) for value in values)


def print_json_array(values: Iterable[JSON]) -> None:
    """Print an indented array, written as its values come, however many there are."""
    opening = "[\n  "
    try:
        for value in values:
            _write(opening + json_text(value, pretty=True).replace("\n", "\n  "))
            opening = ",\n  "
    except Exception:
        if opening.startswith(","):
            _write("\n]\n")
        raise
    _write("\n]\n" if opening.startswith(",") else "[]\n")


def print_lines(lines: Iterable[str]) -> None:
    """Print one line each, in portions, as they come."""
    portion: list[str] = []
    for line in lines:
        portion.append(f"{safe(line)}\n")
        if len(portion) >= _LINES_PER_WRITE:
            _write("".join(portion))
            portion.clear()
    _write("".join(portion))


def _write(text: str) -> None:
    """Write text as UTF-8 whatever the locale, because programs read it."""
    write_bytes(text.encode("utf-8", "backslashreplace"))


def write_bytes(left: bytes) -> None:
    """Write these bytes as they are, at once."""
    if sys.stdout is None:
        return
    sys.stdout.flush()
    while left:  # unbuffered (PYTHONUNBUFFERED), it may take a part and say nothing
        left = left[sys.stdout.buffer.write(left) :]
    sys.stdout.buffer.flush()


def note_incoming(store: ReadStore) -> None:
    """Say how many tasks programs have pushed that nobody has taken. A worker that is there takes
    them in a moment.
    """
    from stayer.core.errors import StoreError

    with suppress(StoreError):
        if number := store.count_incoming():
            items, are = plural(number, "item"), "is" if number == 1 else "are"
            note(f"{items} that came from outside {are} no task yet: a worker or a server makes it")


def plural(number: int, what: str = "task") -> str:
    """Return `1 task`, `2 tasks`, `12,000 tasks`."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def on_screen() -> bool:
    """Return whether stdout goes to a terminal; it may also be closed."""
    return sys.stdout is not None and sys.stdout.isatty()


def is_terminal() -> bool:
    """Return whether somebody is there to answer a question."""
    streams = (sys.stdin, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)


def stdin() -> BinaryIO:
    """Return what is piped in; raises BadInput where stdin was closed."""
    if sys.stdin is None:
        from stayer.core.errors import BadInput

        raise BadInput("stdin is closed, there is nothing to read: name a file")
    return sys.stdin.buffer
