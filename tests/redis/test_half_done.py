"""A script that meets a key of another type has done nothing that counts: it is done again, once
that key was set aside, and answers as if it had not been there.
"""

from __future__ import annotations

import pytest

from stayer.core.happenings import Done, Start
from stayer.core.lifecycle import decide
from stayer.core.model import NewTask
from stayer.core.worker_model import EVERYTHING
from stayer.stores.redis import RedisStore
from tests.contract.builders import check_counts, counts, get, ids, new, register, submit, take

KEYS_OF_NEW_TASKS = ["{q}:lane:name f", "{q}:state:pending", "{q}:lanes", "{q}:ids", "queues"]
MIXED = "one that is looked at by itself, and one that is not"
BATCHES = {
    "one": [new("a", name="f")],
    "many": [new(id, name="f") for id in "abc"],
    MIXED: [new("a", name="f", unique="u"), new("b", name="f")],
    "some with a priority": [new(id, name="f", priority=3) for id in "ab"],
}


def spoil(store: RedisStore, key: str) -> None:
    name = f"{store._server.address.prefix}:{key}"
    store._server.ask("DEL", name)
    store._server.ask("SET", name, "somebody else's")


@pytest.mark.parametrize("key", KEYS_OF_NEW_TASKS)
@pytest.mark.parametrize("what", BATCHES)
def test_new_tasks_can_be_taken(store: RedisStore, key: str, what: str) -> None:
    tasks: list[NewTask] = BATCHES[what]
    register(store)
    spoil(store, key)
    fresh = [each.fresh for each in store.submit(tasks)]
    assert all(fresh) or what == MIXED  # of these the first may have come when the others can't
    check_counts(store)
    assert sorted(ids(take(store, limit=9))) == sorted(new.id for new in tasks)


@pytest.mark.parametrize("key", ["{q}:state:complete", "{q}:finished:complete", "held:w"])
def test_a_change_is_made_and_said_to_be(store: RedisStore, key: str) -> None:
    register(store)
    submit(store, new("a"), new("b"))
    held = take(store, limit=2)
    spoil(store, key)
    changed = store.commit([decide(task, Done(1)) for task in held])
    assert [task is not None and task.state for task in changed] == ["complete", "complete"]
    assert counts(store) == {"complete": 2}


@pytest.mark.parametrize("key", ["{q}:state:reserved", "held:w"])
def test_what_is_given_is_given_once(store: RedisStore, key: str) -> None:
    register(store)
    submit(store, new("a"), new("b"))
    spoil(store, key)
    assert ids(take(store, limit=9)) == ["a", "b"]
    assert ids(store.holdings("w")) == ["a", "b"]
    assert take(store, limit=9) == []
    assert counts(store) == {"reserved": 2}


def test_what_is_done_before_something_is_taken_counts(store: RedisStore) -> None:
    register(store)
    submit(store, new("a", name="f"), new("b", name="g"))
    [first] = take(store, limit=1)
    spoil(store, "{q}:lane:name h")
    store._server.ask("SADD", f"{store._server.address.prefix}:{{q}}:lanes", "name h")
    applied, given = store.turn("w", [decide(first, Start(pid=1))], ["q"], 5, EVERYTHING)
    assert applied == [True]
    assert ids(given) == ["b"]
    assert get(store, "a").state == "started"
