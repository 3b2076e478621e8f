"""What `stayer doctor` says of a PostgreSQL store."""

from __future__ import annotations

import psycopg

from stayer.stores import open_store
from stayer.stores.sql.postgres import PostgresStore
from tests.contract.builders import fill
from tests.postgres.conftest import opened


def found(store: PostgresStore) -> dict[str, str]:
    return {finding.check: finding.status for finding in store.check()}


def test_a_good_store_is_found_good(store: PostgresStore) -> None:
    fill(store, 2)
    assert found(store) == {
        "server": "ok", "waking": "ok", "durability": "warn", "tables": "ok", "rights": "ok",
        "vacuum": "ok", "counters": "ok",
    }  # fmt: skip


def test_what_is_not_set_up_can_be_looked_at(url: str) -> None:
    store = open_store(url)
    assert {finding.check for finding in store.check()} == {"server", "waking", "durability"}
    store.close()


def test_wrong_counters_old_functions_and_silence_are_named(
    store: PostgresStore, hand: psycopg.Connection, url: str
) -> None:
    fill(store, 2)
    hand.execute("DELETE FROM stayer_counts")
    assert found(store)["counters"] == "warn"
    hand.execute("UPDATE stayer_meta SET value = '1' WHERE key = 'functions'")
    assert found(store)["tables"] == "warn"
    store.setup()
    assert found(store)["tables"] == "ok"
    deaf = opened(url + "&listen=no")
    assert found(deaf)["waking"] == "warn"
    deaf.close()
