"""The mark of a move on a server: nobody else changes anything meanwhile."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from stayer.core.decoding import json_decoder
from stayer.core.move.records import Seal
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.keys import key

_encode = msgspec.json.Encoder().encode
_seal = json_decoder(Seal).decode


def seal(server: Server) -> Seal | None:
    """The mark that is there."""
    stored = server.ask("HGET", key("meta", server.address.prefix), "seal")
    return None if stored is None else _seal(stored)


def put_seal(server: Server, seal: Seal | None, number: int = 0) -> None:
    """Put it there, or take it away; numbers of events go on at least from the one given."""
    if seal is None:
        server.run("put_seal", "", "", number)
    else:
        server.run("put_seal", _encode(seal), seal.message, number)


def note_progress(server: Server, progress: str) -> None:
    """Note how far a move into the store has come."""
    if (known := seal(server)) is not None:
        put_seal(server, replace(known, progress=progress))
