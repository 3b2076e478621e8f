"""SQLite on the road of databases with several writers: one task after the other (no tricks for
speed), and all locks and claims asked for, which are comments to SQLite.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stayer.stores.sql.bulk import Bulk
from stayer.stores.sql.sqlite.database import Database
from stayer.stores.sql.sqlite.dialect import SqliteDialect


class Locking(SqliteDialect):
    """Says where others would wait, and what they would pass by."""

    lock = "/* FOR UPDATE */"
    claim = "/* FOR UPDATE SKIP LOCKED */"


LOCKING = Locking()


@contextmanager
def several_writers() -> Iterator[None]:
    """Stores that are opened meanwhile in this process go this road."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "dialect", LOCKING)
        patch.setattr(Database, "bulk", Bulk())
        yield
