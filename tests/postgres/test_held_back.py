"""Reserving while a transaction that stays open keeps old rows from being cleared away."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import psycopg
import pytest

from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.core.worker_model import EVERYTHING
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.postgres import PostgresStore, shortcuts
from stayer.stores.sql.postgres.transaction import PostgresTransaction
from stayer.stores.sql.reserve import reserve
from tests.contract.builders import fill, ids, new, register, submit, take
from tests.servers.postgres import PostgresServer


@pytest.fixture(autouse=True)
def _places_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the test takes."""
    monkeypatch.setattr(shortcuts, "_SEEN_VALID_S", 3600.0)


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
        assert store._database.bulk._shortcuts.place("q", "") is not None
        submit(store, new("urgent", priority=1))
        # Then what goes before is found, and the rest in its order
        assert ids(take(store)) == ["urgent"]
        assert ids(take(store, limit=3)) == names[5001:5004]
        # And whoever has had enough of it sees all again
        assert ids(take(store, limit=2000)) == names[5004:]


class TestSeveralLanes:
    """Where tasks of several kinds wait for the same workers."""

    @pytest.fixture(autouse=True)
    def _many_are_gone(self, server: PostgresServer, store: PostgresStore) -> Iterator[None]:
        """Taken since somebody's transaction was opened."""
        register(store)
        self.names = [
            task.id
            for _ in range(3)
            for task in submit(store, *(new(name=f"kind-{n % 3}") for n in range(2000)))
        ]
        with psycopg.connect(server.conninfo) as open_one:
            open_one.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            open_one.execute("SELECT 1")
            for start in range(0, 5000, 1000):
                tasks = take(store, limit=1000)
                assert ids(tasks) == self.names[start : start + 1000]
                store.turn("w", [decide(task, Done()) for task in tasks], ["q"], 0, EVERYTHING)
            yield

    def test_what_was_taken_is_passed_by_once(self, store: PostgresStore) -> None:
        store._database.bulk._shortcuts._seen.clear()
        assert entries_for_three(store) > 5000
        assert entries_for_three(store) < 1000

    def test_a_turn_notices_it_for_all_lanes(self, store: PostgresStore) -> None:
        assert ids(take(store, limit=2)) == self.names[5000:5002]
        assert entries_for_three(store) < 1000

    def test_tasks_come_in_their_order(self, store: PostgresStore) -> None:
        assert ids(take(store)) == self.names[5000:5001]
        submit(store, new("urgent", name="kind-2", priority=1), new("later", name="kind-1"))
        assert ids(take(store)) == ["urgent"]
        assert ids(take(store, limit=4)) == self.names[5001:5005]
        submit(store, new("last", name="kind-0", priority=-1))
        assert ids(take(store, limit=2000)) == [*self.names[5005:], "later", "last"]

    def test_a_new_lane_is_seen_though_others_always_have_something(
        self, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = monotonic() + 7200  # what was seen before is not valid any more
        monkeypatch.setattr(shortcuts, "_SEEN_VALID_S", 1.0)
        monkeypatch.setattr(shortcuts, "monotonic", lambda: now)
        assert ids(take(store, limit=2000)) == self.names[5000:]
        submit(store, new("other", name="kind-3", priority=1))
        found = []
        for n in range(3):  # each look says again that it is slow, and finds less than is wanted
            submit(store, new(f"usual-{n}", name="kind-0"))
            found += ids(take(store, limit=3))
            now += 0.6
        assert found == ["usual-0", "usual-1", "other", "usual-2"]

    def test_a_lane_may_begin_at_a_whole_second(self, store: PostgresStore) -> None:
        with store._database.write() as tx:
            tx.sql(
                "UPDATE stayer_tasks SET created = floor(created) WHERE name = 'kind-0' RETURNING 1"
            )
        store._database.bulk._shortcuts._seen.clear()
        assert len(take(store, limit=2)) == 2  # by a turn, which notes where it was
        assert len(take(store, limit=2)) == 2


def entries_for_three(store: PostgresStore) -> int:
    """How many entries of the index are read, and rows looked at, to reserve three the long way."""
    with store._database.write() as tx:
        before = entries_read(tx)
        ledger = Ledger(tx)
        assert len(reserve(tx, "w", ["q"], 3, EVERYTHING, ledger)) == 3
        ledger.write()
        return entries_read(tx) - before


def entries_read(tx: PostgresTransaction) -> int:
    index = "'stayer_tasks_ready'::regclass"
    [(entries,)] = tx.sql(f"SELECT pg_stat_get_xact_tuples_returned({index})")
    return int(entries)
