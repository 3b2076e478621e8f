"""Making and changing tables, which does not roll back here: what was cut is gone on with."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Any

import pytest

from stayer.core.errors import StoreUnusable
from stayer.stores import open_store
from stayer.stores.sql.mysql.transaction import MySqlTransaction
from stayer.stores.sql.transaction import Row
from tests.contract.builders import check_counts, fill, register, take
from tests.mysql.conftest import opened
from tests.servers.mariadb import MariaDbServer

STEPS = range(1, 60, 6)


class Cut(Exception):
    """The process was killed."""


def cut_after(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no more than so many statements that define something come through."""
    plain = MySqlTransaction.sql
    left = [number]

    def sql(self: MySqlTransaction, text: str) -> list[Row]:
        if text.lstrip().startswith(("CREATE", "ALTER", "DROP", "INSERT")):
            if left[0] == 0:
                raise Cut
            left[0] -= 1
        return plain(self, text)

    monkeypatch.setattr(MySqlTransaction, "sql", sql)


def works(url: str) -> bool:
    """And is whole: a row by hand, of which triggers make a task, is taken and counted."""
    with closing(opened(url)) as store:
        assert {each.check: each.status for each in store.check()}["tables"] == "ok"
        register(store)
        fill(store, 2)
        assert len(take(store, limit=5)) == 2
        check_counts(store)
        return store.is_made()


@pytest.mark.parametrize("number", STEPS)
def test_tables_that_were_made_in_part_are_made_to_the_end(
    server: MariaDbServer, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    server.sql("CREATE OR REPLACE DATABASE cut")
    url = server.url("cut")
    store: Any = open_store(url)
    with monkeypatch.context() as patch:
        cut_after(number, patch)
        with suppress(Cut):
            store.setup()
    store.close()
    assert works(url)
    server.sql("DROP DATABASE cut")


@pytest.mark.parametrize("number", range(0, 10, 2))
def test_tables_of_an_older_version_that_were_changed_in_part_are_changed_to_the_end(
    server: MariaDbServer, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    server.sql("CREATE OR REPLACE DATABASE cut")
    url = server.url("cut")
    opened(url).close()
    # Given tables as they were before these came
    for table, column in (("queues", "defaults"), ("workers", "worker_order")):
        server.sql(f"ALTER TABLE stayer_{table} DROP COLUMN {column}", "cut")
    server.sql("ALTER TABLE stayer_meta MODIFY value TEXT NOT NULL", "cut")
    server.sql("DROP TABLE stayer_files", "cut")
    for trigger in ("task_by_hand", "task_came_by_hand", "task_deleted"):
        server.sql(f"DROP TRIGGER stayer_{trigger}", "cut")
    # When somebody upgrades them, and is killed
    store: Any = open_store(url)
    with monkeypatch.context() as patch:
        cut_after(number, patch)
        with suppress(Cut):
            store.setup()
    store.close()
    # Then the next one goes on
    assert works(url)
    server.sql("DROP DATABASE cut")


def test_tables_of_a_newer_version_are_left_alone(server: MariaDbServer) -> None:
    server.sql("CREATE OR REPLACE DATABASE cut")
    url = server.url("cut")
    opened(url).close()
    server.sql("UPDATE stayer_meta SET value = '99' WHERE `key` = 'schema'", "cut")
    with closing(open_store(url)) as store, pytest.raises(StoreUnusable, match="newer Stayer"):
        store.setup()
    server.sql("DROP DATABASE cut")
