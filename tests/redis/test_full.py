"""A server whose memory is full: nothing new is taken, and what frees memory or keeps alive is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from stayer.core.errors import StoreError, StoreUnreachable, StoreUnusable
from stayer.core.happenings import Done
from stayer.core.model import FINISHED, LogPiece, NewTask, Report
from stayer.service.control import queues as queue_control
from stayer.service.control import tasks as control
from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from stayer.stores.redis.pack import tasks as submitting
from tests.contract.builders import (
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
)
from tests.faults.fleet import Fleet, until
from tests.servers.finding import oldest_redis_binary, redis_binary, valkey_binary
from tests.servers.redis import RedisServer, serving


@pytest.fixture(
    scope="module",
    params=[redis_binary, oldest_redis_binary, pytest.param(valkey_binary, marks=pytest.mark.long)],
)
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with serving(request.param()) as server:
        yield server


@pytest.fixture
def store(server: RedisServer) -> Iterator[RedisStore]:
    store = open_store(server.url())
    assert isinstance(store, RedisStore)
    store.setup()
    register(store)
    yield store
    for name in ("maxmemory", "min-replicas-to-write"):
        store._server.ask("CONFIG", "SET", name, 0)
    store.close()


def fill_up(store: RedisStore) -> None:
    store._server.ask("CONFIG", "SET", "maxmemory", 1)
    with pytest.raises(StoreUnusable, match="no memory left: nothing was changed"):
        fill(store, 1)


def test_it_can_be_looked_at(store: RedisStore) -> None:
    names = fill(store, 3)
    fill_up(store)
    again = open_store(store.url)
    again.setup()
    assert ids(again.peek("q", 9)) == names
    assert again.identity() == store.identity()
    again.close()


@pytest.mark.parametrize("way", ["purge", "forget", "drop"])
def test_what_has_ended_can_be_forgotten(store: RedisStore, way: str) -> None:
    apply(store, started(store, queue="gone"), Done("x" * 5000))
    submit(store, new("kept", "q"))
    fill_up(store)
    match way:
        case "purge":
            assert len(store.purge(None, FINISHED, float("inf"), 9)) == 1
        case "forget":
            assert store.forget({"complete": -1.0}, 9) == 1
        case _:
            assert store.drop_queue("gone", 9) == 0
    assert (counts(store, "gone"), counts(store)) == ({}, {"pending": 1})
    check_counts(store)


def test_what_waits_can_be_cancelled_and_forgotten(store: RedisStore) -> None:
    """With what waits for it in turn."""
    first, second, last = fill(store, 3)
    submit(store, new("then", after=(last,)), new("at last", after=("then",)))
    fill_up(store)
    assert control.hold(store, second).held
    for id in (first, last):
        assert control.cancel(store, id).state == "cancelled"
    assert [get(store, id).state for id in ("then", "at last")] == ["cancelled"] * 2
    assert len(store.purge(None, FINISHED, float("inf"), 9)) == 4
    assert counts(store) == {"pending": 1}
    check_counts(store)


def test_what_runs_can_be_asked_to_end_and_a_queue_be_paused(store: RedisStore) -> None:
    task = started(store)
    fill_up(store)
    assert control.cancel(store, task.id).cancel_wanted
    assert queue_control.set_queue(store, "q", paused=True).paused
    assert queue_control.set_queue(store, "q", retention={"complete": 60.0}).retention
    with pytest.raises(StoreUnusable, match="no memory left"):
        queue_control.set_queue(store, "q", key_limit=1)


def test_what_needs_memory_is_still_refused(store: RedisStore) -> None:
    task = started(store)
    fill_up(store)
    with pytest.raises(StoreUnusable, match="no memory left: nothing was changed"):
        apply(store, task, Done("x" * 5000))
    assert counts(store) == {"started": 1}


def test_a_worker_keeps_its_lease_and_what_it_tells(store: RedisStore) -> None:
    task = started(store)
    fill_up(store)
    log = (LogPiece(0, b"said"),)
    beat(store, "w", 2, Report(id=task.id, attempt=1, log=log, checkpoint=b"saved"))
    saved = store.checkpoint(task.id)
    assert saved is not None
    assert (saved.data, store.log(task.id, 1, 0, 9)[0].data) == (b"saved", b"said")
    assert [known.number for known in store.workers()] == [2]


class TestManyNewTasks:
    """They go to the server part by part."""

    @pytest.fixture
    def full_at_the_fourth_part(self, store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
        def packed_parts(tasks: Sequence[NewTask], parts: Sequence[slice]) -> Iterator[list[Any]]:
            for number, part in enumerate(submitting.pack_parts(tasks, parts)):
                if number == 3:
                    store._server.ask("CONFIG", "SET", "maxmemory", 1)
                yield part

        monkeypatch.setattr("stayer.stores.redis.pack_parts", packed_parts)

    @pytest.mark.usefixtures("full_at_the_fourth_part")
    def test_say_that_some_were_accepted(self, store: RedisStore) -> None:
        tasks = [new() for _ in range(700)]
        with pytest.raises(StoreUnusable, match=r"Of 700 tasks .* at least 200 were accepted"):
            store.submit(tasks)
        store._server.ask("CONFIG", "SET", "maxmemory", 0)
        assert counts(store) == {"pending": 200}
        check_counts(store)

    def test_are_refused_in_the_same_words_when_the_script_is_new(self, store: RedisStore) -> None:
        store._server.ask("CONFIG", "SET", "maxmemory", 1)
        store._server.ask("SCRIPT", "FLUSH")
        with pytest.raises(StoreUnusable, match="no memory left: nothing was changed"):
            store.submit([new() for _ in range(300)])


def refusal(store: RedisStore) -> StoreError:
    with pytest.raises(StoreError) as refused:
        fill(store, 1)
    return refused.value


def test_what_else_a_server_refuses_is_said_in_the_same_words(store: RedisStore) -> None:
    """Before 7.0 the words of a server come in those of the script that it refuses."""
    fill(store, 1)
    store._server.ask("CONFIG", "SET", "min-replicas-to-write", 1)
    said = refusal(store)
    assert isinstance(said, StoreUnreachable)
    assert "fewer replicas than min-replicas-to-write" in str(said)
    store._server.ask("CONFIG", "SET", "min-replicas-to-write", 0)
    store._server.ask("REPLICAOF", "127.0.0.1", "1")
    said = refusal(store)
    store._server.ask("REPLICAOF", "NO", "ONE")
    assert "is a read-only replica: give the URL of its primary" in str(said)
    assert len(take(store, limit=9)) == 1


def test_a_worker_says_what_the_server_says(
    own_server: Callable[..., RedisServer], tmp_path: Path
) -> None:
    """It answers: it only refuses."""
    fleet = Fleet(tmp_path, own_server().url())
    assert isinstance(fleet.store, RedisStore)
    log = tmp_path / "one.log"
    try:
        fleet.worker(lease=30)
        fleet.stamper("a")
        fleet.until_state("a", "started")
        fleet.store._server.ask("CONFIG", "SET", "maxmemory", 1)
        fleet.finish("a")
        until(lambda: "no memory left: nothing was changed" in log.read_text())
        fleet.store._server.ask("CONFIG", "SET", "maxmemory", 0)
        assert fleet.until_ended("a").state == "complete"
        assert "does not answer" not in log.read_text()
    finally:
        fleet.close()
