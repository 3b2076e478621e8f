"""What holds though several write at a time, and commit in whatever order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from stayer.core.lifecycle import Done, decide
from stayer.core.model import EVERYTHING
from stayer.stores.sql.postgres import PostgresStore
from tests.contract.builders import (
    PATIENCE,
    check_counts,
    counts,
    fill,
    get,
    ids,
    in_thread,
    new,
    register,
    submit,
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


def seen(store: PostgresStore, since: int = 0) -> list[str]:
    return [event.id for event in store.watch(since, 0.0, 1000)]


class TestWatchers:
    def test_miss_nothing_that_commits_late(
        self, store: PostgresStore, callers: list[psycopg.Connection]
    ) -> None:
        first, second, third = callers
        store.submit_on(first, [new("a")])
        store.submit_on(second, [new("b")])
        store.submit_on(third, [new("c")])
        second.commit()
        assert seen(store) == ["b"]
        last = store.last_event()
        third.commit()
        first.commit()
        assert sorted(seen(store, last)) == ["a", "c"]
        numbers = [event.number for event in store.watch(0, 0.0, 100)]
        assert numbers == [1, 2, 3]

    def test_are_not_kept_waiting_by_a_transaction_that_stays_open(
        self, store: PostgresStore, callers: list[psycopg.Connection]
    ) -> None:
        store.submit_on(callers[0], [new("open")])
        for name in ("a", "b", "c"):
            submit(store, new(name))
            assert seen(store)[-1] == name
        callers[0].rollback()
        assert seen(store) == ["a", "b", "c"]

    def test_see_each_event_once_while_many_write_and_several_watch(
        self, store: PostgresStore, url: str
    ) -> None:
        stop = threading.Event()

        def watch() -> list[int]:
            mine = opened(url)
            found: list[int] = []
            since = 0
            while True:
                is_last = stop.is_set()
                events = mine.watch(since, 0.0 if is_last else 0.05, 50)
                found += [event.number for event in events]
                since = found[-1] if found else 0
                if is_last and not events:
                    mine.close()
                    return found

        watching = [in_thread(watch) for _ in range(3)]
        with ThreadPoolExecutor(4) as writers:
            for _ in range(60):
                writers.submit(fill, store, 1)
        stop.set()
        for found in watching:
            assert found() == list(range(1, 61))

    def test_hear_of_one_task_in_its_order(
        self, store: PostgresStore, hand: psycopg.Connection, schema: str
    ) -> None:
        # Given somebody who begins to change a task, and has its number, before another does
        register(store)
        submit(store, new("a"))
        [task] = take(store)
        hand.execute("BEGIN")
        hand.execute("SELECT 1 FROM stayer_tasks WHERE id = 'a' FOR UPDATE")
        late = in_thread(lambda: store.commit([decide(task, Done())]))
        wait_for_lock(hand)
        # When the other's event comes first
        hand.execute(
            "INSERT INTO stayer_new_events (at, ids, queue, event) "
            "VALUES (1, '[\"a\"]', 'q', 'first')"
        )
        hand.execute("COMMIT")
        late()
        # Then watchers hear of it first
        assert [event.event for event in store.watch(0, 0.0, 10)][-2:] == ["first", "complete"]
        numbers = [event.number for event in store.events("a")]
        assert numbers == sorted(set(numbers))

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
    def test_a_limit_that_is_set_while_somebody_takes_is_not_exceeded(
        self, store: PostgresStore, url: str, hand: psycopg.Connection
    ) -> None:
        # Given one who has seen no limit and has taken a task, but not committed
        register(store)
        register(store, "v")
        fill(store, 3)
        other = opened(url)
        with store._database.write() as tx:
            from stayer.stores.sql.journal import Ledger
            from stayer.stores.sql.reserve import reserve

            ledger = Ledger(tx)
            assert len(reserve(tx, "w", ["q"], 1, EVERYTHING, ledger)) == 1
            ledger.write()
            # When somebody sets a limit of one
            setting = in_thread(lambda: other.set_queue("q", limit=1))
            wait_for_lock(hand)
        setting()
        # Then nobody gets a second one
        assert take(other, "v") == []
        assert counts(store) == {"reserved": 1, "pending": 2}
        other.close()

    def test_after_a_pause_nobody_takes_any_more(self, store: PostgresStore, url: str) -> None:
        register(store)
        fill(store, 300)
        paused = threading.Event()

        def work() -> int:
            mine = opened(url)
            register(mine, name := threading.current_thread().name)
            late = 0
            while True:
                was_paused = paused.is_set()
                found = take(mine, name, limit=1)
                late += len(found) if was_paused else 0
                if was_paused:
                    mine.close()
                    return late

        workers = [in_thread(work) for _ in range(3)]
        store.set_queue("q", paused=True)
        paused.set()
        assert [each() for each in workers] == [0, 0, 0]

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

    def test_stay_right_while_others_write(self, store: PostgresStore) -> None:
        with ThreadPoolExecutor(3) as writers:
            for _ in range(60):
                writers.submit(fill, store, 2)
                writers.submit(store._database.tidy)
        assert counts(store) == {"pending": 120}

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


def test_what_the_server_breaks_up_is_tried_again(
    store: PostgresStore, hand: psycopg.Connection
) -> None:
    # Given two tasks, one of which somebody has locked who wants the other
    register(store)
    submit(store, new("a"), new("b"))
    first, second = take(store, limit=2)
    hand.execute("SET deadlock_timeout = '10s'")  # so it is the store that is ended
    hand.execute("BEGIN")
    hand.execute("UPDATE stayer_tasks SET usage = NULL WHERE id = 'b'")
    done = in_thread(lambda: store.commit([decide(first, Done()), decide(second, Done())]))
    wait_for_lock(hand)
    hand.execute("UPDATE stayer_tasks SET usage = NULL WHERE id = 'a'")
    hand.execute("COMMIT")
    assert all(done())
    assert get(store, "a").state == get(store, "b").state == "complete"
