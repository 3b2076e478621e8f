"""Flows when those who pass ends on are killed, and what passing on costs."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from stayer.core.happenings import Done, Retry
from stayer.core.lifecycle import decide
from stayer.core.model import FINISHED, Filter
from stayer.service.control import tasks as control
from stayer.service.control import workers as worker_control
from stayer.store import Store
from stayer.stores.redis import RedisStore
from stayer.stores.redis.flows import relay
from stayer.stores.sql.sqlite import SqliteStore
from tests.contract import actors
from tests.contract.builders import (
    apply,
    beat,
    check_counts,
    get,
    happened,
    ids,
    new,
    register,
    started,
    submit,
    take,
    take_one,
)
from tests.contract.test_flows import after, pass_on, states
from tests.contract.test_kill import hear
from tests.processes import PROCESSES

ROUNDS = 3
WIDTH = 6
REDIS = ("redis", "valkey", "redis-6.2")
ON_ONE_SERVER = pytest.mark.parametrize("fresh_url", ["sqlite", *REDIS], indirect=True)
"""On a cluster there are other steps: tests/redis/test_cluster_flows.py kills between those."""
IN_TWO_STEPS = pytest.mark.parametrize("fresh_url", REDIS, indirect=True)
"""Where an end is passed on by looking, then telling; on SQLite it is one step."""


class Killed(BaseException):
    """Here the process ends."""


def steps(store: Store) -> tuple[Any, str]:
    """Where each step of the store passes by: an object and its method."""
    if isinstance(store, RedisStore):
        return store._server, "run"
    assert isinstance(store, SqliteStore)
    return store._database, "write"


@ON_ONE_SERVER
@pytest.mark.parametrize("survived", range(6))
def test_who_is_killed_between_two_steps_does_no_harm(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch, survived: int
) -> None:
    register(store)
    many = [f"b{number}" for number in range(WIDTH)]
    submit(store, new("a"), *(after(id, "a") for id in many), after("join", *many))
    change = decide(take_one(store), Done())

    # Given somebody who is killed after so many steps of finishing, whichever they are
    place, name = steps(store)
    real: Callable[..., Any] = getattr(place, name)
    left = [survived]

    def step(*arguments: Any) -> Any:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return real(*arguments)

    monkeypatch.setattr(place, name, step)
    if isinstance(store, RedisStore):
        monkeypatch.setattr(store, "_run", step)
    try:
        store.commit([change])
        while store.promote(2) is not None:
            pass
    except Killed:
        pass
    monkeypatch.undo()

    # Then either nothing has happened, or another one brings it to its end
    if states(other, "a") == ["reserved"]:
        assert survived == 0
        other.commit([change])
    pass_on(other)
    assert states(other, *many, "join") == ["pending"] * WIDTH + ["waiting"]
    assert all(happened(other.events(id)) == ["waiting", "pending"] for id in many)
    check_counts(other)


def test_passing_on_twice_is_passing_on_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    register(store)
    submit(store, new("a"), new("b"), after("c", "a", "b"))
    apply(store, take_one(store), Done())
    for _ in range(3):
        apply(store, get(store, "a"), Retry())
        apply(store, take_one(store), Done())
    assert store.waits("c", 9) == (["b"], 1)
    assert states(store, "c") == ["waiting"]


def test_a_flow_of_a_killed_worker_is_finished_by_another(timely: Store, url: str) -> None:
    register(timely, "survivor")
    for round in range(ROUNDS):
        name = f"victim {round}"
        here, there = PROCESSES.Pipe()
        victim = PROCESSES.Process(
            target=actors.flow_dangerously, args=(there, url, name), daemon=True
        )
        victim.start()
        there.close()
        hear(here, random.randint(1, 12))
        time.sleep(random.random() / 200)
        victim.kill()
        hear(here, 0)
        victim.join()
        here.close()

        # When another worker takes over what there is
        worker_control.return_lost_tasks(
            timely, timely.declare_lost("survivor", {name: number_of(timely, name)})
        )
        pass_on(timely)
        while tasks := take(timely, "survivor", name, limit=3):
            timely.commit([decide(task, Done()) for task in tasks])
            pass_on(timely)

        # Then nothing waits for ever, and nothing ran before its time
        found = list(control.find_all(timely, Filter(queues=(name,))))
        assert {task.state for task in found} == {"complete"}
        ended = {task.id: task.finished_at or 0.0 for task in found}
        for task, of in zip(found, timely.upstreams(ids(found)), strict=True):
            begun = timely.attempts(task.id)[-1].reserved_at or 0.0
            assert all(ended[upstream] <= begun for upstream in of.after)
        beat(timely, "survivor", round + 2)
    check_counts(timely)


@IN_TWO_STEPS
def test_two_who_pass_on_at_once_miss_nothing(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(store, RedisStore)
    assert isinstance(other, RedisStore)
    register(store)
    for number in range(20):
        # Given the ends of two tasks that another waits for, and somebody who has seen one of them
        monkeypatch.setattr(store, "_relay", lambda: None)
        join = f"join {number}"
        submit(store, new(f"a{number}"), new(f"b{number}"), after(join, f"a{number}", f"b{number}"))
        store.commit([decide(task, Done()) for task in take(store, limit=2)])
        real = store._server.run

        def run(script: str, *arguments: Any, real: Any = real) -> Any:
            answer = real(script, *arguments)
            if script == "outbox":
                # When another passes on the same, or the other one, before he does
                relay(other._server, 1)
            return answer

        monkeypatch.setattr(store._server, "run", run)
        relay(store._server, 1)
        monkeypatch.undo()

        # Then it becomes ready all the same
        pass_on(store)
        assert happened(store.events(join)) == ["waiting", "pending"]
        store.commit([decide(task, Done()) for task in take(store)])


@pytest.mark.long
def test_many_who_end_at_once_miss_nothing(timely: Store, url: str) -> None:
    for round in range(3):
        many = [f"{round}.{number}" for number in range(60)]
        joins = [after(f"join {round}.{number}", *many, queue="joined") for number in range(3)]
        submit(timely, *map(new, many), *joins)
        names = [(url, f"w{round}.{number}") for number in range(4)]
        assert sum(actors.together(actors.finish_one_by_one, names)) == 60
        pass_on(timely)
        for join in joins:
            assert happened(timely.events(join.id)) == ["waiting", "pending"]
    check_counts(timely)


def number_of(store: Store, worker: str) -> int:
    return next(each.number for each in store.workers() if each.id == worker)


@ON_ONE_SERVER
class TestCost:
    def test_an_end_that_nobody_waits_for_has_nothing_to_do_with_flows(self, store: Store) -> None:
        register(store)
        apply(store, started(store), Done())  # the script is known from now on
        task = started(store)
        used = commands(store, lambda: apply(store, task, Done()))
        if isinstance(store, RedisStore):
            # One round trip, and in it nothing that notes, waits or counts.
            assert used.count("evalsha") == 1
            assert not {"hset", "hlen", "hkeys", "hincrby", "lrange", "smembers"} & {*used}
        else:
            # One transaction.
            assert used.count("BEGIN") == 1
            assert not [said for said in used if re.search("[a-z]_(upstreams|outbox|flows)", said)]

    def test_an_end_of_one_of_many_costs_the_same_as_of_a_few(self, store: Store) -> None:
        register(store)
        costs = []
        for width in (5, 200):
            many = [f"{width}.{number}" for number in range(width)]
            submit(store, *map(new, many), after(f"join {width}", *many))
            for _ in range(2):
                last = take_one(store)
                used = commands(store, lambda last=last: apply(store, last, Done()))  # type: ignore[misc]
            costs.append(len(used))
            store.commit([decide(task, Done()) for task in take(store, limit=width)])
            pass_on(store)
            apply(store, take_one(store), Done())
        assert costs[0] == costs[1]


def commands(store: Store, act: Callable[[], object]) -> list[str]:
    """The statements, or the names of the commands, that something takes."""
    if isinstance(store, RedisStore):
        before = _calls(store)
        act()
        now = _calls(store)
        now["info"] -= 1
        return sorted(name for name in now for _ in range(now[name] - before.get(name, 0)))
    assert isinstance(store, SqliteStore)
    said: list[str] = []
    connection = store._database.pool._idle[-1].sqlite
    connection.set_trace_callback(said.append)
    act()
    connection.set_trace_callback(None)
    assert said
    return [re.sub("^BEGIN.*", "BEGIN", statement) for statement in said]


def _calls(store: RedisStore) -> dict[str, int]:
    lines = store._server.ask("INFO", "commandstats").decode().split()
    told = (line.removeprefix("cmdstat_").split(":calls=") for line in lines if ":calls=" in line)
    return {name: int(about.split(",")[0]) for name, about in told}


@pytest.mark.long
def test_ten_thousand_go_out_and_come_together(store: Store) -> None:
    register(store)
    many = [f"b{number}" for number in range(10_000)]
    submit(store, new("a"), *(after(id, "a") for id in many), after("join", *many))
    apply(store, take_one(store), Done())
    pass_on(store)
    done = 0
    while tasks := take(store, limit=50):
        store.commit([decide(task, Done()) for task in tasks])
        done += len(tasks)
    assert done == 10_001
    assert happened(store.events("join")).count("pending") == 1
    assert get(store, "join").state in FINISHED
    check_counts(store)
