"""What holds though several write at a time, and commit in whatever order."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.core.worker_model import EVERYTHING
from stayer.stores.sql.postgres import PostgresStore
from tests.contract.builders import (
    PATIENCE,
    check_counts,
    counts,
    fill,
    ids,
    in_thread,
    new,
    register,
    take,
)
from tests.postgres.conftest import opened
from tests.servers.postgres import PostgresServer


@pytest.fixture
def callers(server: PostgresServer) -> Iterator[list[psycopg.Connection]]:
    """Connections with transactions of their own."""
    connections = [psycopg.connect(server.conninfo) for _ in range(3)]
    yield connections
    for connection in connections:
        connection.close()


class TestWatchers:
    def test_leave_no_rows_behind_that_have_numbers_now(
        self, store: PostgresStore, hand: psycopg.Connection
    ) -> None:
        fill(store, 3)
        fill(store, 3)
        store.last_event()
        assert hand.execute("SELECT count(*) FROM stayer_new_events").fetchone() == (0,)
        assert hand.execute("SELECT count(*) FROM stayer_events").fetchone() == (2,)


def wait_for_lock(hand: psycopg.Connection, number: int = 1) -> None:
    """Until so many others wait for a lock. (Each look is one outside of the open transaction's
    snapshot: it is READ COMMITTED.)
    """
    for _ in range(int(PATIENCE * 100)):
        row = hand.execute(
            "SELECT count(*), pg_sleep(0.01) FROM pg_locks WHERE NOT granted"
        ).fetchone()
        if row is not None and row[0] >= number:
            return
    raise AssertionError("nobody waits")


class TestSettings:
    def test_tasks_that_come_while_lines_are_made_get_into_theirs(
        self, store: PostgresStore, hand: psycopg.Connection, callers: list[psycopg.Connection]
    ) -> None:
        # Given a task that is submitted, but not committed, while its queue becomes fair
        register(store)
        fill(store, 1, queue="q", owner="x")
        store.submit_on(callers[0], [new("late", owner="y")])
        store.set_queue("q", fair="owner")
        store._database.tidy()
        callers[0].commit()
        # When somebody tidies up after that
        for _ in range(3):
            store._database.tidy()
        # Then it is taken as any other
        assert hand.execute("SELECT count(*) FROM stayer_tasks WHERE share IS NULL").fetchone() == (
            0,
        )
        assert "late" in ids(take(store, limit=5))
        row = hand.execute("SELECT lined_by FROM stayer_queues").fetchone()
        assert row == (None,)

    def test_limited_queues_in_different_orders_make_no_deadlock(
        self, store: PostgresStore, url: str, hand: psycopg.Connection
    ) -> None:
        for queue in ("a", "b"):
            fill(store, 60, queue=queue)
            store.set_queue(queue, limit=1000)

        def work(queues: list[str]) -> int:
            mine = opened(url)
            register(mine, name := threading.current_thread().name)
            number = 0
            while found := mine.reserve(name, queues, 70, EVERYTHING):
                number += len(found)
            mine.close()
            return number

        one, another = in_thread(lambda: work(["a", "b"])), in_thread(lambda: work(["b", "a"]))
        assert one() + another() == 120
        row = hand.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
        assert row == (0,)


class TestCounts:
    def test_are_put_together_without_changing(
        self, store: PostgresStore, hand: psycopg.Connection
    ) -> None:
        register(store)
        for _ in range(20):
            fill(store, 1)
        tasks = take(store, limit=5)
        store.commit([decide(task, Done()) for task in tasks])
        before = counts(store)
        store._database.tidy()
        assert counts(store) == before == {"pending": 15, "complete": 5}
        assert hand.execute("SELECT count(*) FROM stayer_counts").fetchone() == (1,)
        check_counts(store)

    def test_a_queue_that_was_dropped_under_a_task_comes_back(
        self, store: PostgresStore, hand: psycopg.Connection
    ) -> None:
        register(store)
        fill(store, 1)
        hand.execute("DELETE FROM stayer_queues")
        assert take(store) == []
        store._database.tidy()
        assert len(take(store)) == 1


def test_each_of_many_tasks_is_taken_once(store: PostgresStore, url: str) -> None:
    names = fill(store, 400)

    def work() -> list[str]:
        mine = opened(url)
        register(mine, name := threading.current_thread().name)
        found: list[str] = []
        while tasks := take(mine, name, limit=7):
            found += ids(tasks)
            mine.turn(name, [decide(task, Done()) for task in tasks], ["q"], 0, EVERYTHING)
        mine.close()
        return found

    workers = [in_thread(work) for _ in range(5)]
    assert sorted(id for each in workers for id in each()) == sorted(names)
    assert counts(store) == {"complete": 400}
    check_counts(store)
