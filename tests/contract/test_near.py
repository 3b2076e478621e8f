"""Tasks that are to run on the node of one that they run after."""

from __future__ import annotations

from typing import Any

import pytest

from stayer.core.happenings import Done, Interrupt, WaitAgain
from stayer.core.model import Filter, NewTask, Policy, Task
from stayer.core.ordering.affinity import WAIT
from stayer.core.worker_model import EVERYTHING, Handles
from stayer.service.control import tasks as control
from stayer.service.explain import explain
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    beat,
    commit,
    get,
    ids,
    new,
    register,
    submit,
    take,
    take_one,
    worker,
)


@pytest.fixture(autouse=True)
def workers(store: Store) -> None:
    """Two, each on a node of its own."""
    register(store, "here", queues=("q", "other"))
    register(store, "there", queues=("q", "other"))


def near(id: str, upstream: str, wait: float | None = None, **fields: Any) -> NewTask:
    return new(id, after=(upstream,), policy=Policy(near=upstream, near_wait=wait), **fields)


def run_here(store: Store, id: str = "a", queue: str = "q") -> Task:
    task = take_one(store, "here", queue)
    assert task.id == id
    return apply(store, task, Done(id))


def pass_on(store: Store) -> float | None:
    for _ in range(100):
        following = store.promote(100)
        if following is None or following > store.now():
            return following
    raise AssertionError("there is always more to pass on")


def test_only_the_node_of_the_upstream_takes_it_at_first(store: Store, clock: Clock) -> None:
    submit(store, new("a"), near("b", "a"))
    run_here(store)
    pass_on(store)
    waiting = get(store, "b")
    assert (waiting.state, waiting.near_node) == ("pending", "node-of-here")
    assert waiting.near_until == clock.now + WAIT
    assert take(store, "there") == []
    assert ids(take(store, "here")) == ["b"]


def test_after_a_while_any_node_takes_it(store: Store, clock: Clock) -> None:
    submit(store, new("a"), near("b", "a", 30.0))
    run_here(store)
    assert pass_on(store) == clock.now + 30
    clock.advance(29)
    pass_on(store)
    assert take(store, "there") == []
    clock.advance(1)
    pass_on(store)
    assert get(store, "b").near_node is None
    assert ids(take(store, "there")) == ["b"]
    assert store.promote(10) is None


def test_with_no_wait_any_node_takes_it_at_once(store: Store) -> None:
    submit(store, new("a"), near("b", "a", 0.0))
    run_here(store)
    pass_on(store)
    assert ids(take(store, "there")) == ["b"]


def test_an_upstream_that_has_ended_before_counts_too(store: Store) -> None:
    submit(store, new("a"))
    run_here(store)
    submit(store, near("b", "a", queue="other"))
    pass_on(store)
    assert take(store, "there", "other") == []
    assert ids(take(store, "here", "other")) == ["b"]


def test_the_node_counts_though_another_upstream_ends_last(store: Store) -> None:
    submit(store, new("a"), new("z"))
    submit(store, new("b", after=("a", "z"), policy=Policy(near="a")))
    run_here(store)
    apply(store, take_one(store, "there"), Done())
    pass_on(store)
    assert get(store, "b").near_node == "node-of-here"


def test_a_node_that_drains_is_not_waited_for(store: Store) -> None:
    submit(store, new("a"), near("b", "a", 9999.0))
    run_here(store)
    pass_on(store)
    store.drain_worker("here")
    pass_on(store)
    assert ids(take(store, "there")) == ["b"]


def test_a_worker_that_drains_by_itself_is_not_waited_for(store: Store) -> None:
    submit(store, new("a"), near("b", "a", 9999.0))
    run_here(store)
    beat(store, worker("here", draining=True), 2)
    pass_on(store)
    assert ids(take(store, "there")) == ["b"]


def test_another_worker_of_the_node_is_waited_for(store: Store, clock: Clock) -> None:
    second = worker("second")
    store.beat(type(second)(id="second", node="node-of-here", pid=1, queues=("q",)), 1, "n", [])
    submit(store, new("a"), near("b", "a", 9999.0))
    run_here(store)
    store.drain_worker("here")
    pass_on(store)
    assert take(store, "there") == []
    assert ids(take(store, "second")) == ["b"]


def test_a_node_that_is_silent_for_a_lease_is_not_waited_for(store: Store, clock: Clock) -> None:
    submit(store, new("a"), near("b", "a", 9999.0))
    run_here(store)
    lease = worker("here").lease
    assert pass_on(store) == clock.now + lease
    clock.advance(lease / 2)
    beat(store, "there", 2)
    pass_on(store)
    assert take(store, "there") == []
    clock.advance(lease / 2)
    pass_on(store)
    assert ids(take(store, "there")) == ["b"]


def test_a_node_that_is_declared_lost_is_not_waited_for(store: Store) -> None:
    submit(store, new("a"), near("b", "a", 9999.0))
    run_here(store)
    pass_on(store)
    store.declare_lost("there", {"here": 1})
    pass_on(store)
    assert ids(take(store, "there")) == ["b"]


def test_priority_and_age_decide_as_ever(store: Store) -> None:
    submit(store, new("a"), near("b", "a"), near("c", "a", priority=5), new("d"))
    run_here(store)
    pass_on(store)
    assert ids(take(store, "there", limit=9)) == ["d"]
    assert ids(take(store, "here", limit=9)) == ["c", "b"]


def test_what_a_worker_can_run_counts_there_too(store: Store) -> None:
    submit(store, new("a"), near("b", "a", name="train"))
    run_here(store)
    pass_on(store)
    assert take(store, "here", handles=Handles(names=("other",), plain=True)) == []
    assert ids(take(store, "here", handles=Handles(names=("tr*",)))) == ["b"]


def test_lists_and_peek_show_it_as_any_other(store: Store) -> None:
    submit(store, new("a"), near("b", "a", name="train"), near("c", "a", command=("make", "x")))
    run_here(store)
    pass_on(store)
    assert ids(store.find(Filter(name="train"), None, 9).tasks) == ["b"]
    assert ids(store.find(Filter(name="make"), None, 9).tasks) == ["c"]
    assert ids(store.peek("q", 9)) == ["b", "c"]
    assert store.ahead("c") == 1


def test_what_comes_back_goes_anywhere(store: Store) -> None:
    submit(store, new("a"), near("b", "a", 9999.0))
    run_here(store)
    pass_on(store)
    task = take_one(store, "here")
    assert apply(store, task, Interrupt()).near_node is None
    assert ids(take(store, "there")) == ["b"]
    assert store.promote(9) is None


def test_what_waits_again_or_is_cancelled_leaves_nothing(store: Store) -> None:
    submit(store, new("a"), new("z"), near("b", "a", 9999.0), near("c", "a", 9999.0))
    run_here(store)
    pass_on(store)
    assert commit(store, get(store, "b"), WaitAgain(("z",))) is not None
    control.cancel(store, "c")
    assert take(store, "here", handles=Handles(names=("*",))) == []
    apply(store, take_one(store, "there"), Done())
    pass_on(store)
    # Which upstream it is to run near has not changed.
    assert get(store, "b").near_node == "node-of-here"
    assert ids(take(store, "here", limit=9)) == ["b"]
    assert store.promote(9) is None


def test_where_keys_are_limited_it_holds_as_well(store: Store) -> None:
    store.set_queue("q", key_limit=1)
    submit(store, new("a", key="k"), near("b", "a", 30.0, key="k"), near("c", "a", 30.0, key="k"))
    run_here(store)
    pass_on(store)
    assert take(store, "there", limit=9) == []
    assert ids(take(store, "here", limit=9)) == ["b"]


def test_lines_that_come_and_go_keep_it_for_its_node(store: Store, clock: Clock) -> None:
    submit(store, new("a"), near("b", "a", 30.0), near("c", "a", 30.0))
    run_here(store)
    pass_on(store)
    store.set_queue("q", fair="owner")
    assert take(store, "there", limit=9) == []
    assert ids(take(store, "here")) == ["b"]
    clock.advance(30)
    pass_on(store)
    assert ids(take(store, "there")) == ["c"]
    store.set_queue("q", fair=None)
    assert take(store, "here", limit=9, handles=EVERYTHING) == []


def test_it_is_explained(store: Store) -> None:
    submit(store, new("a"), near("b", "a", 30.0))
    run_here(store)
    pass_on(store)
    [reason] = [each for each in explain(store, "b").reasons if each.reason == "near"]
    assert reason.text.startswith("it waits for node node-of-here, where a has run, for another 30")
