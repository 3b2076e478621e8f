"""What a database that speaks SQL has to bring is named where it is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from stayer.stores.sql import sqlite
from stayer.stores.sql.dialect import Statements
from stayer.stores.sql.sqlite.dialect import SqliteDialect

OWN = Path(sqlite.__file__).with_name("statements.sql")


def test_missing_statements_are_named() -> None:
    with pytest.raises(LookupError, match=r"SqliteDialect: .* lacks count, event, .*watch"):
        Statements(SqliteDialect(), {})


def test_a_dialect_brings_what_it_says_that_it_has() -> None:
    class Sharing(SqliteDialect):
        shares_settings = True

    with pytest.raises(LookupError, match=r"Sharing: .* lacks queue\.share, queue\.keep"):
        Statements(Sharing(), {}, OWN)
