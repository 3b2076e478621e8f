"""Keys that hold what they should not: found by the key map, and set aside.

Anybody who reaches the server may write there: a value of another type, a record that is cut. A
script that meets one fails. Then the keys below the prefix are looked at; what can't be read is
renamed to `<prefix>:damaged:…`, named in the hash `<prefix>:damaged`, and the operation is tried
again: a record that is gone is something that every script can deal with.
"""

from __future__ import annotations

import functools
import logging
import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import msgspec
from redis.crc import key_slot

from stayer.core.decoding import decode_msgpack, json_decoder, msgpack_decoder
from stayer.core.errors import StayerError, StoreMoved, StoreUnusable
from stayer.core.insight.health import Finding
from stayer.core.limits import quote
from stayer.core.model import NewTask
from stayer.core.move.records import Seal
from stayer.stores.redis import notices, record, schedules, streams, workers
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.keys import DECLARING_LOST, KEYS, escaped, key
from stayer.stores.redis.strict_numbers import LAST, integer, number

logger = logging.getLogger("stayer.store")

_TYPES = {
    "string": "task parameters result purged flow last looks file",
    "list": "history history_tail upstreams missing incoming refused",
    "hash": "checkpoint usage waits outbox listeners afar promised parts notice queue key_limits "
    "running heads runs shares schedule worker figures meta claim plan relayed",
    "zset": "log flows members notices notices_of notices_due ranked lane line unique near ids "
    "finished failed due expiring files schedules late early state",
    "set": "waiters dependents queues lanes lines rated near_nodes spared faults newest workers "
    f"dead held ordered strays asked plans homes {DECLARING_LOST}",
    "stream": "events stream",
}
_TYPE_OF = {word: kind for kind, words in _TYPES.items() for word in words.split()}
"""The first word of a key behind prefix and queue → its type."""
_BYTES = {
    "file",
    "log",
    "strays",
    "incoming",
    "refused",
    "missing",
    "checkpoint",
    "usage",
    "figures",
}
"""Where members need not be text."""
_READ = frozenset(
    ("worker", "schedule", "runs", "meta", "usage", "key_limits", "running", "parts", "notice",
     "queue", "shares", "relayed")
)  # fmt: skip
"""Hashes whose values are looked at."""
_SCAN_BATCH = 1000
_SET_ASIDE_TRIES = 10
"""How often to look again at a key that others write to."""
MEND_PAUSE_S = 60.0
"""How long nobody looks again after a look that found nothing, in seconds."""
_SHOWN = 3
_FIXED = [name for name, form in KEYS.items() if form == f"<prefix>:{name}" and name in _TYPE_OF]
"""Keys that are there once."""
UNREADABLE = (
    msgspec.MsgspecError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
    ValueError, struct.error,
)  # fmt: skip
"""What reading fails with where something else is there."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Damage(msgspec.Struct, frozen=True):
    """A key, or some members of it, that can't be read."""

    key: bytes
    problem: str
    members: tuple[bytes, ...] | None = None
    """None: all of it."""
    also: tuple[Any, ...] | None = None
    """A command to be done in the same step."""

    @property
    def name(self) -> str:
        return self.key.decode(errors="backslashreplace")


class Mending:
    """Sets aside what can't be read, when an operation has failed for it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._not_before = 0.0

    def mend(self) -> bool:
        """Return whether something was found, and set aside."""
        if time.monotonic() < self._not_before:
            return False
        found = self._set_aside(_find_damage(self._server))
        if not found:
            self._not_before = time.monotonic() + MEND_PAUSE_S
        return found

    def mend_these(self, names: Sequence[bytes]) -> bool:
        """Return whether something was found under these keys."""
        return self._set_aside(
            _check_keys(self._server, self._server.address.prefix.encode(), names)
        )

    def _set_aside(self, found: Iterable[_Damage]) -> bool:
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
        found = next(_check_keys(server, prefix.encode(), [name.encode()]), None)
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
        f"{name} is a {kind}, not a {_TYPE_OF[each]}"
        for name, each, kind in zip(names, _FIXED, types, strict=True)
        if kind not in ("none", _TYPE_OF[each])
    ]
    found = []
    if wrong:
        first = wrong[0].split()[0]
        todo = f"is that somebody else's? Choose another prefix, or: redis-cli DEL {first}"
        found.append(Finding("keys", "fail", "; ".join(wrong), todo))
    found += _check_streams(server)
    index = key("damaged", prefix)
    if server.ask("TYPE", index) == b"hash" and (count := server.ask("HLEN", index)):
        stored = server.ask("HSCAN", index, 0, "COUNT", _SHOWN)[1]
        named = [
            f"{name.decode(errors='backslashreplace')} {why.decode(errors='replace')}"
            for name, why in zip(stored[::2], stored[1::2], strict=True)
        ][:_SHOWN]
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
        if server.ask("TYPE", name) == b"stream" and (damage := _stream(server, name)) is not None
    ]


def _find_damage(server: Server) -> Iterator[_Damage]:
    prefix = server.address.prefix.encode()
    for names in keys_below(server, prefix):
        yield from _check_keys(server, prefix, names)


def keys_below(server: Server, prefix: bytes) -> Iterator[list[bytes]]:
    """Yield the names of all keys below a prefix, in batches."""
    cursor = b"0"
    pattern = escaped(prefix) + b":*"
    while True:
        cursor, names = server.ask("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_BATCH)
        yield names
        if cursor == b"0":
            return


def _check_keys(server: Server, prefix: bytes, names: Sequence[bytes]) -> Iterator[_Damage]:
    known = [(name, _word(name[len(prefix) + 1 :])) for name in names]
    known = [(name, word) for name, word in known if word in _TYPE_OF]
    types = server.ask_many([("TYPE", name) for name, _ in known])
    right: list[tuple[bytes, str]] = []
    for (name, word), kind in zip(known, types, strict=True):
        wanted = _expected_type(name, word)
        if kind == b"none":
            continue
        if kind.decode() != wanted:
            yield _Damage(name, f"is a {kind.decode()}, not a {wanted}")
        else:
            right.append((name, word))
    questions = [(name, word, _question(name, word)) for name, word in right]
    checks = [(name, word, question) for name, word, question in questions if question]
    answers = server.ask_many([question for _, _, question in checks])
    for (name, word, _), answer in zip(checks, answers, strict=True):
        damage = None if answer is None else _problem(name, word, answer)
        if damage is not None:
            yield damage
    for name, word in right:
        if word in streams.WORDS and (damage := _stream(server, name)) is not None:
            yield damage


def _stream(server: Server, name: bytes) -> _Damage | None:
    found = streams.look(server, name)
    if found is None or found.others is None:
        return None if found is None else _Damage(name, found.problem, also=found.note)
    return _some(name, found.others)


def _word(rest: bytes) -> str:
    """Return what a key is, by its first word behind the prefix, or behind the queue."""
    if rest.startswith(b"{"):
        rest = rest.partition(b"}:")[2]
    return rest.partition(b":")[0].decode(errors="replace")


def _expected_type(name: bytes, word: str) -> str:
    return "set" if name.endswith((b":state:reserved", b":state:started")) else _TYPE_OF[word]


def _question(name: bytes, word: str) -> tuple[Any, ...] | None:
    if word in ("task", "purged", "flow", "last"):
        return ("GET", name)
    if word == "checkpoint":
        return ("HMGET", name, "attempt", "at")
    if word == "claim":
        return ("HMGET", name, "queue", "nonce", "task", "plan")
    if word in _READ:
        return ("HGETALL", name)
    if word in _BYTES or word in ("parameters", "result"):
        return None
    match _expected_type(name, word):
        case "set":
            return ("SMEMBERS", name)
        case "zset":
            return ("ZRANGE", name, 0, -1)
        case "list":
            return ("LRANGE", name, 0, -1)
        case "hash":
            return ("HKEYS", name)
        case _:
            return None


_UPSTREAM = re.compile(rb"[ab][\x20-\x7e\xc2-\xf4\x80-\xbf]+")
_STANDING = re.compile(rb"[0-9]{28}[\x20-\x7e\xc2-\xf4\x80-\xbf]+")
"""When it was created, its number, and the id."""
_PURGED = msgpack_decoder(list[Any])


def _problem(name: bytes, word: str, answer: Any) -> _Damage | None:
    try:
        match word:
            case "task":
                record.tasks([answer])
            case "purged":
                if len(_PURGED.decode(answer)) < 5:
                    raise ValueError("it is too short")
            case "flow":
                msgspec.json.decode(answer)
            case "last":
                integer(answer.removeprefix(b"sealed ").partition(b" ")[0], LAST)
            case "worker":
                workers.workers([b"0", (answer, b"w", 0)])
            case "schedule":
                schedules.read([(answer, b"s")])
            case "claim":
                check_claim(*answer)
            case "checkpoint":
                integer(answer[0]), number(answer[1])
            case "notice":
                notices.read(b"", answer)
            case "usage":
                return _fields(name, answer, record.usage)
            case "key_limits" | "running" | "parts" | "relayed":
                return _fields(name, answer, integer)
            case "state" | "members":
                return _some(name, [each for each in answer if not _STANDING.fullmatch(each)])
            case "upstreams":
                return _some(name, [each for each in answer if not _UPSTREAM.fullmatch(each)])
            case "queue":
                return _settings(name, answer)
            case "runs" | "shares":
                return _fields(name, answer, lambda value: number(value.partition(b" ")[0]))
            case "meta":
                return _meta(name, answer)
            case _:
                return _members(name, answer)
    except Exception as error:
        return _Damage(name, f"can't be read: {quote(str(error) or type(error).__name__)}")
    return None


def _fields(
    name: bytes, answer: Sequence[bytes], read: Callable[[bytes], object]
) -> _Damage | None:
    wrong = []
    for field, value in zip(answer[::2], answer[1::2], strict=True):
        try:
            field.decode()
            read(value)
        except UNREADABLE:
            wrong.append(field)
    return _some(name, wrong)


def check_claim(
    queue: bytes | None, nonce: bytes | None, task: bytes | None, plan: bytes | None
) -> None:
    """Raise if these can't be the cells of a claim."""
    if not queue or not nonce:
        raise ValueError("it names no queue")
    queue.decode(), nonce.decode()
    if task is not None:
        decode_msgpack(task, NewTask)
    if plan is not None:
        plan.decode()


def _meta(name: bytes, answer: Sequence[bytes]) -> _Damage | None:
    """Numbers, but for what the store is called, and where a look at all lists has got to."""
    how: dict[bytes, Callable[[bytes], object]] = {
        b"identity": bytes.decode,
        b"schema": integer,
        b"seal": json_decoder(Seal).decode,
        b"looked_through": msgpack_decoder(tuple[str, int, str]).decode,
    }
    wrong = []
    for field, value in zip(answer[::2], answer[1::2], strict=True):
        try:
            how.get(field, number)(value)
        except UNREADABLE:
            wrong.append(field)
    return _some(name, wrong)


_COUNTS = (b"paused", b"limit", b"key_limit", b"rate", b"lined", b"wakes")


def _settings(name: bytes, answer: Sequence[bytes]) -> _Damage | None:
    """Return the hash of a queue: all numbers, but for two, and most of them integers."""
    wrong = []
    for field, value in zip(answer[::2], answer[1::2], strict=True):
        try:
            if field == b"notify":
                value.decode()
            elif field in _COUNTS:
                integer(value)
            elif field != b"fair":
                number(value)
            elif value not in (b"owner", b"key"):
                wrong.append(field)
        except ValueError:
            wrong.append(field)
    return _some(name, wrong)


def _members(name: bytes, members: Sequence[bytes]) -> _Damage | None:
    wrong = []
    for member in members:
        try:
            member.decode()
        except UnicodeDecodeError:
            wrong.append(member)
    return _some(name, wrong)


def _some(name: bytes, wrong: Sequence[bytes]) -> _Damage | None:
    if not wrong:
        return None
    some = ", ".join(quote(each[:60]) for each in wrong[:_SHOWN])
    return _Damage(name, f"has what can't be read: {some}", tuple(wrong))


_REMOVE = {"set": "SREM", "zset": "ZREM", "hash": "HDEL", "stream": "XDEL"}


def _set_aside(server: Server, damage: _Damage) -> bool:
    """If it still is damaged: all who meet it look for it at the same time, and what the first of
    them has made in its place is fine. Between the look and the deed nobody can put something else
    there.
    """
    prefix = server.address.prefix.encode()
    index = key("damaged", server.address.prefix)
    done = False

    def look() -> list[tuple[Any, ...]]:
        nonlocal done
        found = next(_check_keys(server, prefix, [damage.key]), None)
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


def _removals(damage: _Damage, prefix: bytes) -> list[tuple[Any, ...]]:
    """Return what takes members away."""
    assert damage.members is not None
    kind = _expected_type(damage.key, _word(damage.key[len(prefix) + 1 :]))
    if kind == "list":
        return [("LREM", damage.key, 0, member) for member in damage.members]
    return [(_REMOVE[kind], damage.key, *damage.members)]
