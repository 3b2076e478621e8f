"""The Lua scripts: one file an operation, put together with the libraries that it names.

Scripts are sent by their digest; a server that does not know it (restarted, flushed, another one
after a failover) is sent the whole.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import chain
from pathlib import Path

from msgspec import Struct

from stayer.core.insight import fingerprint
from stayer.core.lifecycle import EXPIRED
from stayer.core.notify.notices import KEPT as NOTICES_KEPT
from stayer.store import HISTORY_HEAD, HISTORY_TAIL, LOG_HEAD, LOG_PIECE, LOG_TAIL, REMEMBERED
from stayer.stores.redis import keys, record

_FOLDER = Path(__file__).parent / "scripts"
_NEEDS = re.compile("^-- needs: (.*)$", re.MULTILINE)
_NEXT = "~\n"
"""A line between libraries."""
_CONFIRMED = re.compile("^-- to be confirmed by replicas", re.MULTILINE)
_FUNCTION = re.compile(
    r"^local function (?P<name>\w+)\((?:[^\n]* end\n|.*?^end\n)", re.MULTILINE | re.DOTALL
)
_NUMBERS = re.compile(
    r"^local (?P<names>[A-Z][A-Z_]*(?:,\s+[A-Z][A-Z_]*)*) =\s+(?P<values>\d+(?:, \d+)*)\n",
    re.MULTILINE,
)
_VARIABLES = re.compile(r"^local (?:function )?(?P<names>\w+(?:, \w+)*)", re.MULTILINE)
_FEW, _MOST = 10, 60
"""How many functions are worth a body of their own, and how many variables of the bodies around it
one may use: that is Lua's limit."""
_WORD = re.compile(r"\w+")
_COMMENTS = re.compile(r"^[ \t]*(?:--.*)?\n", re.MULTILINE)
_CAPITALS = re.compile(r"\b[A-Z][A-Z_]*\b")
CHANGES = {
    "DEL", "EXPIRE", "HDEL", "HINCRBY", "HSET", "INCR", "LPUSH", "LTRIM", "MSET", "MSETNX",
    "LREM", "PERSIST", "PEXPIRE", "PUBLISH", "RENAME", "RPOP", "RPUSH", "SADD", "SET", "SPOP",
    "SPUBLISH", "SREM", "UNLINK", "XADD", "ZADD", "ZREM", "ZREMRANGEBYRANK", "ZREMRANGEBYSCORE",
}  # fmt: skip
"""The commands that leave something behind."""
_QUOTED = re.compile("'([A-Z]+)'")
_CONSTANTS = {
    "REMEMBERED": REMEMBERED,
    "LOG_HEAD": LOG_HEAD,
    "LOG_TAIL": LOG_TAIL,
    "LOG_PIECE": LOG_PIECE,
    "FINGERPRINT_LENGTH": fingerprint.LENGTH,
    "NOTICES_KEPT": NOTICES_KEPT,
    "HISTORY_HEAD": HISTORY_HEAD,
    "HISTORY_TAIL": HISTORY_TAIL,
}


class Script(Struct, frozen=True):
    """A script as the server gets it."""

    name: str
    text: str
    digest: str
    confirmed: bool
    """Whether replicas confirm it, where the URL asks for that: its header says why."""
    reads: bool
    """It changes nothing."""


@cache
def script(name: str) -> Script:
    """The script of this name: keys, libraries, and the file itself."""
    body = _read(_FOLDER / f"{name}.lua")
    code = _with_numbers(_without_unused(_without_comments(_with_libraries(body, set()))))
    text = _nested(f"local PREFIX = ARGV[1]\n{keys.with_keys(code)}".split(_NEXT))
    digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    reads = CHANGES.isdisjoint(_QUOTED.findall(text))
    return Script(name, text, digest, _CONFIRMED.search(body) is not None, reads)


def _with_libraries(code: str, known: set[str]) -> str:
    """The code, in which each line that says what it needs is replaced by that, unless it is there
    already. A script may say it a second time further down: what its usual case can do without is
    not made for it, if it returns before.
    """

    def needed(line: re.Match[str]) -> str:
        texts = []
        for each in line[1].split(", "):
            if each not in known:
                known.add(each)
                library = _read(_FOLDER / "lib" / f"{each}.lua")
                texts.append(f"{_with_libraries(library, known)}\n{_NEXT}")
        return "".join(texts)

    return _NEEDS.sub(needed, code)


def names() -> list[str]:
    """All that there are."""
    return sorted(path.stem for path in _FOLDER.glob("*.lua"))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _without_comments(code: str) -> str:
    """The server need not keep them."""
    return _COMMENTS.sub("", code)


def _without_unused(code: str) -> str:
    """Without the functions that nobody calls: each run of a script makes all that it has."""
    times = Counter(_WORD.findall(code))
    functions = list(_FUNCTION.finditer(code))
    dropped: list[re.Match[str]] = []
    while unused := [part for part in functions if times[part["name"]] == 1]:
        for part in unused:
            times.subtract(_WORD.findall(part[0]))
        dropped += unused
        functions = [part for part in functions if times[part["name"]] > 0]
    for part in sorted(dropped, key=lambda part: part.start(), reverse=True):
        code = code[: part.start()] + code[part.end() :]
    return code


def _with_numbers(code: str) -> str:
    """With numbers in the place of their names in capitals: a name costs at each run of a script,
    once for every function that uses it.
    """
    values = {name: f"{value:.0f}" for name, value in _CONSTANTS.items()}
    values["EXPIRED"] = f"[[{record.text(EXPIRED)}]]"
    values["EXPIRED_SHAPE"] = f"[[{fingerprint.shape('expired', EXPIRED)}]]"
    values |= {field.upper(): str(number) for field, number in record.NUMBER_OF.items()}
    for line in _NUMBERS.finditer(code):
        values |= zip(_split(line["names"]), _split(line["values"]), strict=True)
    code = _NUMBERS.sub("", code)
    return _CAPITALS.sub(lambda word: values.get(word[0], word[0]), code)


def _nested(parts: Sequence[str]) -> str:
    """Each in a function of its own within the one before. A function takes what it uses of those
    around its own as it is; but for each variable of its own that a function in it uses, Lua looks
    through a list of all of these, whenever that function is made.
    """
    bodies, known = [""], set[str]()
    words = [set(_WORD.findall(part)) for part in parts]
    for number, part in enumerate(parts):
        used = known.intersection(chain.from_iterable(words[number:]))
        if bodies[-1].count("local function ") >= _FEW and len(used) <= _MOST:
            bodies.append("")
        bodies[-1] += part
        known.update(*(_split(line["names"]) for line in _VARIABLES.finditer(part)))
    return "return (function()\n".join(bodies) + "end)()\n" * (len(bodies) - 1)


def _split(list_of: str) -> list[str]:
    return [each.strip() for each in list_of.split(",")]
