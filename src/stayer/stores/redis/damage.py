"""Keys that hold what they should not are set aside.

A script that meets one fails. Then the keys below the prefix are looked at (`damaged_keys.py`);
what can't be read is renamed to `<prefix>:damaged:…`, named in the hash `<prefix>:damaged`, and the
operation is tried again: a record that is gone is something that every script can deal with.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from redis.crc import key_slot

from stayer.core.errors import StayerError, StoreMoved, StoreUnusable
from stayer.core.insight.health import Finding
from stayer.stores.redis import streams
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.damaged_keys import (
    SHOWN,
    TYPE_OF,
    UNREADABLE,
    Damage,
    check_keys,
    check_stream,
    expected_type,
    find_damage,
    first_word,
)
from stayer.stores.redis.keys import KEYS, key

logger = logging.getLogger("stayer.store")
_SET_ASIDE_TRIES = 10
"""How often to look again at a key that others write to."""
MEND_PAUSE_S = 60.0
"""How long nobody looks again after a look that found nothing, in seconds."""
_FIXED = [name for name, form in KEYS.items() if form == f"<prefix>:{name}" and name in TYPE_OF]
"""Keys that are there once."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Mending:
    """Sets aside what can't be read, when an operation has failed for it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._not_before = 0.0

    def mend(self) -> bool:
        """Return whether something was found, and set aside."""
        if time.monotonic() < self._not_before:
            return False
        found = self._set_aside(find_damage(self._server))
        if not found:
            self._not_before = time.monotonic() + MEND_PAUSE_S
        return found

    def mend_these(self, names: Sequence[bytes]) -> bool:
        """Return whether something was found under these keys."""
        return self._set_aside(
            check_keys(self._server, self._server.address.prefix.encode(), names)
        )

    def _set_aside(self, found: Iterable[Damage]) -> bool:
        damaged = list(found)
        for damage in damaged:
            if not _set_aside(self._server, damage):
                continue
            logger.warning(
                "set aside: the key %s %s (%s names it)",
                damage.name, damage.problem, key("damaged", self._server.address.prefix),
            )  # fmt: skip
        return bool(damaged)


def set_aside_alone(server: Server, prefix: str, name: str, index: str) -> str | None:
    """Return what is wrong with a key of a cluster that shares its slot with no other; None if
    nothing is. It is renamed in its slot; who calls names it.
    """
    problem: str | None = None

    def look() -> list[tuple[Any, ...]]:
        nonlocal problem
        found = next(check_keys(server, prefix.encode(), [name.encode()]), None)
        problem = None if found is None else found.problem
        if found is None:
            return []
        return [("RENAME", name, _free(server, _make_damaged_name(name.encode(), index.encode())))]

    for _ in range(_SET_ASIDE_TRIES):
        if server.change_if_unchanged(name.encode(), look):
            return problem
    return None


def _make_damaged_name(name: bytes, index: bytes) -> bytes:
    """Return a name for what is set aside, in the slot of the key, whatever braces that has; also
    with something behind it.
    """
    slot = key_slot(name)
    numbered = (b"%b:{%d}:%b" % (index, number, name) for number in count())
    candidates = chain((b"%b:{%b}" % (index, name), b"%b:%b" % (index, name)), numbered)
    return next(each for each in candidates if key_slot(each) == key_slot(each + b"~2") == slot)


class _Mendable(Protocol):
    """A store that can set aside what can't be read."""

    @property
    def mending(self) -> _Mender: ...


class _Mender(Protocol):
    def mend(self) -> bool: ...


_S = TypeVar("_S", bound=_Mendable)


def retry_after_mending(
    operation: Callable[Concatenate[_S, _P], _T],
) -> Callable[Concatenate[_S, _P], _T]:
    """Wrap an operation so that it is tried once more after what can't be read was set aside."""

    @functools.wraps(operation)
    def call(store: _S, /, *arguments: _P.args, **named: _P.kwargs) -> _T:
        try:
            return operation(store, *arguments, **named)
        except Exception as error:
            if not may_be_damage(error) or not store.mending.mend():
                raise
        return operation(store, *arguments, **named)

    return call


_DAMAGE_MESSAGES = (
    "WRONGTYPE",
    "user_script",
    "equal or smaller",
    "exhausted the last possible ID",
)
"""What servers say: of a key, of a script, and of a stream with a number beyond ours."""


def may_be_damage(error: Exception) -> bool:
    """Return whether an operation may have failed because of what somebody else has written."""
    if isinstance(error, StoreMoved):
        return False
    if isinstance(error, StoreUnusable):
        message = f"{error} {error.__cause__}"
        return any(words in message for words in _DAMAGE_MESSAGES)
    return isinstance(error, UNREADABLE) and not isinstance(error, StayerError)


def check(server: Server) -> list[Finding]:
    """Return what was set aside, and which of the keys that are there once is of another type."""
    prefix = server.address.prefix
    names = [key(name, prefix) for name in _FIXED]
    types = [server.ask("TYPE", name).decode() for name in names]
    wrong = [
        f"{name} is a {kind}, not a {TYPE_OF[each]}"
        for name, each, kind in zip(names, _FIXED, types, strict=True)
        if kind not in ("none", TYPE_OF[each])
    ]
    found = []
    if wrong:
        first = wrong[0].split()[0]
        todo = f"is that somebody else's? Choose another prefix, or: redis-cli DEL {first}"
        found.append(Finding("keys", "fail", "; ".join(wrong), todo))
    found += _check_streams(server)
    index = key("damaged", prefix)
    if server.ask("TYPE", index) == b"hash" and (count := server.ask("HLEN", index)):
        stored = server.ask("HSCAN", index, 0, "COUNT", SHOWN)[1]
        named = [
            f"{name.decode(errors='backslashreplace')} {why.decode(errors='replace')}"
            for name, why in zip(stored[::2], stored[1::2], strict=True)
        ][:SHOWN]
        more = f"; and {count - len(named)} more" if count > len(named) else ""
        todo = f"submit what is missing again, then forget: redis-cli DEL {index}"
        message = f"could not be read, set aside below {index}: {'; '.join(named)}{more}"
        found.append(Finding("damage", "warn", message, todo))
    return found


def _check_streams(server: Server) -> list[Finding]:
    """Return what stands in the way of events, or among them, and nobody has met yet."""
    names = [f"{server.address.prefix}:{word}".encode() for word in streams.WORDS]
    todo = "somebody else writes there: choose another prefix. Who meets it sets it aside"
    return [
        Finding("keys", "warn", f"{damage.name} {damage.problem}", todo)
        for name in names
        if server.ask("TYPE", name) == b"stream"
        and (damage := check_stream(server, name)) is not None
    ]


_REMOVE = {"set": "SREM", "zset": "ZREM", "hash": "HDEL", "stream": "XDEL"}


def _set_aside(server: Server, damage: Damage) -> bool:
    """If it still is damaged: all who meet it look for it at the same time, and what the first of
    them has made in its place is fine. Between the look and the deed nobody can put something else
    there.
    """
    prefix = server.address.prefix.encode()
    index = key("damaged", server.address.prefix)
    done = False

    def look() -> list[tuple[Any, ...]]:
        nonlocal done
        found = next(check_keys(server, prefix, [damage.key]), None)
        done = found is not None
        if found is None:
            return []
        named = ("HSET", index, found.key, found.problem)
        if found.members is None:
            place = _free(server, index.encode() + found.key[len(prefix) :])
            also = [] if found.also is None else [found.also]
            return [named, ("RENAME", found.key, place), *also]
        return [named, *_removals(found, prefix)]

    if server.ask("TYPE", index) not in (b"hash", b"none"):
        server.ask("DEL", index)
    for _ in range(_SET_ASIDE_TRIES):
        if server.change_if_unchanged(damage.key, look):
            return done
    return False  # who meets it next tries again


def _free(server: Server, name: bytes) -> bytes:
    """Return this name, or the next that has nothing: what was set aside before stays there."""
    found, number = name, 1
    while server.ask("EXISTS", found):
        number += 1
        found = b"%b~%d" % (name, number)
    return found


def _removals(damage: Damage, prefix: bytes) -> list[tuple[Any, ...]]:
    """Return what takes members away."""
    assert damage.members is not None
    kind = expected_type(damage.key, first_word(damage.key[len(prefix) + 1 :]))
    if kind == "list":
        return [("LREM", damage.key, 0, member) for member in damage.members]
    return [(_REMOVE[kind], damage.key, *damage.members)]
