"""`Store.record_once`: a few words that servers share, among what is known of the store itself."""

from __future__ import annotations

import hashlib

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


def recorded(tx: Transaction, key: str) -> str | None:
    """Read what was recorded, if its time is not over."""
    row = tx.one("once.get", _name(key))
    until, _, value = ("", "", "") if row is None else str(row[0]).partition(" ")
    return value if row is not None and until >= _time(tx.now) else None


def _name(key: str) -> str:
    """Any text as a key: the column takes short ones only."""
    return f"once {hashlib.sha256(key.encode()).hexdigest()}"


def _time(at: float) -> str:
    return f"{at:018.3f}"
