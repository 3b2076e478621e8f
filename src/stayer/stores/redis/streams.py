"""The streams of events, to which others may write too.

An entry of another's beyond the newest event keeps all that come from being added, so such a stream
is set aside as a whole. What else can't be read in it is taken out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from stayer.core.decoding import msgpack_decoder
from stayer.core.errors import StoreUnusable
from stayer.core.model import Event
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.errors import Moved
from stayer.stores.redis.strict_numbers import LAST, integer

_ENTRIES_A_LOOK = 1000
_Group = tuple[int, float, str, str, str | bool, str | bool, list[str], Any]
_groups = msgpack_decoder(list[_Group]).decode
_event = msgpack_decoder(Event).decode
WORDS = ("events", "stream")
"""How their names end: that of a store, and that of all shards of a cluster."""


class Look(msgspec.Struct, frozen=True):
    """What is wrong with a stream."""

    problem: str
    others: tuple[bytes, ...] | None = None
    """The entries that can't be read; None: it is all of no use."""
    note: tuple[Any, ...] | None = None
    """The command that notes the newest number, if nothing but the stream tells it."""


def look(server: Server, name: bytes) -> Look | None:
    """Return what is wrong with this stream; None if nothing is."""
    beside, _, word = name.rpartition(b":")
    if word.decode(errors="replace") not in WORDS:
        return None
    try:
        [info] = server.ask_many([("XINFO", "STREAM", name)])
        ours, others = 0, list[bytes]()
        for id, fields in _entries(server, name):
            number = _number(word, id, fields)
            if number is None:
                others.append(id)
            else:
                ours = number
        # After the stream: a script adds to it before it notes the number.
        place = (beside + b":last",) if word == b"events" else (beside + b":relayed", b"")
        last = _read_number(server, *place)
    except Moved:
        raise
    except StoreUnusable:  # it is gone, or of another type, by now
        return None
    newest = dict(zip(info[::2], info[1::2], strict=True))[b"last-generated-id"]
    known = ours if last is None else last
    if int(newest.partition(b"-")[0]) > known:
        change = "SET" if word == b"events" else "HSET"
        return Look(
            f"has entries up to {newest.decode()}, beyond the newest event, {known}",
            note=(change, *place, known) if last is None else None,
        )
    return Look("", tuple(others)) if others else None


def _entries(server: Server, name: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    start = b"-"
    while True:
        [rows] = server.ask_many([("XRANGE", name, start, "+", "COUNT", _ENTRIES_A_LOOK)])
        yield from rows
        if len(rows) < _ENTRIES_A_LOOK:
            return
        start = b"(" + rows[-1][0]


def _number(word: bytes, id: bytes, fields: list[bytes]) -> int | None:
    """Return the number of the newest event of an entry; None if it is none of ours."""
    number, _, rest = id.partition(b"-")
    if rest != b"0" or int(number) > LAST or len(fields) != 2 or fields[0] != b"e":
        return None
    try:
        if word == b"stream":
            _event(fields[1])
        else:
            first, *_, ids, _ = _groups(fields[1])[-1]
            if first + len(ids) - 1 != int(number):
                return None
    except (msgspec.MsgspecError, LookupError):
        return None
    return int(number)


def _read_number(server: Server, name: bytes, *field: bytes) -> int | None:
    """Return the number of the newest event; None if it is not there, or none."""
    [kind] = server.ask_many([("TYPE", name)])
    if kind != (b"hash" if field else b"string"):
        return None
    [value] = server.ask_many([("HGET" if field else "GET", name, *field)])
    try:
        return None if value is None else integer(value, LAST)
    except ValueError:
        return None
