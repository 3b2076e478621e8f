"""Servers that take no changes: standbys, and those that somebody made read-only."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from stayer.core.errors import StoreUnusable
from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.stores import open_store
from stayer.stores.sql.postgres import PostgresStore
from tests.contract.builders import PATIENCE, check_counts, counts, fill, ids, register, take
from tests.postgres.conftest import opened
from tests.servers.finding import postgres_binaries
from tests.servers.postgres import PostgresServer, serving

REPLICATES = ("wal_level=replica", "max_wal_senders=3", "wal_keep_size=64MB")


def found(store: PostgresStore) -> dict[str, str]:
    return {finding.check: finding.status for finding in store.check()}


def test_a_database_that_was_made_read_only_is_only_read(
    store: PostgresStore, url: str, hand: psycopg.Connection
) -> None:
    """Whoever did it wants nothing to be changed: hosts do it when a disk is nearly full."""
    fill(store, 1)
    readonly = open_store(url + "&options=-c%20default_transaction_read_only%3Don")
    assert isinstance(readonly, PostgresStore)
    with pytest.raises(StoreUnusable, match="default_transaction_read_only"):
        fill(readonly, 1)
    assert counts(readonly) == {"pending": 1}
    assert len(readonly.watch(0, 0.0, 10)) == 0  # nobody has given it a number
    store.last_event()
    assert len(readonly.watch(0, 0.0, 10)) == 1
    assert found(readonly)["read-only"] == "fail"
    assert "read-only" not in found(store)
    readonly.close()


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    with serving(postgres_binaries(), *REPLICATES, careless=False) as server:
        yield server


@pytest.fixture
def standby(primary: PostgresServer) -> Iterator[PostgresServer]:
    """A copy of the primary that follows it."""
    with tempfile.TemporaryDirectory(prefix="stayer-pg-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        primary.stop()
        subprocess.run(["cp", "-a", primary.folder / "data", folder / "data"], check=True)
        (folder / "data" / "standby.signal").touch()
        primary.start()
        server = PostgresServer(postgres_binaries(), folder, REPLICATES)
        server.give_folder_away()
        server.start(f"primary_conninfo=host={primary.folder} user=postgres")
        yield server
        server.stop(signal.SIGKILL)


@pytest.mark.long
def test_after_a_failover_the_store_is_where_the_new_primary_is(
    primary: PostgresServer, standby: PostgresServer
) -> None:
    both = (
        f"postgresql:///postgres?host={primary.folder},{standby.folder}&user=postgres&schema=jobs"
    )
    store = opened(both + "&target_session_attrs=read-write")
    register(store, lease=1000.0)
    names = fill(store, 3)
    # A standby shows all that has come to it, and says what it is
    there = open_store(standby.url("jobs"))
    assert isinstance(there, PostgresStore)
    until_shown(there, 3)
    with pytest.raises(StoreUnusable, match="standby"):
        fill(there, 1)
    assert found(there)["read-only"] == "fail"
    # When the primary dies, and the standby takes its place
    primary.stop(signal.SIGKILL)
    standby.psql("SELECT pg_promote()")
    # Then the store goes on there, also for those who had it open before
    assert ids(take(store, limit=3)) == names
    store.commit([decide(task, Done()) for task in store.holdings("w")])
    fill(there, 1)
    assert counts(there) == {"complete": 3, "pending": 1}
    check_counts(there)
    assert "read-only" not in found(there)
    there.close()
    store.close()


def until_shown(store: PostgresStore, number: int) -> None:
    """The standby is behind by a moment."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if sum(counts(store).values()) == number:
                return
        except StoreUnusable:
            pass  # the tables are under way
        assert time.monotonic() < deadline
        time.sleep(0.02)
