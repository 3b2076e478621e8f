"""The Lua scripts: put together from the files in `lua/`, and sent by their digests.

A file has one subject. In it a line `-- script: name` begins a script; what stands before the first
belongs to all of them. A line `-- include: name, name` stands for these files of `lua/lib/`, each
once in a script. A line `-- scope` begins a function around all that follows (see `_nest_scopes`).
And `@…` stands for what Python knows: `@NAME` for one of `CONSTANTS`, `@name(…)` for the key of
that name in `keys.KEYS`.

A server that does not know a digest (restarted, flushed, another one after a failover) is sent the
whole.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from stayer.core.insight import fingerprint
from stayer.core.insight.totals import WORKER_LOST
from stayer.core.lifecycle import EXPIRED
from stayer.core.liveness import lost_workers
from stayer.core.notify.notices import FIELD_LIMIT
from stayer.core.notify.notices import KEPT as NOTICES_KEPT
from stayer.core.ordering.fair_share import FORGOTTEN, HALF_LIFE, USUAL_RUN
from stayer.core.patterns import LONGEST_WORD
from stayer.store import HISTORY_HEAD, HISTORY_TAIL, LOG_HEAD, LOG_PIECE, LOG_TAIL, REMEMBERED
from stayer.stores.redis import record
from stayer.stores.redis.keys import lua_key
from stayer.stores.redis.pack import changes
from stayer.stores.redis.pack.handles import ANY_PIECE, STAR_PIECE
from stayer.stores.redis.pack.tasks import GROUP_FIELDS, TIE_FIELDS

FOLDER = Path(__file__).parent / "lua"
CHANGES = {
    "DEL", "EXPIRE", "HDEL", "HINCRBY", "HSET", "INCR", "LPUSH", "LTRIM", "MSET", "MSETNX",
    "LREM", "PERSIST", "PEXPIRE", "PUBLISH", "RENAME", "RPOP", "RPUSH", "SADD", "SET", "SPOP",
    "SPUBLISH", "SREM", "UNLINK", "XADD", "ZADD", "ZREM", "ZREMRANGEBYRANK", "ZREMRANGEBYSCORE",
}  # fmt: skip
"""The commands that leave something behind."""
EVENTS_KEPT = 100_000
"""About how many events the stream has."""
_LIMITS = {
    "ARGUMENTS_AT_ONCE": 2000,  # how many Lua's unpack() takes
    "EVENTS_KEPT": EVENTS_KEPT,
    "EVENTS_A_BATCH": 500,
    "HISTORY_IN_RECORD": 1024,  # bytes; more is moved out of the record
    "MANY_LANES": 32,  # so many are looked into, each by itself; with more, so many tasks
    "LOOKED_AT_FIRST": 50,  # beyond those wanted are looked at, and if that is not enough,
    "LOOKED_AT": 1000,  # so many
    "LOST_WORKERS": lost_workers.MOST,
    "LOST_TASKS": lost_workers.MOST_TASKS,
    "REMEMBERED": REMEMBERED,
    "LOG_HEAD": LOG_HEAD,
    "LOG_TAIL": LOG_TAIL,
    "LOG_PIECE": LOG_PIECE,
    "NOTICES_KEPT": NOTICES_KEPT,
    "FIELD_LIMIT": FIELD_LIMIT,
    "HISTORY_HEAD": HISTORY_HEAD,
    "HISTORY_TAIL": HISTORY_TAIL,
    "HALF_LIFE": HALF_LIFE,
    "FORGOTTEN": FORGOTTEN,
    "USUAL_RUN": USUAL_RUN,
    "LONGEST_WORD": LONGEST_WORD,
    "FINGERPRINT_LENGTH": fingerprint.LENGTH,
}
_FORMS = {
    "WORKER_LOST": WORKER_LOST,
    "EXPIRED": f"[[{record.text(EXPIRED)}]]",
    "EXPIRED_SHAPE": f"[[{fingerprint.shape('expired', EXPIRED)}]]",
    "ANY_PIECE": str(ANY_PIECE),
    "STAR_PIECE": str(STAR_PIECE),
    "PARAMETERS_TEXT": str(record.PARAMETERS_TEXT),
    "HEAD_LENGTH": str(record.HEAD_LENGTH),
    "ARRAY_HEAD": str(record.OWN_AT - record.HEAD_LENGTH),
    # Python counts from 0, Lua from 1.
    "OWN_AT": str(record.OWN_AT + 1),
    "CREATED_AT": str(record.CREATED_AT + 1),
}


def _places(fields: Sequence[str], prefix: str = "") -> dict[str, str]:
    """Number the parts of an array that goes to the scripts or is kept."""
    return {f"{prefix}{field.upper()}": str(at) for at, field in enumerate(fields, start=1)}


CONSTANTS = {
    **{name: f"{value:.0f}" for name, value in _LIMITS.items()},
    **_FORMS,
    **_places(record.FIELDS),
    **_places(changes.GROUP_FIELDS, "C_"),
    **_places(GROUP_FIELDS, "G_"),
    **_places(TIE_FIELDS, "T_"),
}
"""What `@NAME` stands for in Lua. A number in the place of its name costs nothing; a local variable
costs at each run, once for every function that uses it: 5 percent of a commit."""

_SCRIPT = re.compile(r"^-- script: (\w+)\n", re.MULTILINE)
_INCLUDE = re.compile(r"^-- include: (.*)\n", re.MULTILINE)
_SCOPE = "-- scope\n"
_CONSTANT = re.compile(r"@([A-Z][A-Z_]*)")
_KEY = re.compile(r"@([a-z_]+)\(([^()]*)\)")
_CONFIRMED = re.compile("^-- to be confirmed by replicas", re.MULTILINE)
_ONLY_READS = re.compile("^-- only reads$", re.MULTILINE)


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
    """Put together the script of this name."""
    common, own = sources()[name]
    text = _nest_scopes(with_values(_with_includes(common + own, set())))
    digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    confirmed, reads = (line.search(own) is not None for line in (_CONFIRMED, _ONLY_READS))
    return Script(name, text, digest, confirmed, reads)


@cache
def sources() -> dict[str, tuple[str, str]]:
    """Read all files: name of a script → what it shares with others of its file, and its own."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(FOLDER.glob("*.lua")):
        common, *sections = _SCRIPT.split(path.read_text(encoding="utf-8"))
        for name, own in zip(sections[::2], sections[1::2], strict=True):
            found[name] = common, own
    return found


def names() -> list[str]:
    """List the names of all scripts."""
    return sorted(sources())


def _with_includes(code: str, known: set[str]) -> str:
    """Put libraries in the place of lines that include them. A script may have such a line further
    down: what its usual case can do without is not made for it, if it returns before.
    """

    def include(line: re.Match[str]) -> str:
        return "".join(_library(name, known) for name in line[1].split(", ") if name not in known)

    return _INCLUDE.sub(include, code)


def _library(name: str, known: set[str]) -> str:
    known.add(name)
    code = (FOLDER / "lib" / f"{name}.lua").read_text(encoding="utf-8")
    return _with_includes(code, known)


def with_values(code: str) -> str:
    """Put what Python knows in the place of `@…`."""
    with_constants = _CONSTANT.sub(lambda found: CONSTANTS[found[1]], code)
    return _KEY.sub(lambda found: lua_key(found[1], found[2]), with_constants)


def _nest_scopes(code: str) -> str:
    """Begin a function at each `-- scope`, and end them all at the end.

    A function is made at each run of a script. What it uses of the function right around it, Lua
    looks for in a list of all that others use of that one; what is further outside it takes as it
    is. Without scopes a commit, a beat or a reserve takes 9 to 20 percent more. Lua lets a
    function use up to 60 variables of those around it, so not every library can have a scope.
    """
    return code.replace(_SCOPE, "return (function()\n") + "end)()\n" * code.count(_SCOPE)
