"""What tasks have in common: that they run the same. Forecasts and faults are told apart by it.

Of a command that is its program; of an interpreter or a shell, which may run anything, with what it
runs. The page has the same rules (`ui/kinds.js`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_INTERPRETER = re.compile(
    r"(?:python|pypy|ruby|perl|php|lua|node|deno|bun|julia|java|Rscript|sh|bash|dash|zsh|ksh|fish)"
    r"[\d.]*"
)
_CODE = re.compile(r"-[a-z]*[ce]|-r")
_PART = ("-m", "-jar")
_WITH_VALUE = ("-W", "-X")
_LONGEST = 40
"""So much of a line of code is shown."""


def kind_of(name: str | None, command: Sequence[str] | None) -> str:
    """Return a task's name, else what its command runs, else nothing."""
    if name or not command:
        return name or ""
    program = _last(command[0])
    rest = iter(command[1:] if _INTERPRETER.fullmatch(program) else ())
    for word in rest:
        if _CODE.fullmatch(word):
            code = " ".join(next(rest, "").split())
            short = code if len(code) <= _LONGEST else f"{code[: _LONGEST - 1]}…"
            return f"{program} {word} {short}".rstrip()
        if word in _PART:
            return f"{program} {word} {_last(next(rest, ''))}".rstrip()
        if word in _WITH_VALUE:
            next(rest, "")
        elif not word.startswith("-"):
            return f"{program} {_last(word)}"
    return program


def runner_of(kind: str) -> str:
    """Return `bash -c` of `bash -c for i in …`, for lists that show the code beside it."""
    words = kind.split(" ", 2)
    is_code = len(words) > 2 and _INTERPRETER.fullmatch(words[0]) and _CODE.fullmatch(words[1])
    return " ".join(words[:2]) if is_code else kind


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or path
