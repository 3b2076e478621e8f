"""The command on a database without tables."""

from __future__ import annotations

from stayer.stores import open_store
from tests.cli.conftest import environment, folder, stayer
from tests.cli.running import Here
from tests.servers.postgres import PostgresServer

__all__ = ["environment", "folder", "stayer"]


def test_only_what_brings_something_makes_tables(
    stayer: Here, server: PostgresServer, schema: str
) -> None:
    there = f"SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'"
    stayer("ls").refuses("there is no store at postgresql:", "stayer init")
    stayer("queues").refuses("there is no store")
    assert "stayer init" in stayer("doctor").out
    assert server.psql(there).strip() == "0"
    stayer("init").works()
    stayer("ls").works("no tasks")
    assert server.psql(there).strip() == "1"


def test_to_submit_makes_them(stayer: Here, url: str) -> None:
    stayer("add", "--name", "f").works()
    store = open_store(url)
    assert store.is_made()
    store.close()
