"""What holds on servers on which several write at a time, and commit in whatever order."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from stayer.core.errors import Refused, StoreUnreachable
from stayer.core.happenings import Cancel, Done, Retry
from stayer.core.lifecycle import decide
from stayer.core.model import FINISHED, Report
from stayer.core.queue_model import Rate
from stayer.core.worker_model import EVERYTHING
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.sql import workers
from stayer.stores.sql.commit import commit
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.mysql import schema as mysql_schema
from stayer.stores.sql.postgres import schema as postgres_schema
from stayer.stores.sql.reserve import reserve
from stayer.stores.sql.store import SqlStore
from stayer.stores.sql.transaction import Row
from tests.contract import builders
from tests.contract.builders import (
    PATIENCE,
    beat,
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
    taken,
)
from tests.contract.own_connections import SQL_SERVERS, OwnConnection, database, own_connections
from tests.faults.fleet import until

pytestmark = pytest.mark.parametrize("fresh_url", SQL_SERVERS, indirect=True, scope="session")


@pytest.fixture
def store(timely: Store) -> SqlStore:
    assert isinstance(timely, SqlStore)
    return timely


@pytest.fixture
def callers(store: SqlStore) -> Iterator[list[OwnConnection]]:
    """Those with transactions of their own."""
    with own_connections(store, 3) as made:
        yield made


@pytest.fixture
def caller(callers: list[OwnConnection]) -> OwnConnection:
    return callers[0]


@pytest.fixture
def connection(callers: list[OwnConnection]) -> OwnConnection:
    """Somebody who locks things, and looks who waits."""
    return callers[-1]


def opened(url: str) -> Store:
    store = open_store(url)
    store.setup()
    return store


def seen(store: Store, since: int = 0) -> list[str]:
    return [event.id for event in store.watch(since, 0.0, 1000)]


def finish_relaying(store: Store) -> None:
    """What a worker does for others, as long as there is something."""
    for _ in range(100):
        if store.promote(100) != 0.0:
            return
    raise AssertionError("something stays in the outbox")


class TestWatchers:
    def test_miss_nothing_that_commits_late(
        self, store: SqlStore, callers: list[OwnConnection]
    ) -> None:
        first, second, third = callers
        for one, id in zip(callers, "abc", strict=True):
            store.submit_on(one.raw, [new(id)])
        second.commit()
        assert seen(store) == ["b"]
        last = store.last_event()
        third.commit()
        first.commit()
        assert sorted(seen(store, last)) == ["a", "c"]
        assert [event.number for event in store.watch(0, 0.0, 100)] == [1, 2, 3]

    def test_are_not_kept_waiting_by_a_transaction_that_stays_open(
        self, store: SqlStore, caller: OwnConnection
    ) -> None:
        store.submit_on(caller.raw, [new("open")])
        for name in ("a", "b", "c"):
            submit(store, new(name))
            assert seen(store)[-1] == name
        caller.rollback()
        assert seen(store) == ["a", "b", "c"]

    def test_see_each_event_once_while_many_write_and_several_watch(
        self, store: SqlStore, url: str
    ) -> None:
        deadline = time.monotonic() + PATIENCE

        def watch() -> list[int]:
            mine = opened(url)
            found: list[int] = []
            while len(found) < 60 and time.monotonic() < deadline:
                events = mine.watch(found[-1] if found else 0, 0.05, 50)
                found += [event.number for event in events]
            found += [event.number for event in mine.watch(found[-1], 0.0, 50)]
            mine.close()
            return found

        watching = [in_thread(watch) for _ in range(3)]
        with ThreadPoolExecutor(4) as writers:
            for _ in range(60):
                writers.submit(fill, store, 1)
        for found in watching:
            assert found() == list(range(1, 61))

    def test_hear_of_one_task_in_its_order(
        self, store: SqlStore, connection: OwnConnection
    ) -> None:
        # Given somebody who begins to change a task, and has its number, before another does
        register(store)
        task = taken(store, id="a")
        connection.ask("SELECT 1 FROM stayer_tasks WHERE id = 'a' FOR UPDATE")
        late = in_thread(lambda: store.commit([decide(task, Done())]))
        connection.wait_for_lock()
        # When the other's event comes first
        connection.ask(
            f"INSERT INTO {connection.new_events} (at, ids, queue, event) "
            "VALUES (1, '[\"a\"]', 'q', 'first')"
        )
        connection.commit()
        late()
        # Then watchers hear of it first
        assert [event.event for event in store.watch(0, 0.0, 10)][-2:] == ["first", "complete"]
        numbers = [event.number for event in store.events("a")]
        assert numbers == sorted(set(numbers))

    def test_end_by_their_time_though_they_are_woken_for_nothing(
        self, store: SqlStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Restless:
            def wait(self, timeout: float | None) -> bool:
                return True

            def close(self) -> None:
                pass

        monkeypatch.setattr(type(database(store)), "event_waiter", lambda self: Restless())
        watched = in_thread(lambda: store.watch(0, 0.05, 1))
        assert watched() == []


class TestSettings:
    def test_a_limit_that_is_set_while_somebody_takes_is_not_exceeded(
        self, store: SqlStore, url: str, connection: OwnConnection
    ) -> None:
        fill(store, 3)
        self.set_a_limit_while_somebody_takes(store, url, connection)

    def test_nor_one_of_a_queue_whose_first_tasks_have_just_come(
        self, store: SqlStore, url: str, caller: OwnConnection, connection: OwnConnection
    ) -> None:
        """It may have no row yet, and what is not there can't be locked."""
        store.submit_on(caller.raw, [new("a"), new("b"), new("c")])
        caller.commit()
        self.set_a_limit_while_somebody_takes(store, url, connection)

    def set_a_limit_while_somebody_takes(
        self, store: SqlStore, url: str, connection: OwnConnection
    ) -> None:
        # Given one who has seen no limit and has taken a task, but not committed
        register(store)
        register(store, "v")
        other = opened(url)
        with database(store).write() as tx:
            ledger = Ledger(tx)
            assert len(reserve(tx, "w", ["q"], 1, EVERYTHING, ledger)) == 1
            ledger.write()
            tx.one("seal.get")  # which sends what waits
            # When somebody sets a limit of one
            setting = in_thread(lambda: other.set_queue("q", limit=1))
            connection.wait_for_lock()
        setting()
        # Then nobody gets a second one
        assert take(other, "v") == []
        assert counts(store) == {"reserved": 1, "pending": 2}
        other.close()

    def test_after_a_pause_nobody_takes_any_more(self, store: SqlStore, url: str) -> None:
        register(store)
        fill(store, 200)
        paused = threading.Event()

        def work() -> int:
            mine = opened(url)
            register(mine, name := threading.current_thread().name)
            while True:
                was_paused = paused.is_set()
                found = take(mine, name, limit=1)
                if was_paused:
                    mine.close()
                    return len(found)

        working = [in_thread(work) for _ in range(3)]
        store.set_queue("q", paused=True)
        paused.set()
        assert [each() for each in working] == [0, 0, 0]

    def test_those_who_take_from_one_queue_do_not_wait_for_each_other(
        self, store: SqlStore, url: str
    ) -> None:
        register(store)
        register(store, "v")
        fill(store, 4)
        other = opened(url)
        with database(store).write() as tx:
            assert len(reserve(tx, "w", ["q"], 2, EVERYTHING, Ledger(tx))) == 2
            tx.one("seal.get")  # which sends what waits
            assert len(take(other, "v", limit=10)) == 2
            fill(other, 1)
        other.close()

    def test_a_task_that_comes_while_lines_are_made_gets_into_its_own(
        self, store: SqlStore, caller: OwnConnection
    ) -> None:
        register(store)
        fill(store, 1, owner="x")
        store.submit_on(caller.raw, [new("late", owner="y")])
        store.set_queue("q", fair="owner")
        for _ in range(3):
            database(store).tidy()
        caller.commit()
        database(store).tidy()
        assert "late" in ids(take(store, limit=10))

    def test_a_task_that_comes_while_somebody_changes_the_lines_gets_into_its_own(
        self, store: SqlStore, caller: OwnConnection
    ) -> None:
        # Given one who makes the queue fair, and has not committed
        register(store)
        fill(store, 1, owner="x")
        with database(store).write() as tx:
            tx.run("queue.fair", "owner", "q")
            tx.one("seal.get")
            # When somebody else, who does not see it, submits, and commits much later
            store.submit_on(caller.raw, [new("late", owner="y")])
        for _ in range(3):
            database(store).tidy()
        caller.commit()

        def is_taken() -> bool:
            database(store).tidy()  # does nothing while the store's own upkeep is at it
            return "late" in ids(take(store, limit=10))

        # Then it is not forgotten
        until(is_taken, "for the task that came late")

    def test_defaults_count_for_a_transaction_that_began_before_they_were_set(
        self, store: SqlStore, caller: OwnConnection
    ) -> None:
        # Given a transaction that sees nothing newer than itself, and has begun
        fill(store, 1)
        caller.ask("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        caller.ask("SELECT count(*) FROM stayer_tasks")
        # When its queue gets defaults before a task comes in it
        store.set_queue("q", defaults={"retries": 3})
        store.submit_on(caller.raw, [new("late")])
        caller.commit()
        # Then the task has them
        assert get(store, "late").policy.retries == 3

    def test_a_rate_is_not_counted_twice_by_one_who_has_waited(
        self, store: SqlStore, url: str
    ) -> None:
        early, late = builders.Clock(), builders.Clock()
        one, other = open_store(url, clock=early), open_store(url, clock=late)
        one.set_queue("q", rate=Rate(2, 1.0))
        late.advance(1.0)
        for each in (one, other):
            register(each, "w" if each is one else "v", lease=1000.0)
        fill(one, 9)
        assert len(take(one, limit=9)) == 2
        # The other comes a second later; then one who began before that, and had to wait
        assert len(take(other, "v", limit=1)) == 1
        assert len(take(one, limit=9)) == 1
        assert take(other, "v", limit=9) == []
        one.close()
        other.close()


class TestUniqueWords:
    def test_one_that_is_claimed_in_an_open_transaction_keeps_only_its_like_waiting(
        self, store: SqlStore, caller: OwnConnection, connection: OwnConnection
    ) -> None:
        register(store)
        fill(store, 1)
        store.submit_on(caller.raw, [new("a", unique="word")])
        # Others of the queue go on
        submit(store, new("b", unique="other"))
        assert len(take(store, limit=10)) == 2
        # One that wants the same waits, and hears who has it
        second = in_thread(lambda: store.submit([new("c", unique="word")]))
        connection.wait_for_lock()
        caller.commit()
        [answer] = second()
        assert (answer.task.id, answer.fresh) == ("a", False)

    def test_many_who_want_one_get_one_task(self, store: SqlStore) -> None:
        with ThreadPoolExecutor(8) as submitters:
            made = [
                submitters.submit(store.submit, [new(f"t{n}", unique="word")]) for n in range(24)
            ]
        assert len({each.result()[0].task.id for each in made}) == 1


class TestATaskAfterAnotherInAnOpenTransaction:
    """A caller's transaction may stay open for an hour; the other task must not notice."""

    @pytest.fixture
    def upstream(self, store: SqlStore, caller: OwnConnection) -> Any:
        """A task that runs, and another one after it that is not committed yet."""
        register(store)
        upstream = taken(store, id="a")
        [answer] = store.submit_on(caller.raw, [new("b", after=("a",))])
        assert answer.task.state == "waiting"
        return upstream

    def test_keeps_neither_beat_nor_commit_waiting(
        self, store: SqlStore, caller: OwnConnection, upstream: Any
    ) -> None:
        report = Report(id="a", attempt=1, paused=True)
        in_thread(lambda: beat(store, "w", 2, report))()
        in_thread(lambda: builders.apply(store, upstream, Done()))()
        caller.commit()
        finish_relaying(store)
        assert get(store, "b").state == "pending"

    def test_waits_until_it_ends(
        self, store: SqlStore, caller: OwnConnection, upstream: Any
    ) -> None:
        caller.commit()
        finish_relaying(store)
        assert get(store, "b").state == "waiting"
        builders.apply(store, upstream, Done())
        assert get(store, "b").state == "pending"

    def test_hears_that_it_was_deleted_meanwhile(
        self, store: SqlStore, caller: OwnConnection, upstream: Any
    ) -> None:
        builders.apply(store, upstream, Done())
        assert store.purge(["a"], sorted(FINISHED), store.now() + 1, 1) == ["a"]
        caller.commit()
        finish_relaying(store)
        assert get(store, "b").state == "pending"

    def test_that_came_in_it_too_starts_when_that_ends(
        self, store: SqlStore, caller: OwnConnection, upstream: Any
    ) -> None:
        store.submit_on(caller.raw, [new("c", after=("b",))])
        caller.commit()
        builders.apply(store, upstream, Done())
        finish_relaying(store)
        [b] = take(store)
        builders.apply(store, b, Done())
        assert get(store, "c").state == "pending"

    def test_that_is_deleted_at_once_leaves_nothing_behind(
        self, store: SqlStore, caller: OwnConnection, connection: OwnConnection, upstream: Any
    ) -> None:
        caller.commit()
        connection.ask("DELETE FROM stayer_tasks WHERE id = 'b'")
        connection.commit()
        finish_relaying(store)
        builders.apply(store, upstream, Done())
        assert connection.ask("SELECT count(*) FROM stayer_outbox") == [(0,)]

    def test_is_gone_after_a_rollback(
        self, store: SqlStore, caller: OwnConnection, upstream: Any
    ) -> None:
        caller.rollback()
        builders.apply(store, upstream, Done())
        finish_relaying(store)
        assert store.get(["b"]) == [None]


class TestEnds:
    def test_are_passed_on_by_one_who_sees_the_outbox_newer_than_the_task(
        self, store: SqlStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        register(store)
        upstream = taken(store, id="a")
        submit(store, new("b", after=("a",)))
        with database(store).write() as tx:
            commit(tx, [decide(upstream, Done())])
        everything = type(tx).all

        def stale(self: Any, statement: Any, *parameters: Any) -> list[Row]:
            rows: list[Row] = everything(self, statement, *parameters)
            if statement == "outbox":
                return [(id, "reserved", noted) for id, _, noted in rows]
            return rows

        monkeypatch.setattr(type(tx), "all", stale)
        finish_relaying(store)
        assert get(store, "b").state == "pending"

    def test_come_after_it_is_known_that_a_retry_waits_for_them(
        self, store: SqlStore, connection: OwnConnection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Given an upstream of which it is known that others wait for it, and one that has ended
        register(store)
        upstream = taken(store, id="a")
        submit(store, new("b", after=("a",)), new("c", after=("a",)))
        b = builders.apply(store, get(store, "b"), Cancel())
        retry = decide(b, Retry(waits=("a",)))
        # When that is retried, and the upstream ends before this is committed
        with database(store).write() as tx:
            monkeypatch.setattr(tx, "commit_with_next", lambda: None)
            commit(tx, [retry])
            tx.one("seal.get")  # which sends what waits
            ending = in_thread(lambda: builders.apply(store, upstream, Done()))
            connection.wait_for_lock()
        ending()
        finish_relaying(store)
        # Then it hears of it
        assert get(store, "b").state == "pending"

    def test_are_passed_on_though_a_dependent_is_deleted_meanwhile(
        self, store: SqlStore, connection: OwnConnection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        register(store)
        upstream = taken(store, id="a")
        submit(store, new("b", after=("a",)), new("c", after=("a",)))
        with database(store).write() as tx:
            commit(tx, [decide(upstream, Done())])
        everything = type(tx).all

        def late(self: Any, statement: Any, *parameters: Any) -> list[Row]:
            if statement == "get.locked":
                connection.ask("DELETE FROM stayer_tasks WHERE id = 'b'")
                connection.commit()
            return list(everything(self, statement, *parameters))

        monkeypatch.setattr(type(tx), "all", late)
        finish_relaying(store)
        assert get(store, "c").state == "pending"


class TestAWorker:
    def test_that_has_just_beaten_is_not_dropped(
        self, store: SqlStore, connection: OwnConnection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Given a stale worker that beats again, but has not committed
        known = register(store, lease=0.001)
        alive = builders.worker(lease=1000.0)
        with database(store).write() as tx:
            monkeypatch.setattr(tx, "commit_with_next", lambda: None)
            workers.beat(tx, alive, 2, "nonce 2", ())
            tx.one("seal.get")  # which sends what waits
            # When somebody drops it
            dropping = in_thread(lambda: store.drop_worker(known.id))
            connection.wait_for_lock()
        # Then it is alive
        with pytest.raises(Refused, match="alive"):
            dropping()
        beat(store, alive, 3)


class TestADroppedQueue:
    def test_stays_as_long_as_somebody_has_locked_a_task_of_it(
        self, store: SqlStore, connection: OwnConnection
    ) -> None:
        fill(store, 2)
        connection.ask("SELECT 1 FROM stayer_tasks ORDER BY seq LIMIT 1 FOR UPDATE")
        assert [store.drop_queue("q", 10) for _ in range(2)] == [1, 1]
        connection.rollback()
        while store.drop_queue("q", 10):
            pass
        assert store.queues(["q"]) == []

    def test_counts_a_task_that_came_while_it_was_dropped(
        self, store: SqlStore, caller: OwnConnection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        register(store)
        fill(store, 1)
        store.submit_on(caller.raw, [new("late")])
        with database(store).write() as tx:
            one = type(tx).one

        def late(self: Any, statement: Any, *parameters: Any) -> Row | None:
            row: Row | None = one(self, statement, *parameters)
            if statement == "queue.left":
                caller.commit()
            return row

        monkeypatch.setattr(type(tx), "one", late)
        store.drop_queue("q", 10)
        monkeypatch.undo()
        database(store).tidy()
        assert counts(store) == {"pending": 1}
        check_counts(store)
        assert ids(take(store, limit=10)) == ["late"]

    def test_comes_back_with_a_task_that_is_committed_later(
        self, store: SqlStore, caller: OwnConnection
    ) -> None:
        register(store)
        fill(store, 1)
        store.submit_on(caller.raw, [new("late")])
        while store.drop_queue("q", 10):
            pass
        caller.commit()
        database(store).tidy()
        assert counts(store) == {"pending": 1}
        check_counts(store)
        assert ids(take(store, limit=10)) == ["late"]


class TestCounts:
    def test_are_right_though_many_write_and_rows_are_added_up_meanwhile(
        self, store: SqlStore, connection: OwnConnection
    ) -> None:
        register(store)
        with ThreadPoolExecutor(6) as many:
            for _ in range(30):
                many.submit(fill, store, 2)
                many.submit(database(store).tidy)
                many.submit(take, store, limit=1)
        check_counts(store)
        database(store).tidy()
        assert connection.ask("SELECT count(*) FROM stayer_counts") == [(1,)]
        check_counts(store)

    def test_a_queue_of_an_open_transaction_comes_with_its_commit(
        self, store: SqlStore, caller: OwnConnection
    ) -> None:
        register(store, queues=["fresh"])
        store.submit_on(caller.raw, [new("a", queue="fresh")])
        submit(store, new("b", queue="fresh"))  # nobody waits for the other's commit
        caller.commit()
        assert counts(store, "fresh") == {"pending": 2}
        assert len(take(store, queues=["fresh"], limit=10)) == 2


def test_a_deadlock_is_tried_again(store: SqlStore, connection: OwnConnection) -> None:
    # Given one who has a, and wants b; the other is to have done more than he has
    submit(store, new("a"), new("b"))
    a, b = get(store, "a"), get(store, "b")
    if "postgresql" in store.url:
        connection.ask("SET LOCAL deadlock_timeout = '10s'")
    else:
        for _ in range(30):
            connection.ask("INSERT INTO stayer_marks (worker, at) VALUES ('x', 0)")
    connection.ask("SELECT 1 FROM stayer_tasks WHERE id = 'b' FOR UPDATE")
    cancelling = in_thread(lambda: store.commit([decide(a, Cancel()), decide(b, Cancel())]))
    connection.wait_for_lock()
    # When the circle closes
    connection.ask("SELECT 1 FROM stayer_tasks WHERE id = 'a' FOR UPDATE")
    connection.commit()
    # Then nobody hears of it
    assert [task and task.state for task in cancelling()] == ["cancelled", "cancelled"]


def test_an_upgrade_waits_for_nobody_whose_transaction_stays_open(
    store: SqlStore,
    url: str,
    caller: OwnConnection,
    connection: OwnConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All others would stand behind it."""
    for schema in (mysql_schema, postgres_schema):
        monkeypatch.setattr(schema, "LOCK_PATIENCE_S", 1)
    # Given tables of an older version, and somebody's transaction with a task
    connection.ask("ALTER TABLE stayer_tasks DROP COLUMN metrics")
    connection.commit()
    caller.ask("INSERT INTO stayer_tasks (id, queue) VALUES ('a', 'q')")
    # When they are to be changed, then that is given up
    upgrading = in_thread(lambda: opened(url))
    with pytest.raises(StoreUnreachable):
        upgrading()
    connection.ask("INSERT INTO stayer_tasks (id, queue) VALUES ('b', 'r')")
    connection.commit()
    # And done once nobody is in the way
    caller.commit()
    opened(url).close()
    assert sorted(task.id for task in store.get(["a", "b"]) if task is not None) == ["a", "b"]
