"""How much a Redis server has to do to find and to forget tasks: counted in commands and
comparisons, since one script that takes long keeps everybody else waiting.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stayer.core.happenings import Done
from stayer.core.model import Filter
from stayer.service.control import tasks as control
from stayer.stores.redis import RedisStore
from stayer.stores.redis.portions import LOOKED_AT, QUEUES_AT_ONCE
from stayer.stores.redis.scripts import FOLDER
from tests.contract.builders import apply, ids, new, register, submit, take_one, taken
from tests.redis.test_server import plain

LISTS = 9
"""Of a queue, one for each state, and one for what is held."""


@contextmanager
def commands(store: RedisStore) -> Iterator[dict[str, int]]:
    """How often each command was executed meanwhile, also within scripts."""
    plain(store)("CONFIG", "RESETSTAT")
    found: dict[str, int] = {}
    yield found
    stats = plain(store)("INFO", "commandstats")
    assert isinstance(stats, bytes)
    for name, calls in re.findall(r"cmdstat_(\S+):calls=(\d+)", stats.decode()):
        found[name] = int(calls)


def count_lists(found: dict[str, int]) -> int:
    return found.get("zrevrangebylex", 0) + found.get("smembers", 0)


@pytest.fixture
def many_queues(store: RedisStore) -> list[str]:
    """Tasks, the oldest first, in as many queues: more than fit in three scripts."""
    names = [f"t{number}" for number in range(3 * QUEUES_AT_ONCE + 50)]
    submit(store, *(new(name, f"q-{name}") for name in names))
    return names


@pytest.mark.parametrize("filter", [Filter(), Filter(name="none"), Filter(prefix="t")], ids=str)
def test_no_script_looks_at_all_queues(
    store: RedisStore, many_queues: list[str], filter: Filter
) -> None:
    store.find(filter, None, 10)
    with commands(store) as found:
        store.find(filter, None, 10)
    assert found["evalsha"] >= 4
    at_most = QUEUES_AT_ONCE * (LISTS + 1)
    assert count_lists(found) + found.get("zrangebylex", 0) <= found["evalsha"] * at_most


def test_many_queues_that_are_named_are_looked_at_some_at_a_time(
    store: RedisStore, many_queues: list[str]
) -> None:
    wanted = Filter(queues=tuple(f"q-{name}" for name in many_queues))
    with commands(store) as found:
        page = store.find(wanted, None, 10)
    assert ids(page.tasks) == many_queues[:-11:-1]
    assert count_lists(found) <= found["evalsha"] * QUEUES_AT_ONCE * LISTS


def test_what_is_older_than_the_page_is_not_read(
    store: RedisStore, many_queues: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named the newest first: the others have nothing to add, and say so without a record."""
    wanted = Filter(queues=tuple(f"q-{name}" for name in reversed(many_queues)))
    run, records = store._server.run, []

    def counted(*arguments: Any) -> Any:
        answer = run(*arguments)
        records.append(len(answer[1]))
        return answer

    monkeypatch.setattr(store._server, "run", counted)
    assert len(store.find(wanted, None, 10).tasks) == 10
    assert records == [11, 0, 0, 0]
    assert len(store.find(wanted, None, 1000).tasks) == len(many_queues)


def test_a_queue_that_is_named_often_is_looked_at_once(store: RedisStore) -> None:
    submit(store, *(new(f"t{number}") for number in range(300)))
    asked = {}
    for times in (1, 1990):
        with commands(store) as asked[times]:
            assert store.find(Filter(queues=("q",) * times, name="none"), None, 100).tasks == ()
    assert asked[1990]["evalsha"] == asked[1]["evalsha"]
    assert count_lists(asked[1990]) == count_lists(asked[1]) <= LISTS + 5


def test_what_is_still_needed_is_passed_over_some_at_a_time(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(store)
    names = [f"t{number}" for number in range(25)]
    for name in names:
        apply(store, taken(store, id=name), Done())
    submit(store, new("never", held=True), new("last", after=(*names, "never")))
    for number in range(3):
        submit(store, new(f"free{number}"))
        apply(store, take_one(store), Done())
    monkeypatch.setattr("stayer.stores.redis.portions.LOOKED_AT", 10)
    store.forget({"complete": 0.0}, 100)
    submit(store, new("more"))
    apply(store, take_one(store), Done())
    with commands(store) as found:
        assert store.forget({"complete": 0.0}, 100) == 1
    assert found["evalsha"] == 3
    assert store.get(["free0", "free2", "more"]) == [None] * 3
    assert [task.id for task in store.get(names) if task] == names


def test_queues_are_looked_through_for_what_is_old_some_at_a_time(
    store: RedisStore, many_queues: list[str]
) -> None:
    for name in many_queues[::50]:
        control.cancel(store, name)
    with commands(store) as found:
        assert store.forget({"cancelled": 0.0}, 4) == 4
        assert store.forget({"cancelled": 0.0}, 100) == len(many_queues[::50]) - 4
    assert found["evalsha"] >= len(many_queues) // QUEUES_AT_ONCE


def test_queues_and_failures_are_read_some_at_a_time(
    store: RedisStore, many_queues: list[str]
) -> None:
    with commands(store) as found:
        shown = [queue.name for queue in store.queues()]
    assert shown == sorted(f"q-{name}" for name in many_queues)
    assert found["evalsha"] >= len(many_queues) // QUEUES_AT_ONCE
    with commands(store) as found:
        assert store.failures((), 10).faults == 0
    assert found["evalsha"] >= len(many_queues) // QUEUES_AT_ONCE


def test_to_merge_lists_takes_few_comparisons(store: RedisStore) -> None:
    """Of as many lists as a script may have, so many tasks as it may look at."""
    lists, taken = QUEUES_AT_ONCE * LISTS, LOOKED_AT
    heap = (FOLDER / "lib" / "heap.lua").read_text(encoding="utf-8")
    order, compared = store._server.ask(
        "EVAL",
        f"""{heap}
        local compared, heads, order = 0, {{}}, {{}}
        local function comes_before(one, other)
          compared = compared + 1
          return one[1] > other[1]
        end
        for number = 1, {lists} do heads[number] = {{number * 7919 % 99991}} end
        make_heap(heads, comes_before)
        for number = 1, {taken} do
          order[number] = heads[1][1]
          heads[1][1] = heads[1][1] - (number % 13 + 1) * 17
          sink(heads, 1, comes_before)
        end
        while #heads > 0 do
          order[#order + 1] = heads[1][1]
          drop_first(heads, comes_before)
        end
        return {{order, compared}}""",
        0,
    )
    assert order == sorted(order, reverse=True)
    assert compared <= 2 * (lists + (taken + lists) * math.ceil(math.log2(lists)))
