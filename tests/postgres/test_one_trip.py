"""What takes one round trip: that it is one, and leaves behind what the long way leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
import pytest

from stayer.core.errors import LeaseLost, StoreUnreachable
from stayer.core.happenings import Done, Fail, Start
from stayer.core.lifecycle import decide
from stayer.core.model import Fault, Filter, LogPiece, Policy, Progress, Report, Task
from stayer.core.worker_model import EVERYTHING
from stayer.stores import open_store
from stayer.stores.sql.bulk import BulkThatRemembers
from stayer.stores.sql.insert import Births, BirthsInGroups
from stayer.stores.sql.postgres import PostgresStore
from stayer.stores.sql.postgres.fast import FastBulk, _SentBirths
from stayer.stores.sql.postgres.transaction import PostgresTransaction
from stayer.stores.sql.store import SqlStore
from stayer.stores.sql.transaction import Transaction
from tests.contract.builders import (
    Clock,
    beat,
    check_counts,
    fill,
    ids,
    in_thread,
    new,
    register,
    submit,
    take,
    take_one,
)
from tests.contract.own_connections import PostgresConnection
from tests.servers.postgres import PostgresServer

Trips: TypeAlias = Callable[[Callable[[], object]], int]


@pytest.fixture
def trips(store: PostgresStore, tmp_path: Path) -> Trips:
    """How many round trips something takes: libpq writes down what it sends. Each message `Sync`
    or `Query` asks for an answer that is waited for.
    """
    register(store)

    def count(act: Callable[[], object]) -> int:
        asked = sent(store, act, tmp_path)
        return sum(words[-1].strip() == "Sync" or "Query" in words for words in asked)

    return count


@pytest.fixture
def statements(tmp_path: Path) -> Callable[[PostgresStore, Callable[[], object]], int]:
    """How many statements it takes, BEGIN and COMMIT among them."""

    def count(store: PostgresStore, act: Callable[[], object]) -> int:
        asked = sent(store, act, tmp_path)
        return sum("Bind" in words or "Query" in words for words in asked)

    return count


def sent(store: PostgresStore, act: Callable[[], object], folder: Path) -> list[list[str]]:
    """The messages that the server gets for this, as libpq writes them down."""
    store._database._keep_up = lambda: None  # type: ignore[method-assign]
    store._database._send = lambda *_: False  # type: ignore[method-assign]
    store.now()  # which is asked for once a second
    pool = store._database.pool
    connection = pool.take()
    pool.close()
    with open(folder / "trace", "w+") as trace:
        connection.pgconn.trace(trace.fileno())
        pool.put(connection)
        act()
        connection.pgconn.untrace()
        trace.seek(0)
        lines = [line.split("\t") for line in trace]
    return [words for words in lines if "F" in words[:2] or "F" in words[1:3]]


def settled(store: PostgresStore) -> None:
    """Let the process see how the queue is, and have statements prepared."""
    for _ in range(5):
        fill(store, 2)
        tasks = take(store, limit=2)
        started = store.commit([decide(tasks[0], Start(pid=1))])
        assert started[0] is not None
        store.commit([decide(started[0], Done())])
        store.turn("w", [decide(tasks[1], Done())], ["q"], 0, EVERYTHING)


class TestRoundTrips:
    def test_a_submission_takes_one_and_two_with_an_id_of_ones_own(
        self, store: PostgresStore, trips: Trips
    ) -> None:
        settled(store)
        assert trips(lambda: store.submit([new("drawn", generated=True)])) == 1
        assert trips(lambda: store.submit([new("chosen")])) == 2

    def test_a_reservation_takes_one(self, store: PostgresStore, trips: Trips) -> None:
        settled(store)
        fill(store, 3)
        assert trips(lambda: take(store, limit=2)) == 1
        take(store)
        assert trips(lambda: take(store)) == 1  # though there is none

    def test_a_commit_takes_one(self, store: PostgresStore, trips: Trips) -> None:
        settled(store)
        fill(store, 1)
        task = take_one(store)
        assert trips(lambda: store.commit([decide(task, Start(pid=1))])) == 1
        [started] = store.get([task.id])
        assert started is not None
        assert started.state == "started"
        assert trips(lambda: store.commit([decide(started, Done(result=1))])) == 1

    def test_a_turn_takes_one(self, store: PostgresStore, trips: Trips) -> None:
        settled(store)
        fill(store, 9)
        tasks = take(store, limit=5)
        done = [decide(task, Done()) for task in tasks]
        assert trips(lambda: store.turn("w", done, ["q"], 5, EVERYTHING)) == 1

    def test_a_beat_takes_one_and_two_with_reports(
        self, store: PostgresStore, trips: Trips
    ) -> None:
        fill(store, 2)
        reports = [
            Report(
                id=task.id, attempt=1, progress=Progress(done=1, total=2),
                checkpoint=b"saved", log=(LogPiece(0, b"printed"),),
            )
            for task in take(store, limit=2)
        ]  # fmt: skip
        for number in range(2, 9):
            beat(store, "w", number, *reports)
        assert trips(lambda: beat(store, "w", 10)) == 1
        assert trips(lambda: beat(store, "w", 11, *reports)) == 2


class TestOneStatement:
    def test_what_one_statement_does_needs_no_begin(
        self, store: PostgresStore, statements: Callable[..., int]
    ) -> None:
        register(store)
        settled(store)
        fill(store, 9)
        two = [new(name, generated=True) for name in ("a", "b")]
        assert statements(store, lambda: store.submit(two)) == 1
        tasks = take(store, limit=5)
        done = [decide(task, Done()) for task in tasks]
        assert statements(store, lambda: store.turn("w", done, ["q"], 1, EVERYTHING)) == 1
        [task] = take(store)
        assert statements(store, lambda: store.commit([decide(task, Start(pid=1))])) == 1

    def test_it_is_read_committed_whatever_the_role_has(self, server: PostgresServer) -> None:
        setting = "default_transaction_isolation=serializable"
        store = open_store(f"{server.url()}&options=-c%20{setting}")
        assert isinstance(store, PostgresStore)
        with store._database._connection() as connection:
            assert connection.is_usual
            assert connection.execute("SHOW transaction_isolation").fetchone() == (
                "read committed",
            )
        store.close()


class Both:
    """The same done to two stores: to one as it is, to the other the long way."""

    def __init__(self, short: PostgresStore, long: PostgresStore, clock: Clock) -> None:
        self.short, self.long, self._clock = short, long, clock

    def do(self, act: Callable[[Any, SqlStore], object]) -> None:
        self._clock.advance(1)
        act(self.short, self.short)
        act(super(PostgresStore, self.long), self.long)

    def check(self) -> None:
        """Nothing tells them apart but the numbers of events."""
        assert self._left(self.short) == self._left(self.long)
        check_counts(self.short)
        check_counts(self.long)

    def _left(self, store: PostgresStore) -> list[object]:
        found = store.find(Filter(), None, 100).tasks
        events = store.watch(0, 0, 1000)
        histories = [[repr(each)[20:] for each in store.attempts(task.id)] for task in found]
        told = sorted((e.id, e.event, e.attempt, e.worker, e.note, e.at) for e in events)
        past = [
            [(e.event, e.attempt, e.worker, e.note, e.at) for e in store.events(task.id)]
            for task in found
        ]
        return [found, told, histories, past, store.queues()]


@pytest.fixture
def both(server: PostgresServer) -> Iterator[Both]:
    clock = Clock()
    opened = [open_store(server.url(), clock=clock) for _ in range(2)]
    short, long = opened
    assert isinstance(short, PostgresStore)
    assert isinstance(long, PostgresStore)
    for store in opened:
        store.setup()
        register(store)
    yield Both(short, long, clock)
    for store in opened:
        store.close()


def test_both_ways_leave_the_same_behind(both: Both) -> None:
    held: dict[int, list[Task]] = {}

    def reserve(way: Any, store: SqlStore) -> None:
        held[id(store)] = way.reserve("w", ["q"], 3, EVERYTHING)

    def work(way: Any, store: SqlStore) -> None:
        first, second, third = held[id(store)]
        [started] = way.commit([decide(first, Start(pid=7))])
        way.commit([decide(started, Fail(Fault(type="Bad", message="luck")))])
        [started] = way.commit([decide(second, Start(pid=7))])
        way.commit([decide(started, Done(result={"answer": 42}))])
        done, more = way.turn("w", [decide(third, Done(result=None))], ["q"], 2, EVERYTHING)
        assert done == [True]
        way.turn("w", [decide(task, Done(result="a")) for task in more], ["q"], 2, EVERYTHING)

    def offer(way: Any, store: SqlStore) -> None:
        for number in range(7):
            submit(
                store,
                new(
                    f"task-{number}",
                    priority=number % 3,
                    key=f"k{number}",
                    policy=Policy(retries=1),
                ),
            )

    both.do(reserve)  # nothing: and so it is seen how the queue is
    both.do(offer)
    both.do(reserve)
    both.do(work)
    both.do(reserve)
    both.check()


class TestWhatIsNotAsUsual:
    """Each of these was not so when the process last looked."""

    @pytest.fixture(autouse=True)
    def _settle(self, store: PostgresStore, trips: Trips) -> None:
        settled(store)

    def test_a_limit_that_is_set_while_a_reserve_is_under_way_holds(
        self, store: PostgresStore
    ) -> None:
        fill(store, 5)
        connection = PostgresConnection(store)
        connection.ask("SELECT pg_advisory_xact_lock(stayer_key('queue q'))")
        connection.ask("""UPDATE stayer_queues SET "limit" = 1 WHERE name = 'q'""")
        reserving = in_thread(lambda: take(store, limit=5))
        connection.wait_for_lock()
        connection.commit()
        assert len(reserving()) == 1
        connection.close()

    def test_a_queue_that_was_paused_gives_nothing(self, store: PostgresStore) -> None:
        fill(store, 1)
        store.set_queue("q", paused=True)
        assert take(store) == []

    def test_a_worker_that_was_declared_lost_gets_nothing_and_ends_nothing(
        self, store: PostgresStore
    ) -> None:
        fill(store, 2)
        task = take_one(store)
        store.declare_lost(None, {"w": 1})
        with pytest.raises(LeaseLost):
            take(store)
        with pytest.raises(LeaseLost):
            store.turn("w", [decide(task, Done())], ["q"], 1, EVERYTHING)
        assert store.get([task.id]) == [task]

    def test_a_lane_that_is_new_is_seen(self, store: PostgresStore) -> None:
        submit(store, new("other", name="other"))
        assert ids(take(store)) == ["other"]

    def test_what_does_not_hold_any_more_is_refused_and_the_rest_done(
        self, store: PostgresStore
    ) -> None:
        fill(store, 3)
        tasks = take(store, limit=2)
        changes = [decide(task, Done()) for task in tasks]
        store.commit(changes[:1])
        done, more = store.turn("w", changes, ["q"], 1, EVERYTHING)
        assert done == [False, True]
        assert len(more) == 1
        assert store.commit(changes[:1]) == [None]

    def test_those_who_wait_for_a_task_hear_of_its_end(self, store: PostgresStore) -> None:
        submit(store, new("first"), new("then", after=("first",)))
        task = take_one(store)
        assert task.id == "first"
        _, more = store.turn("w", [decide(task, Done())], ["q"], 1, EVERYTHING)
        assert ids(more) == ["then"]

    def test_a_hook_hears_of_an_end(self, store: PostgresStore) -> None:
        submit(store, new("heard", notify=("ended:hook",)))
        task = take_one(store)
        store.commit([decide(task, Done())])
        [notice] = store.take_notices(["hook"], 9, 60, 60)
        assert notice.task == "heard"


def test_a_turn_that_is_cut_off_is_not_sure(store: PostgresStore, trips: Trips) -> None:
    settled(store)
    fill(store, 1)
    connection = PostgresConnection(store)
    connection.ask("SELECT pg_advisory_xact_lock(stayer_key('queue q'))")

    reserving = in_thread(lambda: take(store))
    connection.wait_for_lock()
    connection.end_who_waits()
    connection.rollback()
    connection.close()
    with pytest.raises(StoreUnreachable) as raised:
        reserving()
    assert raised.value.unsure


def test_a_commit_of_which_nobody_knows_is_found_out_about(
    store: PostgresStore, trips: Trips, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has committed, and its answer got lost."""
    settled(store)
    fill(store, 1)
    task = take_one(store)
    flushed = PostgresTransaction._commit_if_last

    def lost(self: PostgresTransaction) -> None:
        if self._commits:
            monkeypatch.undo()
            flushed(self)
            self._connection.pgconn.pipeline_sync()
            [again] = open_store(store.url).get([task.id])
            while again is not None and again.state == "reserved":
                [again] = open_store(store.url).get([task.id])
            raise psycopg.OperationalError("injected: the answer got lost")

    monkeypatch.setattr(PostgresTransaction, "_commit_if_last", lost)
    [done] = store.commit([decide(task, Done())])
    assert done is not None
    assert done.state == "complete"
    assert [event.event for event in store.events(task.id)] == ["pending", "reserved", "complete"]
    check_counts(store)


class _Apart(_SentBirths):
    """Enters tasks, their events and the counters one after the other."""

    write = BirthsInGroups.write


class _ApartBulk(FastBulk):
    expect_no_defaults = BulkThatRemembers.expect_no_defaults

    def births(self, tx: Transaction) -> Births:
        return _Apart(tx)


def test_tasks_that_come_by_one_statement_leave_what_several_leave(both: Both) -> None:
    both.long._database.bulk = _ApartBulk()

    def offer(_: Any, store: SqlStore) -> None:
        store.submit([new(f"plain-{number}", generated=True) for number in range(3)])
        store.submit([new("later", generated=True, eta=store.now() + 100)])
        store.submit([new("behind", generated=True, after=("plain-0",))])
        store.set_queue("fair", fair="owner")
        store.submit([new("line", generated=True, queue="fair", owner="ann")])
        store.set_queue("fair", defaults={"retries": 2})
        store.submit([new("usual", generated=True, queue="fair")])

    both.do(offer)
    both.check()
    [shown] = both.short.get(["usual"])
    assert shown is not None
    assert shown.policy.retries == 2
