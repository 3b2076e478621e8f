"""The list that any language may push tasks to, on a cluster: on another node than the queues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from stayer.core import codec, limits
from stayer.core.happenings import Done
from stayer.core.model import Filter
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.redis import incoming
from stayer.stores.redis.connection.server import Call
from stayer.stores.redis_cluster import ClusterStore
from tests.contract.builders import (
    PATIENCE,
    apply,
    check_counts,
    counts,
    get,
    ids,
    in_thread,
    new,
    register,
    started,
    submit,
    take,
)
from tests.contract.test_waiter import calm
from tests.redis.dying import deaths
from tests.servers.cluster import Cluster


@pytest.fixture
def store(cluster: Cluster) -> Iterator[ClusterStore]:
    store = open_store(cluster.url())
    assert isinstance(store, ClusterStore)
    yield store
    store.close()


def push(store: Store, *items: dict[str, Any] | bytes) -> None:
    """As a client in any language does it."""
    forms = [item if isinstance(item, bytes) else json.dumps(item) for item in items]
    ask(store, "incoming", "LPUSH", *forms)


def ask(store: Store, name: str, command: str, *arguments: Any) -> Any:
    assert isinstance(store, ClusterStore)
    prefix = store._nodes.options.prefix
    place = f"{prefix}:incoming" if name == "incoming" else f"{{{prefix}:incoming}}:{name}"
    return store._nodes.ask(place, command, place, *arguments)


def left(store: Store) -> int:
    return int(ask(store, "incoming", "LLEN") + ask(store, "taken", "ZCARD"))


def refused(store: Store) -> list[dict[str, Any]]:
    return [json.loads(item) for item in ask(store, "refused", "LRANGE", 0, -1)]


def take_in(store: Store, limit: int = 100) -> None:
    while (following := store.promote(limit)) is not None and following <= store.now():
        pass


def test_items_are_tasks_in_their_order_in_any_queue(store: ClusterStore) -> None:
    register(store, queues=("q", "r"))
    push(store, *({"id": f"t{n}", "queue": "qr"[n % 2], "parameters": n} for n in range(130)))
    push(store, {}, {"queue": "r", "delay": "1h"})
    take_in(store)
    assert ids(take(store, queues="q", limit=99)) == [f"t{n}" for n in range(0, 130, 2)]
    assert ids(take(store, queues="r", limit=99)) == [f"t{n}" for n in range(1, 130, 2)]
    assert counts(store, "default") == {"pending": 1}
    assert (left(store), refused(store)) == (0, [])
    assert store.promote(10) == max(
        task.eta or 0.0 for task in store.find(Filter(), None, 999).tasks
    )


def test_what_is_of_no_use_is_set_aside(store: ClusterStore) -> None:
    register(store)
    apply(store, started(store, id="ended"), Done())
    push(store, b"not JSON", {"queue": "q", "colour": "red"}, {"queue": "q", "after": ["a"]})
    push(
        store, {"delete": "unknown"}, {"delete": "ended"}, b"\xff\xfe", {"id": "good", "queue": "q"}
    )
    take_in(store)
    errors = [each["error"] for each in refused(store)][::-1]
    said = ["not JSON", "colour", "runs after others", "unknown", "ended", "UTF-8"]
    assert all(word in error for word, error in zip(said, errors, strict=True))
    assert (get(store, "good").state, left(store)) == ("pending", 0)


def test_another_task_under_an_id_that_is_there_is_told_of(
    store: ClusterStore, caplog: pytest.LogCaptureFixture
) -> None:
    submit(store, new("a", parameters={"b": 1, "c": 2}))
    push(store, {"id": "a", "queue": "q", "parameters": {"c": 2, "b": 1}})
    take_in(store)
    assert (refused(store), caplog.messages) == ([], []), "the same is no news"
    push(store, {"id": "a", "queue": "r"}, {"delete": ["a"]})
    take_in(store)
    errors = [each["error"] for each in refused(store)][::-1]
    assert errors[0] == "task 'a' is there already, and differs in queue, parameters"
    assert "delete takes one id" in errors[1]
    assert len(caplog.messages) == 2, "there are two reasons"
    assert (counts(store, "r"), left(store)) == ({}, 0)


def test_no_number_stops_the_list(store: ClusterStore) -> None:
    push(store, {"id": "big", "queue": "q", "parameters": [2**64]}, {"id": "next", "queue": "q"})
    take_in(store)
    assert [get(store, id).parameters for id in ("big", "next")] == [[2**64], None]
    assert (left(store), refused(store)) == (0, [])


def test_why_it_was_of_no_use_is_told_in_short(store: ClusterStore) -> None:
    push(store, {"delete": "x" * 100_000})
    take_in(store)
    [problem] = refused(store)
    assert problem["error"] == f"no task '{'x' * 991}"


def test_a_message_takes_a_task_back(store: ClusterStore) -> None:
    submit(store, new("before", "r"))
    push(store, {"id": "a", "queue": "q"}, {"delete": "a"}, {"id": "b", "queue": "q"})
    push(store, {"delete": "before"}, {"delete": "a"})
    take_in(store)
    states = [get(store, id).state for id in ("before", "a", "b")]
    assert states == ["cancelled", "cancelled", "pending"]
    assert (left(store), refused(store)) == (0, [])


def test_a_taker_that_dies_between_any_two_steps(cluster: Cluster) -> None:
    def prepare(store: Store) -> None:
        submit(store, new("gone", "r"))
        push(store, {"queue": "q"}, {"queue": "r"}, {"id": "named", "queue": "q"}, b"bad")
        push(store, {"delete": "gone"}, {"queue": "q", "unique": "one"}, {"queue": "q"})

    for store, _ in deaths(cluster, 1, prepare, lambda store, _: take_in(store)):
        take_in(store)
        assert (counts(store, "q"), counts(store, "r")) == (
            {"pending": 4},
            {"pending": 1, "cancelled": 1},
        )
        assert get(store, "gone").state == "cancelled"
        assert (left(store), len(refused(store))) == (0, 1)
        check_counts(store)


def test_several_takers_make_each_task_once(cluster: Cluster, store: ClusterStore) -> None:
    push(store, *({"queue": "qrs"[n % 3]} for n in range(300)))
    others = [open_store(store._nodes.url) for _ in range(3)]
    for done in [in_thread(lambda other=other: take_in(other, 7)) for other in others]:  # type: ignore[misc]
        done()
    assert [counts(store, queue) for queue in "qrs"] == [{"pending": 100}] * 3
    for other in others:
        other.close()


def test_who_waits_hears_of_a_publisher(store: ClusterStore) -> None:
    waiter = store.waiter(None, ["q"])
    calm(waiter)
    push(store, {"queue": "q"})
    ask(store, "incoming", "PUBLISH", "")
    assert waiter.wait(PATIENCE)
    waiter.close()


def test_else_it_is_found_by_the_next_look(store: ClusterStore) -> None:
    waiter = store.waiter(None, ["q"])
    calm(waiter)
    woken = in_thread(lambda: waiter.wait(None))
    push(store, {"queue": "q"})
    assert woken()
    waiter.close()


def test_an_item_that_is_kept_out_by_another_is_refused(store: ClusterStore) -> None:
    register(store)
    apply(store, started(store, id="gone"), Done())
    assert store.purge(["gone"], ["complete"], store.now() + 9, 9) == ["gone"]
    submit(store, new("holds", unique="u"))
    push(store, {"id": "gone", "queue": "q"}, {"id": "new", "queue": "q", "unique": "u"})
    take_in(store)
    assert [line["error"].partition(":")[0] for line in refused(store)] == [
        "its unique word 'u' is held by task 'holds'",
        "task 'gone' has been here and was deleted",
    ]
    assert (store.get(["new"]), left(store)) == ([None], 0)


def spied(store: ClusterStore) -> list[int]:
    """How many bytes of items were read at once."""
    run, read = store._nodes.run_many, list[int]()

    def spy(calls: list[Call]) -> list[Any]:
        answers = run(calls)
        if [call.name for call in calls] == ["number_incoming"]:
            read.append(sum(len(each) for each in answers[0] if isinstance(each, bytes)))
        return answers

    store._nodes.run_many = spy  # type: ignore[method-assign,assignment]
    return read


def test_an_item_longer_than_any_task_never_leaves_its_node(store: ClusterStore) -> None:
    push(store, {"id": "before", "queue": "q"}, b"\xff" * (limits.WRITTEN + 1))
    push(store, b'{"queue": "q"}'.ljust(limits.WRITTEN + 1), {"id": "after", "queue": "q"})
    read = spied(store)
    take_in(store)
    assert max(read) < 2 * incoming.SHOWN
    assert [each["error"] for each in refused(store)] == [incoming.too_long(limits.WRITTEN + 1)] * 2
    assert [len(each["item"]) for each in refused(store)] == [incoming.SHOWN] * 2
    assert (counts(store), left(store)) == ({"pending": 2}, 0)


def test_no_more_is_read_at_once_than_one_item_may_have(store: ClusterStore) -> None:
    push(store, *({"queue": "q", "parameters": "x" * 900_000} for _ in range(20)))
    read = spied(store)
    store.promote(100)
    assert counts(store) == {"pending": 14}, "the rest is for later"
    text = b'"%b"' % (b"\\u0061" * (codec.PARAMETERS_LIMIT - 100))
    push(store, b'{"id": "long", "queue": "q", "parameters": %b}' % text)
    take_in(store)
    assert max(read) <= limits.WRITTEN
    assert (counts(store), left(store)) == ({"pending": 21}, 0)
