"""Reserving while a transaction that stays open keeps old rows from being cleared away."""

from __future__ import annotations

import psycopg

from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.core.worker_model import EVERYTHING
from stayer.stores.sql.postgres import PostgresStore
from tests.contract.builders import fill, ids, new, register, submit, take
from tests.servers.postgres import PostgresServer


def test_what_was_taken_is_not_passed_by_again_and_again(
    server: PostgresServer, store: PostgresStore
) -> None:
    register(store)
    names = fill(store, 6000)
    with psycopg.connect(server.conninfo) as open_one:
        open_one.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        open_one.execute("SELECT 1")
        # Given many that were taken while a transaction was open, and one who has noticed
        found: list[str] = []
        while len(found) < 5000:
            tasks = take(store, limit=1000)
            found += ids(tasks)
            store.turn("w", [decide(task, Done()) for task in tasks], ["q"], 0, EVERYTHING)
        found += ids(take(store))
        assert found == names[:5001]
        # When more are taken in the second after that
        shortcuts = store._database.bulk._shortcuts
        assert shortcuts.place("q", "") is not None
        submit(store, new("urgent", priority=1))
        # Then what goes before is found, and the rest in its order
        assert ids(take(store)) == ["urgent"]
        assert ids(take(store, limit=3)) == names[5001:5004]
        # And whoever has had enough of it sees all again
        assert ids(take(store, limit=2000)) == names[5004:]
