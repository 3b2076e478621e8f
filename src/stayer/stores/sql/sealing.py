"""The mark of a store that is being moved, or was.

While it bears one, triggers refuse every change of its tables, by whoever, as long as the row with
the mark is there. Whoever may write all the same takes that row away in its own transaction and
puts it back: nobody else ever sees the store without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from msgspec.structs import replace

from stayer.core.decoding import json_decoder
from stayer.core.move.records import Seal
from stayer.stores.sql.table_names import TABLES
from stayer.stores.sql.transaction import Transaction

_decode = json_decoder(Seal).decode
PREFIX = "stayer: "
"""What the message of such a trigger begins with."""
SEALED = tuple(
    f"stayer_{table}" for table in TABLES if table not in ("meta", "damaged", "attempts")
)
"""The tables that are sealed: all that holds something of the store's users."""


def read_seal(tx: Transaction) -> Seal | None:
    """The mark that is there."""
    row = tx.one("seal.get")
    return None if row is None else _decode(row[0])


def write(tx: Transaction, seal: Seal) -> None:
    """Put the mark there, without the triggers."""
    tx.run("seal.put", msgspec.json.encode(seal).decode())


@contextmanager
def lift_seal(tx: Transaction) -> Iterator[None]:
    """Let this transaction alone change what is sealed, if it is."""
    seal = read_seal(tx)
    if seal is None:
        yield
        return
    tx.run("seal.drop")
    yield
    write(tx, seal)


def note_progress(tx: Transaction, progress: str) -> None:
    """Note how far a move into the store has come."""
    seal = read_seal(tx)
    if seal is not None:
        write(tx, replace(seal, progress=progress))
