"""Texts that are far too long, for every field that takes text: made from the fields themselves, so
that a new one is tried without anybody thinking of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, UnsetType

MANY = 200_000
LONG = (
    " " * MANY,
    "1" + " " * MANY + "x",
    "1/a" + " " * MANY + "b",
    "1" * MANY,
    "a" * MANY,
)
"""What a pattern with two loose ends would go over again and again."""


def long_values(kind: type, apart_from: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The fields of a record that take text, each with values that are too long for it."""
    for name, hint in get_type_hints(kind).items():
        if name in apart_from:
            continue
        for text in LONG:
            for value in _shapes(hint, text):
                yield name, value


def _shapes(hint: Any, text: str) -> Iterator[Any]:
    """The text, in all forms that the field takes."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        yield from _shapes(arguments[0], text)
    elif origin in (Union, UnionType):
        for each in arguments:
            yield from _shapes(each, text)
    elif origin is Literal or hint is str:
        yield text
    elif origin in (tuple, list):
        yield [text]
    elif origin is dict or hint is dict:
        yield {text: "1"}
        yield {"A": text}
    elif isinstance(hint, type) and issubclass(hint, Struct):
        for name, value in long_values(hint):
            yield {name: value}
    elif hint not in (int, float, bool, NoneType, UnsetType, Any):
        raise AssertionError(f"say here what is too long for {hint}")
