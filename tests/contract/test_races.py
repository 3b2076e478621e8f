"""What must hold when several processes are at it at once."""

from __future__ import annotations

from collections import Counter

import pytest

from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.core.model import Filter, Order
from stayer.service.control import tasks as control
from stayer.service.control import workers as worker_control
from stayer.store import Store
from tests.contract import actors
from tests.contract.builders import (
    beat,
    check_counts,
    counts,
    fill,
    get,
    happened,
    ids,
    register,
    started,
    take,
    taken,
)
from tests.contract.own_connections import SQL_SERVERS


@pytest.mark.long
@pytest.mark.parametrize("fresh_url", SQL_SERVERS, indirect=True, scope="session")
def test_sixteen_processes_take_each_of_fifty_thousand_tasks_once(timely: Store, url: str) -> None:
    names = [name for _ in range(50) for name in fill(timely, 1000)]
    got = actors.together(actors.reserve_all, [(url, f"w{number}", 50) for number in range(16)])
    assert Counter(id for each in got for id in each) == Counter(names)
    check_counts(timely)


def test_each_task_is_reserved_once(timely: Store, url: str) -> None:
    names = fill(timely, 400)
    workers = [f"w{number}" for number in range(4)]
    got = actors.together(
        actors.reserve_all, [(url, worker, size) for size, worker in enumerate(workers, start=1)]
    )
    assert Counter(id for each in got for id in each) == Counter(names)
    for worker, reserved in zip(workers, got, strict=True):
        assert sorted(ids(timely.holdings(worker))) == sorted(reserved)
    assert {task.attempt for task in control.find_all(timely, Filter())} == {1}
    assert counts(timely) == {"reserved": 400}
    check_counts(timely)


def test_each_task_is_done_once_by_turns(timely: Store, url: str) -> None:
    names = fill(timely, 200)
    done = actors.together(actors.turn_until_done, [(url, f"w{n}") for n in range(4)])
    assert Counter(id for each in done for id in each) == Counter(names)
    assert counts(timely) == {"complete": 200}
    check_counts(timely)


@pytest.mark.parametrize("size", [1, 50])
def test_an_id_is_accepted_once(timely: Store, url: str, size: int) -> None:
    names = [f"t{number}" for number in range(50)]
    orders = [names[start:] + names[:start] for start in range(0, 48, 6)]
    fresh = actors.together(actors.submit_all, [(url, order, size) for order in orders])
    assert Counter(id for each in fresh for id in each) == Counter(names)
    assert counts(timely) == {"pending": 50}
    assert all(happened(timely.events(name)) == ["pending"] for name in names)
    check_counts(timely)


def test_a_limit_is_never_exceeded(timely: Store, url: str) -> None:
    timely.set_queue("q", limit=3)
    fill(timely, 60)
    seen = actors.together(actors.work_within_a_limit, [(url, f"w{n}", 60) for n in range(4)])
    assert max(running for each in seen for running in each) <= 3
    assert counts(timely) == {"complete": 60}
    check_counts(timely)


def test_each_task_is_promoted_once(timely: Store, url: str) -> None:
    names = fill(timely, 40, eta=timely.now() + 0.5)
    actors.together(actors.promote_all, [(url,)] * 3)
    assert all(happened(timely.events(name)) == ["scheduled", "pending"] for name in names)
    assert counts(timely) == {"pending": 40}


class TestTheDead:
    def test_cannot_finish_what_another_holds(self, timely: Store, url: str) -> None:
        # Given a worker that was declared lost, and another that has taken up its tasks
        register(timely, "zombie")
        register(timely, "judge")
        names = fill(timely, 10)
        zombies = take(timely, "zombie", limit=10)
        worker_control.return_lost_tasks(timely, timely.declare_lost("judge", {"zombie": 1}))
        taken_over = take(timely, "judge", limit=10)

        # When both finish at once
        late = [decide(task, Done("zombie")) for task in zombies]
        answers = actors.all_of(
            [
                (actors.commit_all, (url, late)),
                (actors.commit_all, (url, [decide(task, Done("judge")) for task in taken_over])),
            ]
        )

        # Then the holder's results stand
        assert answers == [[None] * 10, ["complete"] * 10]
        assert {get(timely, name).result for name in names} == {"judge"}

    def test_are_declared_lost_or_beat_but_never_both(self, timely: Store, url: str) -> None:
        # Given workers of whom each holds a task
        register(timely, "judge")
        workers = [f"w{number}" for number in range(30)]
        held = {}
        for worker in workers:
            register(timely, worker)
            held[worker] = [taken(timely, worker).id]

        # When they beat just while they are declared lost
        lost, given = actors.all_of(
            [(actors.beat_all, (url, workers)), (actors.declare_all_lost, (url, "judge", workers))]
        )

        # Then those who lost their lease are those whose tasks were given, and the rest live
        assert set(lost) == set(given)
        alive = {known.id for known in timely.workers()}
        assert alive == {"judge", *workers} - set(lost)
        assert all(set(given[worker]) == set(held[worker]) for worker in lost)

    def test_are_declared_lost_or_reserve_but_lose_nothing(self, timely: Store, url: str) -> None:
        # Given workers that are declared lost just while they reserve
        register(timely, "judge")
        workers = [f"w{number}" for number in range(30)]
        for worker in workers:
            register(timely, worker)
        names = fill(timely, 60)
        got, _ = actors.all_of(
            [
                (actors.reserve_while_declared_lost, (url, workers)),
                (actors.declare_all_lost, (url, "judge", workers)),
            ]
        )

        # Then what they got is what a judge is given, and nothing is held by nobody
        given = timely.declare_lost("judge", {})
        assert sorted(ids(given)) == sorted(id for each in got.values() for id in each)
        worker_control.return_lost_tasks(timely, given)
        assert counts(timely) == {"pending": 60}
        assert sorted(ids(take(timely, "judge", limit=100))) == sorted(names)

    def test_give_each_task_back_once_to_two_buriers(self, timely: Store, url: str) -> None:
        # Given three silent workers with ten tasks each
        silent = {f"w{number}": 1 for number in range(3)}
        names = fill(timely, 30)
        for worker in silent:
            register(timely, worker)
            take(timely, worker, limit=10)
        register(timely, "one")
        register(timely, "two")

        # When two declare them lost at once
        returned = actors.together(
            actors.declare_lost_and_return, [(url, "one", silent), (url, "two", silent)]
        )

        # Then each task came back once
        assert sum(returned) == 30
        assert [get(timely, name).interruptions for name in names] == [1] * 30
        assert [len(timely.attempts(name)) for name in names] == [1] * 30
        assert counts(timely) == {"pending": 30}
        check_counts(timely)


def test_of_twins_one_loses_the_lease(timely: Store, url: str) -> None:
    register(timely, "w")
    last = actors.together(actors.beat_as_a_twin, [(url, "w", "one", 40), (url, "w", "other", 40)])
    assert sorted(last) == [1, 40]


def test_a_lost_answer_costs_nothing(timely: Store) -> None:
    # Given a worker whose beat and reservation went through, though it never heard so
    register(timely, "w")
    beat(timely, "w", 2, nonce="n")
    names = fill(timely, 3)
    take(timely, "w", limit=2)

    # When it asks again, then the beat is a retry, and its holdings show what it got
    beat(timely, "w", 2, nonce="n")
    held = timely.holdings("w")
    assert sorted(ids(held)) == sorted(names[:2])
    changes = [decide(task, Done()) for task in held]
    timely.commit(changes)

    # And when the answer to the commit is lost too, then asking again changes nothing
    assert timely.commit(changes) == [None, None]
    assert counts(timely) == {"complete": 2, "pending": 1}


class TestACancelThatMeetsTheEnd:
    """The operator's cancel and the worker's outcome, from two processes at once."""

    @pytest.fixture
    def names(self, timely: Store) -> list[str]:
        register(timely)
        return [started(timely).id for _ in range(30)]

    def meet(self, url: str, names: list[str], how: str) -> tuple[list[str], list[str]]:
        settled, cancelled = actors.all_of(
            [(actors.settle_all, (url, names, how)), (actors.cancel_all, (url, names))]
        )
        return settled, cancelled

    def test_leaves_a_result_that_is_there(self, timely: Store, url: str, names: list[str]) -> None:
        settled, cancelled = self.meet(url, names, "done")
        assert set(settled) == {"complete"}
        assert set(cancelled) <= {"started", "refused"}
        for name in names:
            task = get(timely, name)
            assert (task.state, task.result, task.orders) == ("complete", "end", ())
        check_counts(timely)

    def test_ends_what_was_handed_back(self, timely: Store, url: str, names: list[str]) -> None:
        settled, cancelled = self.meet(url, names, "interrupted")
        for name, state, answer in zip(names, settled, cancelled, strict=True):
            # Either the order came first and the outcome heeded it, or it found the task waiting.
            assert (state, answer) in (("cancelled", "started"), ("pending", "cancelled"))
            task = get(timely, name)
            assert (task.state, task.ending, task.orders) == ("cancelled", "cancelled", ())
            assert len(timely.attempts(name)) == 1
        assert counts(timely) == {"cancelled": 30}
        assert take(timely) == []

    def test_ends_what_failed_in_one_way(self, timely: Store, url: str, names: list[str]) -> None:
        settled, cancelled = self.meet(url, names, "error")
        for name, state, answer in zip(names, settled, cancelled, strict=True):
            assert (state, answer) in (("cancelled", "started"), ("failed", "refused"))
            assert get(timely, name).state == state
        check_counts(timely)


def test_no_order_is_lost(timely: Store, url: str) -> None:
    register(timely)
    task = started(timely)
    actors.together(actors.ask_all, [(url, task.id, 10)] * 3)
    now = get(timely, task.id)
    assert now.orders == tuple(Order(number, "signal") for number in range(1, 31))
    assert now.last_order == 30


class TestWaking:
    def test_a_worker_wakes_for_each_task_of_another_process(self, timely: Store, url: str) -> None:
        done, _ = actors.all_of(
            [(actors.work_when_woken, (url, "w", 20)), (actors.submit_one_by_one, (url, 20))]
        )
        assert done == [f"t{number}" for number in range(20)]

    def test_a_watcher_misses_nothing(self, timely: Store, url: str) -> None:
        batches = [[f"{who} {number}" for number in range(40)] for who in ("a", "b", "c")]
        numbers, *_ = actors.all_of(
            [
                (actors.follow, (url, 120)),
                *((actors.submit_all, (url, batch, 1)) for batch in batches),
            ]
        )
        assert numbers == [event.number for event in timely.watch(0, 0, 1000)]
        assert len(numbers) == 120
