"""Files that come along with tasks, each kept once."""

from __future__ import annotations

from collections.abc import Sequence

from stayer.stores.sql.transaction import Transaction


def put_file(tx: Transaction, sha256: str, data: bytes | None) -> bool:
    """Keep one; None: only if it is there."""
    if data is not None:
        tx.run("file.put", sha256, tx.now, data)
        return True
    tx.run("file.renew", tx.now, sha256)
    return tx.one("file.there", sha256) is not None


def get_file(tx: Transaction, sha256: str) -> bytes | None:
    """Read one."""
    row = tx.one("file.get", sha256)
    return None if row is None else bytes(row[0])


def old_files(tx: Transaction, before: float, limit: int) -> list[str]:
    """List those that nobody has put since then."""
    return [sha256 for (sha256,) in tx.all("file.old", before, limit)]


def drop_files(tx: Transaction, files: Sequence[str], before: float) -> None:
    """Forget these, unless somebody has put them since then."""
    tx.run("file.drop", before, tx.array(files))
