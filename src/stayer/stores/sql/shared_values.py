"""`Store.record_once` and `Store.shared`: what servers share, among what is known of the store."""

from __future__ import annotations

import hashlib

from stayer.store.base import SharedName
from stayer.stores.sql.transaction import Transaction


def record_once(tx: Transaction, key: str, value: str, seconds: float) -> str:
    """Record a value, unless there is one."""
    name, until = _name(key), tx.now + seconds
    tx.run("once.forget", _time(tx.now))
    tx.run("once.make", name, f"{_time(until)} {value}")
    row = tx.one("once.look", name)
    assert row is not None
    there, _, found = str(row[0]).partition(" ")
    if found == value and float(there) < tx.now + seconds / 2:
        tx.run("once.renew", f"{_time(until)} {value}", name)
    return found


def read_record(tx: Transaction, key: str) -> str | None:
    """Read what was recorded, if its time is not over."""
    row = tx.one("once.get", _name(key))
    until, _, value = ("", "", "") if row is None else str(row[0]).partition(" ")
    return value if row is not None and until >= _time(tx.now) else None


def read_shared(tx: Transaction, name: SharedName) -> str | None:
    """Read a value that servers share."""
    row = tx.one("shared", name)
    return None if row is None else str(row[0])


def put_shared(tx: Transaction, name: SharedName, value: str, known: str | None) -> bool:
    """Replace a value that servers share, unless somebody else was quicker."""
    if known is None:
        return tx.run("shared.first", name, value) == 1
    return tx.run("shared.replace", value, name, known) == 1


def _name(key: str) -> str:
    """Any text as a key: the column takes short ones only."""
    return f"once {hashlib.sha256(key.encode()).hexdigest()}"


def _time(at: float) -> str:
    return f"{at:018.3f}"
