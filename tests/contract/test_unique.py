"""A unique word: who holds it, for how long, and what happens to a submit that meets a holder."""

from __future__ import annotations

import pytest

from stayer.core.errors import Refused
from stayer.core.happenings import Cancel, Done, Fail, Interrupt, Retry
from stayer.core.lifecycle import decide
from stayer.core.model import FINISHED, Fault, Filter, Policy
from stayer.service.control import edits as edit_control
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.contract import actors
from tests.contract.builders import (
    Clock,
    apply,
    check_counts,
    commit,
    counts,
    get,
    ids,
    new,
    register,
    started,
    submit,
    take,
    take_one,
    taken,
)


def holder(store: Store, queue: str = "q", unique: str = "u") -> str | None:
    """The id of the task that meets a newcomer; None if the newcomer was welcome, and is gone."""
    [answer] = store.submit([new(queue=queue, unique=unique)])
    if not answer.fresh:
        return answer.task.id
    apply(store, answer.task, Cancel())
    store.purge([answer.task.id], FINISHED, float("inf"), 1)
    return None


def test_a_second_one_is_answered_with_the_first(store: Store) -> None:
    submit(store, new("first", unique="u", parameters=1))
    [answer] = store.submit([new("second", unique="u", parameters=2)])
    assert (answer.task.id, answer.task.parameters, answer.fresh) == ("first", 1, False)
    assert store.get(["second"]) == [None]
    assert counts(store) == {"pending": 1}
    check_counts(store)


def test_it_comes_back_as_it_was_submitted(store: Store) -> None:
    wanted = new("a", key="k", unique="u", unique_for=5.0)
    [task] = submit(store, wanted)
    assert (task.key, task.unique, task.unique_while, task.unique_for) == ("k", "u", "alive", 5.0)
    assert get(store, "a") == task


def test_within_one_call_the_first_has_it(store: Store) -> None:
    answers = store.submit([new("a", unique="u"), new("b", unique="u"), new("c", unique="v")])
    assert [(each.task.id, each.fresh) for each in answers] == [
        ("a", True), ("a", False), ("c", True),
    ]  # fmt: skip


def test_it_belongs_to_one_queue(store: Store) -> None:
    submit(store, new("a", unique="u"), new("b", queue="other", unique="u"))


def test_an_id_that_is_there_says_more_than_its_word(store: Store) -> None:
    submit(store, new("a", unique="u"), new("b", unique="v"))
    [answer] = store.submit([new("b", unique="u")])
    assert answer.task.id == "b"


@pytest.mark.parametrize("end", [Done(), Fail(Fault("Boom"))], ids=["done", "failed"])
def test_it_is_held_until_the_end(store: Store, end: Done | Fail) -> None:
    register(store)
    task = started(store, id="a", unique="u")
    assert holder(store) == "a"
    apply(store, task, end)
    assert holder(store) is None


def test_it_is_held_while_it_waits_for_a_retry(store: Store) -> None:
    register(store)
    task = taken(store, id="a", unique="u", policy=Policy(retries=1, retry_wait=60))
    assert apply(store, task, Fail(Fault("Boom"))).state == "scheduled"
    assert holder(store) == "a"


def test_it_may_be_held_only_while_waiting(store: Store) -> None:
    register(store)
    submit(store, new("a", unique="u", unique_while="waiting"))
    assert holder(store) == "a"
    task = take_one(store)
    assert holder(store) is None
    apply(store, task, Interrupt())
    assert holder(store) == "a"


def test_two_wait_if_one_that_gave_it_away_comes_back(store: Store) -> None:
    register(store)
    first = taken(store, id="a", unique="u", unique_while="waiting")
    submit(store, new("b", unique="u", unique_while="waiting"))
    apply(store, first, Interrupt())
    assert counts(store) == {"pending": 2}
    assert holder(store) in ("a", "b")
    assert sorted(ids(take(store, limit=5))) == ["a", "b"]
    assert holder(store) is None


def test_it_may_be_held_for_a_time_after_the_end(store: Store, clock: Clock) -> None:
    register(store)
    apply(store, taken(store, id="a", unique="u", unique_for=10.0), Done())
    clock.advance(9)
    assert holder(store) == "a"
    clock.advance(1)
    assert holder(store) is None


def test_deleting_the_holder_frees_it(store: Store) -> None:
    register(store)
    apply(store, taken(store, id="a", unique="u", unique_for=1000.0), Done())
    assert holder(store) == "a"
    assert store.purge(["a"], FINISHED, float("inf"), 1) == ["a"]
    assert holder(store) is None


def test_dropping_the_queue_frees_it(store: Store) -> None:
    submit(store, new("a", unique="u"))
    assert store.drop_queue("q", 10) == 0
    submit(store, new("b", unique="u"))


def test_a_finished_task_does_not_run_again_beside_another(store: Store) -> None:
    register(store)
    ended = apply(store, taken(store, id="a", unique="u"), Done())
    submit(store, new("b", unique="u"))
    assert commit(store, ended, Retry()) is None
    assert get(store, "a") == ended
    with pytest.raises(Refused, match=r"task b \(pending\) holds its unique word 'u'"):
        edit_control.retry(store, "a")
    control.cancel(store, "b")
    assert edit_control.retry(store, "a").state == "pending"
    assert holder(store) == "a"


def test_of_two_finished_ones_one_runs_again(store: Store) -> None:
    register(store)
    ended = [apply(store, taken(store, id=name, unique="u"), Done()) for name in ("a", "b")]
    answers = store.commit([decide(task, Retry()) for task in ended])
    assert [answer is not None for answer in answers] == [True, False]


def test_one_that_ends_in_the_same_call_makes_way(store: Store) -> None:
    register(store)
    ended = apply(store, taken(store, id="a", unique="u"), Done())
    [waiting] = submit(store, new("b", unique="u"))
    answers = store.commit([decide(waiting, Cancel()), decide(ended, Retry())])
    assert [answer and answer.state for answer in answers] == ["cancelled", "pending"]


def test_its_own_end_does_not_keep_a_task_from_running_again(store: Store) -> None:
    register(store)
    ended = apply(store, taken(store, id="a", unique="u", unique_for=100.0), Done())
    assert apply(store, ended, Retry()).state == "pending"


def test_it_can_be_searched_for(store: Store) -> None:
    submit(store, new("a", unique="u", key="k"), new("b", key="k"), new("c", unique="v"))
    assert ids(store.find(Filter(unique="u"), None, 10).tasks) == ["a"]
    assert ids(store.find(Filter(queues=("q",), unique="u"), None, 10).tasks) == ["a"]
    assert ids(store.find(Filter(key="k"), None, 10).tasks) == ["b", "a"]
    assert ids(store.find(Filter(key="k", states=("pending",)), None, 10).tasks) == ["b", "a"]


def test_of_many_processes_one_gets_it(timely: Store, url: str) -> None:
    fresh = actors.together(actors.submit_unique, [(url, f"p{n}", 20) for n in range(4)])
    assert sorted(word for each in fresh for word in each) == sorted(f"u{n}" for n in range(20))
    assert counts(timely) == {"pending": 20}
    check_counts(timely)
