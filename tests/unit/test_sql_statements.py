"""What a database that speaks SQL has to bring is named where it is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from stayer.stores.sql import sqlite
from stayer.stores.sql.dialect import Statements
from stayer.stores.sql.sqlite.dialect import SqliteDialect, statements
from stayer.stores.sql.transaction import UNASKED

OWN = Path(sqlite.__file__).with_name("statements.sql")


def test_missing_statements_are_named() -> None:
    with pytest.raises(LookupError, match=r"(?s)SqliteDialect: .* lacks.count \(.*watch \(since"):
        Statements(SqliteDialect(), {})


def test_a_dialect_brings_what_it_says_that_it_has() -> None:
    class Sharing(SqliteDialect):
        shares_settings = True

    with pytest.raises(LookupError, match=r"(?s)Sharing: .* lacks.queue\.share .*queue\.keep"):
        Statements(Sharing(), {}, OWN)


def test_a_word_in_braces_that_means_nothing_is_named(tmp_path: Path) -> None:
    own = tmp_path / "statements.sql"
    own.write_text("-- name: purge\nDELETE FROM stayer_tasks {limited ?2};\n")
    said = r"SqliteDialect: statement purge: nothing is called \{limited \?2\}: .*claim, .*yes\)"
    with pytest.raises(LookupError, match=said):
        Statements(SqliteDialect(), {}, OWN, own)


def test_a_statement_of_its_own_that_claims_in_another_way_leaves_the_one_that_only_looks(
    tmp_path: Path,
) -> None:
    own = tmp_path / "statements.sql"
    own.write_text("-- name: reserve.claim\nSELECT seq FROM claimed(?1) AS seq;\n")
    made = Statements(SqliteDialect(), {}, OWN, own)
    assert made["reserve.claim"] == "SELECT seq FROM claimed(?1) AS seq"
    assert made["reserve.claim unclaimed"] == statements()["reserve.claim unclaimed"]


def test_a_part_has_the_text_of_the_dialect_also_inside_a_macro(tmp_path: Path) -> None:
    own = tmp_path / "statements.sql"
    own.write_text(
        "-- name: failed_at\nfailing;\n-- name: ago\nSELECT {whole ({failed_at} / 2)};\n"
    )
    made = Statements(SqliteDialect(), {}, OWN, own)
    assert made["ago"] == "SELECT CAST((failing / 2) AS INTEGER)"
    assert made["failures.newest"].endswith("ORDER BY failing DESC\nLIMIT 1")


def test_what_nobody_asks_about_are_statements() -> None:
    assert statements().keys() >= UNASKED


def test_names_that_are_words_of_a_database_are_quoted_and_a_dialect_has_the_last_word() -> None:
    class Strange(SqliteDialect):
        words = frozenset(("usage", "key"))

        def finished(self, text: str) -> str:
            return super().finished(text).replace("LIMIT", "FETCH")

    made = Statements(Strange(), {}, OWN)
    assert made["usage"].startswith('SELECT "usage" FROM stayer_usage')
    assert made["seal.drop"] == """DELETE FROM stayer_meta WHERE "key" = 'seal'"""
    assert made["file.old"].endswith("FETCH ?2")
