"""Which keys hold what they should not, by the key map: another type, or a record that is cut.

Anybody who reaches the server may write there.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from stayer.core.decoding import decode_msgpack, json_decoder, msgpack_decoder
from stayer.core.limits import quote
from stayer.core.model import NewTask
from stayer.core.move.records import Seal
from stayer.stores.redis import notices, record, schedules, streams, workers
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.keys import DECLARING_LOST, escape_pattern
from stayer.stores.redis.strict_numbers import LAST, integer, number

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
TYPE_OF = {word: kind for kind, words in _TYPES.items() for word in words.split()}
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
SHOWN = 3
"""How many names a message has at most."""
UNREADABLE = (
    msgspec.MsgspecError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
    ValueError, struct.error,
)  # fmt: skip
"""What reading fails with where something else is there."""


class Damage(msgspec.Struct, frozen=True):
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


def find_damage(server: Server) -> Iterator[Damage]:
    """Yield what can't be read below the prefix of this store."""
    prefix = server.address.prefix.encode()
    for names in keys_below(server, prefix):
        yield from check_keys(server, prefix, names)


def keys_below(server: Server, prefix: bytes) -> Iterator[list[bytes]]:
    """Yield the names of all keys below a prefix, in batches."""
    cursor = b"0"
    pattern = escape_pattern(prefix) + b":*"
    while True:
        cursor, names = server.ask("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_BATCH)
        yield names
        if cursor == b"0":
            return


def check_keys(server: Server, prefix: bytes, names: Sequence[bytes]) -> Iterator[Damage]:
    """Yield what can't be read under these keys, as far as the key map has them."""
    known = [(name, first_word(name[len(prefix) + 1 :])) for name in names]
    known = [(name, word) for name, word in known if word in TYPE_OF]
    types = server.ask_many([("TYPE", name) for name, _ in known])
    right: list[tuple[bytes, str]] = []
    for (name, word), kind in zip(known, types, strict=True):
        wanted = expected_type(name, word)
        if kind == b"none":
            continue
        if kind.decode() != wanted:
            yield Damage(name, f"is a {kind.decode()}, not a {wanted}")
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
        if word in streams.WORDS and (damage := check_stream(server, name)) is not None:
            yield damage


def check_stream(server: Server, name: bytes) -> Damage | None:
    """Return what stands in the way of events, or among them, in the stream of this name."""
    found = streams.look(server, name)
    if found is None or found.others is None:
        return None if found is None else Damage(name, found.problem, also=found.note)
    return _some(name, found.others)


def first_word(rest: bytes) -> str:
    """Return what a key is, by its first word behind the prefix, or behind the queue."""
    if rest.startswith(b"{"):
        rest = rest.partition(b"}:")[2]
    return rest.partition(b":")[0].decode(errors="replace")


def expected_type(name: bytes, word: str) -> str:
    """Return the type that a key of this name has to be of."""
    return "set" if name.endswith((b":state:reserved", b":state:started")) else TYPE_OF[word]


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
    match expected_type(name, word):
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


def _problem(name: bytes, word: str, answer: Any) -> Damage | None:
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
                schedules.read_schedules([(answer, b"s")])
            case "claim":
                check_claim(*answer)
            case "checkpoint":
                integer(answer[0]), number(answer[1])
            case "notice":
                notices.read_notice(b"", answer)
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
        return Damage(name, f"can't be read: {quote(str(error) or type(error).__name__)}")
    return None


def _fields(name: bytes, answer: Sequence[bytes], read: Callable[[bytes], object]) -> Damage | None:
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


def _meta(name: bytes, answer: Sequence[bytes]) -> Damage | None:
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


def _settings(name: bytes, answer: Sequence[bytes]) -> Damage | None:
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


def _members(name: bytes, members: Sequence[bytes]) -> Damage | None:
    wrong = []
    for member in members:
        try:
            member.decode()
        except UnicodeDecodeError:
            wrong.append(member)
    return _some(name, wrong)


def _some(name: bytes, wrong: Sequence[bytes]) -> Damage | None:
    if not wrong:
        return None
    some = ", ".join(quote(each[:60]) for each in wrong[:SHOWN])
    return Damage(name, f"has what can't be read: {some}", tuple(wrong))
