"""Store.submit: what is accepted, once, and how it comes back."""

from __future__ import annotations

from typing import Any

import pytest

from stayer.core.errors import BadInput, StayerError
from stayer.core.happenings import Done
from stayer.core.model import FINISHED, Policy, Task, Value
from stayer.store import REMEMBERED, Store
from tests.contract.builders import (
    VALUES,
    Clock,
    apply,
    check_counts,
    counts,
    get,
    happened,
    ids,
    new,
    register,
    submit,
    take,
    take_one,
    taken,
)


def test_of_many_that_are_alike_or_not_each_is_its_own(store: Store) -> None:
    # Given neighbours that are alike, and some between them that are not
    submit(store, new("there", parameters="old"))
    wanted = [
        new("a", parameters={"n": 1}), new("b", parameters='"quoted" \\ \u2603'), new("c"),
        new("d", parameters=b"\x00\xff"), new("e", parameters=b"raw"), new("f", parameters=5),
        new("there"), new("g", tags=("x",)), new("h", tags=("x",), parameters=[None]),
        new("i", queue="other"), new("j", delay=60.0), new("k", delay=60.0, parameters=True),
        new("l", name="n", policy=Policy(retries=1)), new('m"\\\u2603', priority=3),
    ]  # fmt: skip

    # When they are submitted at once
    answers = store.submit(wanted)

    # Then each is there as it was asked for, and the events of a queue are in their order
    assert [answer.fresh for answer in answers] == [each.id != "there" for each in wanted]
    for asked, answer in zip(wanted, answers, strict=True):
        assert get(store, asked.id) == answer.task
        if asked.id != "there":
            seen = answer.task
            assert (seen.id, seen.queue, seen.parameters) == (
                asked.id, asked.queue, asked.parameters,
            )  # fmt: skip
            assert (seen.tags, seen.name, seen.policy) == (asked.tags, asked.name, asked.policy)
            [event] = store.events(asked.id)
            assert (event.event, event.at) == (seen.state, seen.created)
    fresh = [each.id for each in wanted if each.id != "there" and each.queue == "q"]
    told = [event for event in store.watch(0, 0, 100) if event.id in fresh]
    assert [event.id for event in told] == fresh
    numbers = [store.events(id)[0].number for id in fresh]
    assert numbers == sorted(set(numbers))
    check_counts(store)


def test_an_accepted_task_is_there_as_it_was_submitted(store: Store, clock: Clock) -> None:
    wanted = new(
        "a-1",
        queue="videos",
        command=("ffmpeg", "-i", "in put.mov", ""),
        cwd="/data",
        env={"LANG": "C", "EMPTY": ""},
        parameters={"crf": 23},
        priority=-7,
        owner="ada",
        tags=("night", "4k"),
        held=True,
        policy=Policy(retries=2, losses=9),
    )

    [answer] = store.submit([wanted])

    assert answer.fresh
    assert answer.task == Task(
        id="a-1",
        queue="videos",
        command=("ffmpeg", "-i", "in put.mov", ""),
        cwd="/data",
        env={"LANG": "C", "EMPTY": ""},
        parameters={"crf": 23},
        state="pending",
        priority=-7,
        owner="ada",
        tags=("night", "4k"),
        held=True,
        policy=Policy(retries=2, losses=9),
        created=clock.now,
        updated=clock.now,
    )
    assert store.get(["a-1"]) == [answer.task]


def test_a_name_is_there_as_it_was_submitted(store: Store) -> None:
    [task] = submit(store, new("a", name="video.encode"))
    assert (task.name, task.command) == ("video.encode", None)
    assert get(store, "a") == task


def test_a_task_that_says_nothing_has_the_defaults(store: Store, clock: Clock) -> None:
    [task] = submit(store, new("bare"))
    assert task == Task(id="bare", queue="q", created=clock.now, updated=clock.now)
    assert get(store, "bare") == task


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_parameters_come_back_as_they_went_in(store: Store, value: Value) -> None:
    [task] = submit(store, new("a", parameters=value))
    for seen in (task, get(store, "a")):
        assert seen.parameters == value
        assert type(seen.parameters) is type(value)


@pytest.mark.parametrize("id", ["x" * 200, "with space", "ü☃", "50%_off*[a]", "a/b:c{d}", "it's"])
def test_any_text_may_be_an_id_and_a_queue(store: Store, id: str) -> None:
    register(store)
    submit(store, new(id, queue=id), new("plain", queue="another"))
    assert get(store, id).queue == id
    assert ids(take(store, queues=[id], limit=10)) == [id]
    assert counts(store, id) == {"reserved": 1}


def test_ids_that_differ_in_case_alone_are_different(store: Store) -> None:
    submit(store, new("Task"), new("task"))
    assert ids([get(store, "Task"), get(store, "task")]) == ["Task", "task"]


def test_tasks_are_accepted_in_the_order_given(store: Store) -> None:
    register(store)
    names = ["m", "z", "a", "k", "b"]
    answers = store.submit([new(name) for name in names])
    assert [answer.task.id for answer in answers] == names
    assert ids(take(store, limit=10)) == names


def test_nothing_submitted_is_nothing_done(store: Store) -> None:
    assert store.submit([]) == []
    assert store.queues() == []


def test_an_id_that_is_there_is_not_accepted_again(store: Store, clock: Clock) -> None:
    [first] = submit(store, new("a", parameters=1))
    clock.advance(5)
    [again] = store.submit([new("a", parameters=2, priority=9)])
    assert (again.fresh, again.purged) == (False, False)
    assert again.task == first
    assert get(store, "a") == first
    assert counts(store) == {"pending": 1}
    assert happened(store.events("a")) == ["pending"]


def test_an_id_is_accepted_once_within_one_call(store: Store) -> None:
    answers = store.submit([new("a", parameters=1), new("b"), new("a", parameters=2)])
    assert [(answer.task.id, answer.fresh) for answer in answers] == [
        ("a", True),
        ("b", True),
        ("a", False),
    ]
    assert answers[2].task.parameters == 1
    assert counts(store) == {"pending": 2}


def test_an_id_drawn_at_random_is_accepted_once_too(store: Store) -> None:
    [first] = store.submit([new("a", parameters=1, generated=True)])
    [again] = store.submit([new("a", parameters=2, generated=True)])
    within = store.submit([new("b", generated=True), new("b", generated=True)])
    assert (first.fresh, again.fresh) == (True, False)
    assert again.task.parameters == 1
    assert [answer.fresh for answer in within] == [True, False]
    assert counts(store) == {"pending": 2}


def test_an_id_is_one_across_queues(store: Store) -> None:
    submit(store, new("a", queue="q"))
    [again] = store.submit([new("a", queue="elsewhere")])
    assert not again.fresh
    assert again.task.queue == "q"
    assert store.queues(["elsewhere"]) == []
    check_counts(store)


def test_the_answer_is_the_task_as_it_is_by_now(store: Store) -> None:
    register(store)
    apply(store, taken(store, id="a"), Done(result="the end"))
    [again] = store.submit([new("a")])
    assert not again.fresh
    assert (again.task.state, again.task.result) == ("complete", "the end")
    assert take(store) == []


def test_known_and_new_ids_may_come_in_one_call(store: Store) -> None:
    submit(store, new("b"))
    answers = store.submit([new("a"), new("b"), new("c")])
    assert [(answer.task.id, answer.fresh) for answer in answers] == [
        ("a", True),
        ("b", False),
        ("c", True),
    ]
    check_counts(store)


def test_an_eta_to_come_makes_a_task_scheduled(store: Store, clock: Clock) -> None:
    [task] = submit(store, new("a", eta=clock.now + 0.5))
    assert (task.state, task.eta) == ("scheduled", clock.now + 0.5)
    assert happened(store.events("a")) == ["scheduled"]
    assert counts(store) == {"scheduled": 1}


def test_a_delay_counts_from_the_clock_of_the_store(store: Store, clock: Clock) -> None:
    [task] = submit(store, new(delay=30))
    assert (task.state, task.eta) == ("scheduled", clock.now + 30)


@pytest.mark.parametrize("past", [0.0, 10.0])
def test_an_eta_that_has_come_makes_a_task_pending(store: Store, clock: Clock, past: float) -> None:
    register(store)
    [task] = submit(store, new("a", eta=clock.now - past))
    assert task.state == "pending"
    assert ids(take(store)) == ["a"]


def test_no_delay_makes_a_task_pending(store: Store) -> None:
    [task] = submit(store, new(delay=0))
    assert task.state == "pending"


def test_a_task_makes_its_queue(store: Store) -> None:
    submit(store, new(queue="b"), new(queue="a"), new(queue="b"))
    made = store.queues()
    assert [info.name for info in made] == ["a", "b"]
    assert [(info.paused, info.limit) for info in made] == [(False, None)] * 2
    assert counts(store, "b") == {"pending": 2}


def test_submitting_is_an_event(store: Store, clock: Clock) -> None:
    submit(store, new("a", queue="videos"))
    [event] = store.events("a")
    assert (event.id, event.queue, event.event) == ("a", "videos", "pending")
    assert (event.at, event.attempt, event.worker) == (clock.now, 0, None)


def test_thousands_may_come_in_one_call(store: Store) -> None:
    names = [f"t{number}" for number in range(3000)]
    assert all(answer.fresh for answer in store.submit([new(name) for name in names]))
    assert [task and task.id for task in store.get(names)] == names
    assert not any(answer.fresh for answer in store.submit([new(name) for name in names]))
    assert counts(store) == {"pending": 3000}


def test_each_of_many_is_told_what_became_of_it(store: Store) -> None:
    """Wherever in the call it stands: known before, twice in the call, or new."""
    submit(store, new("known", parameters=1))
    names = [f"t{number}" for number in range(700)]
    names[310], names[650], names[453] = "known", "t5", "t451"

    answers = store.submit([new(name, parameters=at) for at, name in enumerate(names)])

    assert [answer.task.id for answer in answers] == names
    assert [at for at, answer in enumerate(answers) if not answer.fresh] == [310, 453, 650]
    assert (answers[310].task.parameters, answers[650].task.parameters) == (1, 5)
    assert answers[333].task == get(store, "t333")
    order = ids(store.peek("q", 1000))
    assert order == ["known", *(name for at, name in enumerate(names) if at not in (310, 453, 650))]
    check_counts(store)


@pytest.mark.parametrize("at", [0, 299, 699])
def test_many_of_which_one_can_not_be_kept_are_not_accepted(store: Store, at: int) -> None:
    tasks = [new(f"t{number}") for number in range(700)]
    tasks[at] = new("bad", parameters={"x": float("nan")})
    with pytest.raises(BadInput, match=r"(?i)nan"):
        store.submit(tasks)
    assert counts(store) == {}
    assert not any(store.get([task.id for task in tasks]))


def test_what_one_submits_the_other_sees(store: Store, other: Store) -> None:
    [task] = submit(store, new("a"))
    assert other.get(["a"]) == [task]
    assert not other.submit([new("a")])[0].fresh


@pytest.mark.parametrize(
    "odd",
    [
        {"id": "nul \x00 within"},
        {"id": "half a \ud800 pair"},
        {"queue": "half a \ud800 pair"},
        {"owner": "half a \ud800 pair"},
        {"priority": 2**70},
        {"eta": float("inf")},
        {"command": ("sh",), "name": "both"},
        {"command": ("nul \x00 within",)},
        {"tags": ("half a \ud800 pair",)},
    ],
    ids=ascii,
)
def test_what_is_odd_is_kept_as_it_is_or_refused_in_our_words(
    store: Store, odd: dict[str, Any]
) -> None:
    wanted = new(**odd)
    try:
        [answer] = store.submit([wanted])
    except StayerError:
        assert store.queues() == []
        return
    assert answer.fresh
    seen = get(store, wanted.id)
    assert {field: getattr(seen, field) for field in odd} == odd
    assert seen == answer.task
    check_counts(store)


class TestAPurgedId:
    """An id stays refused for `REMEMBERED` after its task was purged."""

    @pytest.fixture
    def ended(self, store: Store, clock: Clock) -> Task:
        register(store, lease=10 * REMEMBERED)
        ended = apply(store, taken(store, id="a", parameters="large"), Done(result="large"))
        clock.advance(1000)
        assert store.purge(None, FINISHED, clock.now, 10) == ["a"]
        return ended

    def test_is_not_accepted_again(self, store: Store, clock: Clock, ended: Task) -> None:
        clock.advance(REMEMBERED - 1)
        [answer] = store.submit([new("a", queue="elsewhere")])
        assert (answer.fresh, answer.purged) == (False, True)
        seen = answer.task
        assert (seen.id, seen.queue, seen.state) == ("a", "q", "complete")
        assert (seen.created, seen.finished_at) == (ended.created, ended.finished_at)
        assert store.get(["a"]) == [None]
        assert (take(store), counts(store)) == ([], {})

    def test_is_accepted_after_that(self, store: Store, clock: Clock, ended: Task) -> None:
        clock.advance(REMEMBERED + 1)
        [answer] = store.submit([new("a", parameters="new")])
        assert (answer.fresh, answer.purged) == (True, False)
        task = answer.task
        assert (task.state, task.attempt, task.result) == ("pending", 0, None)
        assert ids(take(store)) == ["a"]
        assert not store.submit([new("a")])[0].fresh

    def test_is_refused_among_new_ones(self, store: Store, ended: Task) -> None:
        answers = store.submit([new("b"), new("a"), new("c")])
        assert [answer.fresh for answer in answers] == [True, False, True]
        check_counts(store)


def test_a_batch_comes_in_its_order_whatever_became_of_its_ids_before(store: Store) -> None:
    """An id of which nothing came is free, and does not come later than one never seen."""
    submit(store, new("holder", unique="u"))
    assert not store.submit([new("b", unique="u")])[0].fresh
    wanted = [new("a", "r"), new("b", "r", unique="v"), new("c", "r", unique="v"), new("d", "r")]
    answers = store.submit(wanted)
    assert [answer.fresh for answer in answers] == [True, True, False, True]
    register(store, queues=("r",))
    assert ids(take(store, queues="r", limit=9)) == ["a", "b", "d"]


def test_the_longest_id_lives_its_whole_life(store: Store, clock: Clock) -> None:
    register(store)
    first, second = "ä" * 256, "ö" * 256
    submit(store, new(first, notify=("ended:mail",)), new(second, after=(first,)))
    assert store.waits(second, 10) == ([first], 1)
    apply(store, take_one(store), Done())
    assert [notice.task for notice in store.notices(None, None, None, 10).notices] == [first]
    apply(store, take_one(store), Done())
    assert set(store.purge(None, ["complete"], clock.now + 1, 10)) == {first, second}
    assert store.submit([new(first)])[0].purged
