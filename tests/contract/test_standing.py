"""Store.ahead, durations and drain_worker: what explains a task, and what empties a node."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stayer.core.errors import UnknownWorker
from stayer.core.happenings import Done, Fail, Start
from stayer.core.model import Fault
from stayer.core.worker_model import Handles
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    beat,
    fill,
    new,
    register,
    submit,
    take,
    taken,
    worker,
)


def in_line(store: Store, *ids: str) -> list[int]:
    return [store.ahead(id) for id in ids]


def test_who_is_older_or_more_important_stands_before(store: Store, clock: Clock) -> None:
    for id, priority in (("a", 0), ("b", 0), ("c", 5), ("d", -1), ("e", 5)):
        submit(store, new(id, priority=priority))
        clock.advance(1)
    assert [task.id for task in store.peek("q", 9)] == ["c", "e", "a", "b", "d"]
    assert in_line(store, "c", "e", "a", "b", "d") == [0, 1, 2, 3, 4]


def test_all_kinds_of_tasks_stand_in_one_line(store: Store) -> None:
    kinds: list[dict[str, Any]] = [
        {"name": "n"},
        {"command": ("c",)},
        {},
        {"name": "m"},
        {"command": ("c", "x")},
    ]
    ids = [f"t{number}" for number in range(20)]
    submit(store, *(new(id, **kinds[number % 5]) for number, id in enumerate(ids)))
    assert in_line(store, *ids) == list(range(20))


def test_only_what_could_be_taken_stands_in_line(store: Store) -> None:
    register(store)
    submit(store, new("held", held=True), new("later", delay=60), new("other", "elsewhere"))
    taken(store, id="taken")
    submit(store, new("mine"))
    assert in_line(store, "mine", "later", "taken", "nobody") == [0, 0, 0, 0]


def test_how_long_complete_tasks_took(store: Store, clock: Clock) -> None:
    register(store)
    for kind, seconds in (({"name": "n"}, 10), ({"command": ("c", "x")}, 20), ({}, 30)):
        submit(store, new(**kind))
        clock.advance(1)
        [task] = take(store)
        clock.advance(5)  # standing in line is not running
        started = apply(store, task, Start())
        clock.advance(seconds)
        apply(store, started, Done())
    apply(store, apply(store, taken(store), Start()), Fail(Fault("X")))
    fill(store, 2)
    assert store.durations("q", 10) == [("", 30), ("c", 20), ("n", 10)]
    assert store.durations("q", 1) == [("", 30)]
    assert store.durations("nowhere", 10) == []


def test_a_worker_hears_that_it_is_to_drain(store: Store) -> None:
    register(store)
    register(store, "other")
    waiter = store.waiter("w", ())
    try:
        waiter.wait(0)
        assert store.drain_worker("w").id == "w"
        assert waiter.wait(60)
    finally:
        waiter.close()
    assert beat(store, "w", 2).drain
    assert beat(store, "w", 3).drain, "until it is gone"
    assert not beat(store, "other", 2).drain


def test_draining_twice_is_once_and_asks_nothing_of_the_store(store: Store) -> None:
    known = register(store)
    store.drain_worker("w")
    assert store.drain_worker("w").state == "IDLE", "until it says so itself"
    beat(store, replace(known, draining=True), 2)
    assert store.drain_worker("w").state == "DRAINING"


def test_who_is_not_there_can_not_drain(store: Store, clock: Clock) -> None:
    with pytest.raises(UnknownWorker, match="nobody"):
        store.drain_worker("nobody")
    register(store, "gone", lease=10.0)
    clock.advance(60)
    store.drop_worker("gone")
    with pytest.raises(UnknownWorker):
        store.drain_worker("gone")


@pytest.mark.parametrize(
    "handles", [None, Handles(), Handles(plain=True, names=("a*", "b"), programs=("ls",))]
)
def test_what_a_worker_can_run_is_known(store: Store, handles: Handles | None) -> None:
    known = worker(handles=handles)
    beat(store, known, 1)
    assert store.workers()[0].handles == handles
    beat(store, replace(known, handles=Handles(plain=True)), 2)
    assert store.workers()[0].handles == Handles(plain=True)
