"""Records, and parts of tasks kept beside them, that are gone: whatever meets them goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stayer.core.flows.model import NewFlow
from stayer.core.happenings import Ask, Cancel, Done, Fail, Start
from stayer.core.lifecycle import decide
from stayer.core.model import FINISHED, Fault, Filter, Task
from stayer.core.worker_model import EVERYTHING
from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from tests.contract.builders import (
    Clock,
    apply,
    beat,
    check_counts,
    counts,
    fill,
    get,
    ids,
    new,
    register,
    started,
    submit,
    take,
    taken,
)
from tests.redis.losing import is_lost, left_of, listed, lose, sweep, tidy, told_missing
from tests.servers.redis import RedisServer


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(shared_server: RedisServer, clock: Clock) -> Iterator[RedisStore]:
    store = open_store(shared_server.url(), clock=clock)
    assert isinstance(store, RedisStore)
    store.setup()
    register(store)
    yield store
    store.close()


class TestAReserve:
    def test_passes_over_what_has_no_record(self, store: RedisStore) -> None:
        names = fill(store, 5)
        lose(store, names[0], names[2])
        assert ids(take(store, limit=2)) == [names[1], names[3]]
        tidy(store)
        assert counts(store) == {"pending": 1, "reserved": 2}
        assert ids(take(store, limit=9)) == [names[4]]
        check_counts(store)

    def test_finds_nothing_where_nothing_else_is(self, store: RedisStore) -> None:
        [id] = fill(store, 1)
        lose(store, id)
        assert take(store) == []
        tidy(store)
        is_lost(store, id, "pending")

    def test_passes_it_over_among_many_programs(self, store: RedisStore) -> None:
        names = [new(f"t{at:02d}", command=(f"p{at}",), priority=at // 25) for at in range(50)]
        submit(store, *names)
        lose(store, "t25", "t00")
        assert ids(take(store, limit=26)) == [*(f"t{at}" for at in range(26, 50)), "t01", "t02"]
        tidy(store)
        assert counts(store) == {"pending": 22, "reserved": 26}
        assert ids(take(store, limit=50)) == [f"t{at:02d}" for at in range(3, 25)]
        assert take(store) == []
        assert left_of(store, "t00") == left_of(store, "t25") == []

    @pytest.mark.parametrize("settings", [{"key_limit": 1}, {"fair": "owner"}])
    def test_passes_it_over_in_lines(self, store: RedisStore, settings: Any) -> None:
        store.set_queue("q", **settings)
        names = fill(store, 3, key="k", owner="o")
        [other] = fill(store, 1, key="other", owner="p")
        lose(store, names[0])
        assert set(ids(take(store, limit=2))) == {names[1], other}
        tidy(store)
        is_lost(store, names[0], "pending")

    def test_goes_on_in_a_turn(self, store: RedisStore) -> None:
        task = started(store)
        names = fill(store, 2)
        lose(store, names[0])
        applied, given = store.turn("w", [decide(task, Done())], ["q"], 1, EVERYTHING)
        assert (applied, ids(given)) == ([True], [names[1]])

    def test_of_a_place_that_is_the_old_ones_gives_nothing(self, store: RedisStore) -> None:
        """The id was submitted again: it must not run twice."""
        names = fill(store, 4)
        for again in (names[0], names[2]):
            lose(store, again)
            submit(store, new(again))
        assert ids(listed(store)) == [names[2], names[0], names[3], names[1]]
        assert ids(take(store, limit=9)) == [names[1], names[3], names[0], names[2]]
        assert take(store) == []
        tidy(store)
        assert counts(store) == {"reserved": 4}
        assert told_missing(store) == []
        check_counts(store)

    def test_nor_among_many_programs(self, store: RedisStore) -> None:
        names = [f"t{at:02d}" for at in range(50)]
        submit(store, *(new(name, command=(name,)) for name in names))
        lose(store, "t00")
        submit(store, new("t00", command=("t00",)))
        assert ids(take(store)) == ["t01"]
        assert ids(take(store, limit=99)) == [*names[2:], "t00"]
        assert take(store) == []

    def test_of_one_queue_does_not_give_what_is_in_another_now(self, store: RedisStore) -> None:
        [id] = fill(store, 1)
        lose(store, id)
        submit(store, new(id, "elsewhere"))
        assert take(store) == []
        tidy(store)
        assert (counts(store), counts(store, "elsewhere")) == ({}, {"pending": 1})
        assert ids(take(store, queues="elsewhere")) == [id]


def ending_in(state: str, store: RedisStore) -> Task:
    match state:
        case "waiting":
            return submit(store, new("up", "other"), new("zq-it", after=("up",)))[1]
        case "scheduled":
            return submit(store, new("zq-it", delay=30.0))[0]
        case "pending":
            return submit(store, new("zq-it", priority=3, expire=30.0))[0]
        case "held":
            return submit(store, new("zq-it", held=True))[0]
        case "reserved":
            return taken(store, id="zq-it")
        case "started":
            return apply(store, started(store, id="zq-it", key="k"), Ask("pause"))
        case "complete":
            return apply(store, started(store, id="zq-it"), Done("x" * 5000))
        case "failed":
            return apply(store, started(store, id="zq-it"), Fail(Fault("Oops", "no")))
        case _:
            return apply(store, submit(store, new("zq-it"))[0], Cancel())


EVERY = ("waiting", "scheduled", "pending", "held", "reserved", "started", *FINISHED)


class TestInEveryState:
    @pytest.mark.parametrize("state", EVERY)
    def test_a_task_that_nobody_meets_is_found(
        self, store: RedisStore, clock: Clock, state: str
    ) -> None:
        ending_in(state, store)
        lose(store, "zq-it")
        sweep(store, clock)
        is_lost(store, "zq-it", "pending" if state == "held" else state)

    @pytest.mark.parametrize("state", EVERY)
    def test_everything_else_goes_on(self, store: RedisStore, clock: Clock, state: str) -> None:
        task = ending_in(state, store)
        lose(store, "zq-it")
        clock.advance(40)
        tidy(store)
        assert store.commit([decide(task, Cancel())] if state not in FINISHED else []) in (
            [],
            [None],
        )
        assert beat(store, "w", 2).orders == ()
        assert store.holdings("w") == []
        assert store.peek("q", 9) == []
        assert store.find(Filter(queues=("q",)), None, 9).tasks == ()
        assert store.find(Filter(prefix="zq-it"), None, 9).tasks == ()
        store.queues()
        store.failures([], 9)
        store.durations("q", 9)
        store.set_queue("q", fair="owner", key_limit=2)
        store.set_queue("q", fair=None, key_limit=None)
        assert store.purge(None, FINISHED, float("inf"), 9) == []
        store.forget(
            {"complete": 0.0, "failed": 0.0, "cancelled": 0.0, "log": 0.0, "result": 0.0}, 9
        )
        sweep(store, clock)
        is_lost(store, "zq-it", "pending" if state == "held" else state)
        [after] = fill(store, 1, "q")
        assert ids(take(store)) == [after]

    @pytest.mark.parametrize("state", EVERY)
    def test_its_queue_can_be_dropped(self, store: RedisStore, clock: Clock, state: str) -> None:
        ending_in(state, store)
        lose(store, "zq-it")
        sweep(store, clock) if state in ("reserved", "started") else None
        assert store.drop_queue("q", 9) == 0
        sweep(store, clock)
        assert left_of(store, "zq-it") == []

    @pytest.mark.parametrize("state", EVERY)
    def test_its_id_is_free_unless_it_had_ended(
        self, store: RedisStore, clock: Clock, state: str
    ) -> None:
        ending_in(state, store)
        lose(store, "zq-it")
        sweep(store, clock)
        [answer] = store.submit([new("zq-it")])
        assert answer.fresh == (state not in FINISHED)
        assert answer.purged == (state in FINISHED)


class TestWhatRan:
    def test_gives_its_place_back(self, store: RedisStore, clock: Clock) -> None:
        store.set_queue("q", limit=1, key_limit=1)
        [task] = fill(store, 1, key="k")
        assert ids(take(store)) == [task]
        [following] = fill(store, 1, key="k")
        lose(store, task)
        assert take(store) == []
        assert store.holdings("w") == []  # a worker compares notes
        tidy(store)
        assert ids(take(store)) == [following]
        is_lost(store, task, "reserved")

    def test_is_not_handed_on_when_its_worker_is_lost(
        self, store: RedisStore, clock: Clock
    ) -> None:
        gone, kept = started(store), started(store)
        register(store, "judge")
        lose(store, gone.id)
        clock.advance(1000)
        assert ids(store.declare_lost("judge", {"w": 1})) == [kept.id]
        tidy(store)
        is_lost(store, gone.id, "started")

    def test_of_a_worker_that_is_forgotten_itself_is_handed_on(
        self, store: RedisStore, clock: Clock
    ) -> None:
        task = started(store)
        judge = register(store, "judge")
        lose(store, "w", of="worker")
        assert ids_of_workers(store) == ["judge"]
        clock.advance(1000)
        [suspect] = beat(store, judge, 2).suspects
        assert ids(store.declare_lost("judge", {suspect.worker: suspect.number})) == [task.id]

    def test_a_resubmitted_one_is_left_alone_by_what_is_left_of_the_old(
        self, store: RedisStore, clock: Clock
    ) -> None:
        """What stood for the old one, by times and ends, must not touch the new one."""
        apply(store, started(store, id="done"), Done())
        submit(store, new("due", delay=30.0), new("late", expire=30.0))
        lose(store, "due", "late", "done")
        submit(store, *(new(id) for id in ("due", "late", "done")))
        running = [apply(store, task, Start(pid=1)) for task in take(store, limit=9)]
        assert len(running) == 3
        clock.advance(40)
        tidy(store)
        store.purge(None, FINISHED, float("inf"), 9)
        store.forget({"complete": 0.0}, 9)
        sweep(store, clock)
        assert [get(store, task.id) for task in running] == running
        check_counts(store)


def ids_of_workers(store: RedisStore) -> list[str]:
    return [worker.id for worker in store.workers()]


def test_a_unique_word_is_free_again(store: RedisStore, clock: Clock) -> None:
    submit(store, new("zq-it", unique="word"))
    lose(store, "zq-it")
    submit(store, new("other", unique="word"))
    sweep(store, clock)
    is_lost(store, "zq-it", "pending")


class TestInAFlow:
    def flow(self, store: RedisStore) -> None:
        tasks = (
            new("zq-a", flow="f"),
            new("zq-b", flow="f", part="p"),
            new("zq-c", flow="f", after=("zq-a", "zq-b")),
        )
        store.submit_flow(NewFlow(id="f", name="f"), tasks)

    def test_what_waits_for_it_hears_of_it(self, store: RedisStore, clock: Clock) -> None:
        self.flow(store)
        lose(store, "zq-a")
        sweep(store, clock)
        assert (get(store, "zq-c").state, get(store, "zq-b").state) == ("cancelled", "pending")
        found = store.flow("f")
        assert found is not None
        assert {state: n for part in found.counts.values() for state, n in part.items()} == {
            "pending": 1,
            "cancelled": 1,
        }
        is_lost(store, "zq-a", "pending")

    def test_one_that_waits_lets_the_others_go_on(self, store: RedisStore, clock: Clock) -> None:
        self.flow(store)
        lose(store, "zq-c")
        for task in take(store, limit=2):
            apply(store, apply(store, task, Start(pid=1)), Done())
        sweep(store, clock)
        found = store.flow("f")
        assert found is not None
        assert found.counts == {"": {"complete": 1}, "p": {"complete": 1}}
        is_lost(store, "zq-c", "waiting")

    def test_with_nothing_left_it_is_gone(self, store: RedisStore, clock: Clock) -> None:
        self.flow(store)
        lose(store, "zq-a", "zq-b", "zq-c")
        sweep(store, clock)
        assert store.flow("f") is None
        assert store.flows(None, 9).flows == ()
