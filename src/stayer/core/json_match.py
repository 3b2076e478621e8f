"""Conditions on JSON values, as people write them: `source=s3://bucket/a`, `layers[0].size=64`.

A condition is a path and a value, which is text, a number, true, false or null. What is written
without quotes may be meant as either: `seed=3` holds for `3`, `3.0` and `"3"`. This is the last
word on whether a condition holds: a database may leave out beforehand what it knows not to match.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from stayer.core.decoding import decode_json
from stayer.core.errors import BadInput
from stayer.core.limits import quote
from stayer.core.model import JSON, Filter, Task, Value

_STEP = re.compile(r'\[(\d{1,9})\]|\["((?:[^"\\]|\\.)*)"\]|(?:^|\.)([^.\[\]="]+)')
_PATHS = (
    "what is inside a value is NAME.NAME or NAME[0], and a name with a dot, bracket or = in it "
    '["NAME"]'
)
Path: TypeAlias = tuple[str | int, ...]
"""Names in objects, places in lists."""
_decode = msgspec.json.Decoder().decode


class Condition(Struct, frozen=True):
    """What has to be where."""

    path: Path
    text: str
    """The value as it was written."""
    value: float | bool | UnsetType | None = UNSET
    """What that says if it is JSON, and no text."""

    @property
    def number(self) -> float | None:
        """The number that it says, if it says one."""
        value = self.value
        return None if value is UNSET or isinstance(value, bool) else value


@lru_cache(maxsize=1024)
def parse(what: str, written: str) -> Condition:
    """Read `PATH=VALUE`; BadInput if it is of another form."""
    path, at = _read_path(written)
    if not path or written[at : at + 1] != "=":
        raise BadInput(f"{what} {quote(written)}: write NAME=VALUE; {_PATHS}")
    text = written[at + 1 :]
    try:
        value = _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Condition(tuple(path), text)
    if isinstance(value, str):  # in quotes: text alone is meant
        return Condition(tuple(path), value)
    if isinstance(value, dict | list):
        raise BadInput(f"{what} {quote(written)}: give text, a number, true, false or null")
    return Condition(tuple(path), text, value)


def parse_path(written: str) -> Path:
    """Read a path alone; BadInput if it is none."""
    path, at = _read_path(written)
    if not path or at != len(written):
        raise BadInput(f"{quote(written)} is no path: write NAME; {_PATHS}")
    return tuple(path)


def _read_path(written: str) -> tuple[list[str | int], int]:
    """Return the path that a text begins with, and where it ends."""
    path: list[str | int] = []
    at = 0
    while step := _STEP.match(written, at):
        number, quoted, name = step.groups()
        if number is not None:
            path.append(int(number))
        else:
            path.append(name if name is not None else _unquoted(quoted))
        at = step.end()
    return path, at


def _unquoted(text: str) -> str:
    try:
        return decode_json(f'"{text}"', str)
    except msgspec.DecodeError:
        return text


def matches(filter: Filter, task: Task) -> bool:
    """Return whether all conditions of a filter on JSON hold for a task."""
    return all(holds(parse("meta", each), task.meta) for each in filter.meta) and all(
        holds(parse("where", each), task.parameters) for each in filter.where
    )


def holds(condition: Condition, value: Value) -> bool:
    """Return whether a condition holds for a value."""
    try:
        return _is_meant(condition, look_up(value, condition.path))
    except LookupError:
        return False


def look_up(value: Value, path: Path) -> Value:
    """Return what is at a path of a value; LookupError if nothing is."""
    for step in path:
        match step, value:
            case str(), dict():
                value = value[step]
            case int(), list():
                value = value[step]
            case _:
                raise LookupError(step)
    return value


def _is_meant(condition: Condition, value: JSON | bytes) -> bool:
    if isinstance(value, str):
        return value == condition.text
    wanted = condition.value
    if wanted is UNSET or isinstance(value, bytes | dict | list):
        return False
    if isinstance(value, bool) or isinstance(wanted, bool) or value is None or wanted is None:
        return value is wanted
    return value == wanted
