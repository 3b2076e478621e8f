"""What is wrong with JSON that doesn't fit its form, in our words instead of the decoder's."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args, get_origin, get_type_hints

_KINDS = {
    "object": "an object",
    "array": "a list",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
}
_LONGEST = 200
_EXPECTED = re.compile("expected (.+), got ([a-z]+)", re.IGNORECASE)
_MISSING = re.compile("object missing required field (.+)", re.IGNORECASE)
_ENUM = re.compile("invalid enum value (.+)", re.IGNORECASE)


def split(message: str) -> tuple[str, str]:
    """Split the decoder's message into the problem and the place (`tasks.a.after[0]`), which may be
    ''.
    """
    problem, _, where = message.replace("`", "").rpartition(" - at $")
    if not problem:
        problem, where = where, ""
    return shorten(problem), shorten(where.removeprefix("."))


def shorten(text: str) -> str:
    """Shorten a part of the decoder's message, which quotes what was written in full."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"


def in_words(problem: str, where: str, kind: type | None = None) -> str:
    """Say what should be there instead; `kind` is what was to be read, to know what
    may be chosen.
    """
    if found := _EXPECTED.fullmatch(problem):
        wanted = [each for each in found[1].split(" | ") if each != "null"]
        kinds = " or ".join(_KINDS.get(each, each) for each in wanted)
        example = ': write ["…"]' if "array" in wanted and found[2] == "str" else ""
        return f"should be {kinds}, not {_KINDS.get(found[2], found[2])}{example}"
    if found := _MISSING.fullmatch(problem):
        return f"the field {found[1]} is missing"
    if found := _ENUM.fullmatch(problem):
        allowed = [] if kind is None else _choices(kind, where)
        return f"{found[1]} is none of {', '.join(allowed)}" if allowed else problem.lower()
    return problem[:1].lower() + problem[1:]


def _choices(kind: type, where: str) -> list[str]:
    """Return the words that the field at this place may have."""
    name = re.split(r"[.\[]", where, maxsplit=1)[0]
    return [str(word) for word in _words(get_type_hints(kind).get(name))]


def _words(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(word for each in get_args(hint) for word in _words(each))
