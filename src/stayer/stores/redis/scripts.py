"""The Lua scripts: one file an operation, put together with the libraries that it names.

Scripts are sent by their digest; a server that does not know it (restarted, flushed, another one
after a failover) is sent the whole.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from msgspec import Struct

from stayer.store import LOG_HEAD, LOG_TAIL, REMEMBERED
from stayer.stores.redis import keys, record

_FOLDER = Path(__file__).parent / "scripts"
_NEEDS = re.compile("^-- needs: (.*)$", re.MULTILINE)
_CONSTANTS = {"REMEMBERED": REMEMBERED, "LOG_HEAD": LOG_HEAD, "LOG_TAIL": LOG_TAIL}


class Script(Struct, frozen=True):
    """A script as the server gets it."""

    name: str
    text: str
    digest: str


@cache
def script(name: str) -> Script:
    """The script of this name: constants, keys, libraries, and the file itself."""
    body = _read(_FOLDER / f"{name}.lua")
    needs = _NEEDS.search(body)
    assert needs is not None, f"{name}.lua does not say what it needs"
    libraries = [_read(_FOLDER / "lib" / f"{each}.lua") for each in needs[1].split(", ")]
    code = _stripped("\n".join((*libraries, body)))
    text = f"local PREFIX = ARGV[1]\n{_constants(code)}{keys.lua(code)}{code}"
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def names() -> list[str]:
    """All that there are."""
    return sorted(path.stem for path in _FOLDER.glob("*.lua"))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _stripped(code: str) -> str:
    """Without the comments, which the server need not keep."""
    lines = (line for line in code.splitlines() if line.strip())
    return "".join(f"{line}\n" for line in lines if not line.lstrip().startswith("--"))


def _constants(code: str) -> str:
    """What the script uses of the constants and of the numbers of the record's fields."""
    values = {name: f"{value:.0f}" for name, value in _CONSTANTS.items()}
    values |= {field.upper(): str(number) for field, number in record.NUMBER_OF.items()}
    used = set(re.findall(r"\b[A-Z_]+\b", code))
    return "".join(f"local {name} = {value}\n" for name, value in values.items() if name in used)
