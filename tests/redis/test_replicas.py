"""Replicas that have to confirm what must not get lost (`?wait=1`)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from stayer.core.errors import BadConfig, LeaseLost, StoreUnreachable
from stayer.core.flows.model import NewFlow, Part
from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.core.model import Report, Task
from stayer.core.worker_model import EVERYTHING
from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from tests.contract.builders import (
    PATIENCE,
    beat,
    fill,
    get,
    ids,
    in_thread,
    new,
    register,
    submit,
    take,
)
from tests.servers.finding import oldest_redis_binary, redis_binary, valkey_binary
from tests.servers.redis import RedisServer, free_port, serving
from tests.servers.sentinel import until

Starts = Callable[..., RedisServer]


@pytest.fixture
def pair(own_server: Starts) -> tuple[RedisServer, RedisServer]:
    """A primary, and a replica that follows it."""
    port = free_port()
    primary = own_server("--port", str(port), "--repl-diskless-sync-delay", "0")
    replica = own_server("--replicaof", "127.0.0.1", str(port))
    warm = opened(f"{primary.url('warm')}&wait=1")
    until_confirmed(warm)
    warm.close()
    return primary, replica


def until_confirmed(store: RedisStore) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            store.set_queue("q", paused=False)
            return
        except StoreUnreachable:
            assert time.monotonic() < deadline, "the replica does not come"


@pytest.fixture
def primary(pair: tuple[RedisServer, RedisServer]) -> RedisServer:
    return pair[0]


@pytest.fixture
def replica(pair: tuple[RedisServer, RedisServer]) -> Iterator[RedisServer]:
    yield pair[1]
    os.kill(pair[1].pid, signal.SIGCONT)


@pytest.fixture
def store(primary: RedisServer) -> Iterator[RedisStore]:
    store = opened(f"{primary.url('p')}&wait=1&wait_timeout=200ms")
    register(store)
    yield store
    store.close()


def opened(url: str) -> RedisStore:
    store = open_store(url)
    assert isinstance(store, RedisStore)
    return store


def test_what_is_answered_is_in_the_replica(store: RedisStore, replica: RedisServer) -> None:
    there = opened(replica.url("p"))
    for _ in range(20):
        [name] = fill(store, 1)
        assert there._server.ask("EXISTS", f"p:task:{name}") == 1
        [task] = take(store)
        assert there._server.ask("SISMEMBER", "p:held:w", name) == 1
        assert None not in store.commit([decide(task, Done())])
        assert there._server.ask("SCARD", "p:held:w") == 0
    there.close()


class TestAReplicaThatDoesNotAnswer:
    def test_makes_a_submission_fail_that_can_be_repeated(
        self, store: RedisStore, replica: RedisServer
    ) -> None:
        os.kill(replica.pid, signal.SIGSTOP)
        with pytest.raises(StoreUnreachable, match=r"0 of 1 replicas .* same id is harmless"):
            submit(store, new("a"))
        assert get(store, "a").state == "pending"
        os.kill(replica.pid, signal.SIGCONT)
        [again] = store.submit([new("a")])
        assert not again.fresh

    def test_leaves_what_was_taken_with_its_worker(
        self, store: RedisStore, replica: RedisServer
    ) -> None:
        names = fill(store, 1)
        os.kill(replica.pid, signal.SIGSTOP)
        with pytest.raises(StoreUnreachable, match="replicas"):
            take(store)
        [task] = store.holdings("w")
        assert [task.id] == names
        with pytest.raises(StoreUnreachable, match="replicas"):
            store.commit([decide(task, Done())])
        os.kill(replica.pid, signal.SIGCONT)
        assert get(store, task.id).state == "complete"

    def test_does_not_hinder_beats_and_readers(
        self, store: RedisStore, replica: RedisServer
    ) -> None:
        """A lease that is not renewed would freeze what runs."""
        names = fill(store, 1)
        [task] = take(store)
        os.kill(replica.pid, signal.SIGSTOP)
        beat(store, "w", 2, Report(id=task.id, attempt=1, checkpoint=b"c"))
        assert ids(store.holdings("w")) == names

    def test_does_not_hide_a_refusal(self, store: RedisStore, replica: RedisServer) -> None:
        os.kill(replica.pid, signal.SIGSTOP)
        with pytest.raises(LeaseLost):
            take(store, "nobody")
        assert store.queues() == []


def beat_for_long(store: RedisStore) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        beat(store, "w", 2)


def test_a_primary_that_is_cut_off_renews_leases_unless_it_needs_its_replicas(
    store: RedisStore, replica: RedisServer
) -> None:
    """A worker that is cut off with it would run on, while another is given its task elsewhere."""
    os.kill(replica.pid, signal.SIGSTOP)
    beat(store, "w", 2)
    store._server.ask("CONFIG", "SET", "min-replicas-max-lag", 1)
    store._server.ask("CONFIG", "SET", "min-replicas-to-write", 1)
    with pytest.raises(StoreUnreachable, match="min-replicas-to-write"):
        beat_for_long(store)


FLOW = NewFlow(id="f", name="f", parts=(Part(name="all", queue="q", tasks=1),))
HELD = Task(id="held", queue="q", state="reserved", worker="w", attempt=1, created=0.0, updated=0.0)


def run(store: RedisStore, name: str, *arguments: object) -> object:
    """A script, here one of those that only clusters need."""
    return store._server.run(name, *arguments)


def number_incoming(store: RedisStore) -> None:
    if store._server.ask("EXISTS", "{p:incoming}:taken") == 0:
        store._server.ask("LPUSH", "p:incoming", "{}")
    run(store, "number_incoming", "an-id")


def decide_plan(store: RedisStore) -> None:
    run(store, "lay_plan", "plan", "nonce", "about")
    run(store, "decide_plan", "plan", "nonce", "go")


def take_claim(store: RedisStore) -> None:
    """The claim of the same task again and again."""
    nonce = store._server.ask("HGET", "p:claim:taken", "nonce")
    if nonce is None:
        store._server.ask("HSET", "p:claim:taken", "nonce", "first", "queue", "q")
    run(store, "take_claim", "taken", nonce or "first", "q", "another", "task", "")


@pytest.fixture(
    scope="module",
    params=[redis_binary, oldest_redis_binary, pytest.param(valkey_binary, marks=pytest.mark.long)],
)
def deaf(request: pytest.FixtureRequest) -> Iterator[Callable[[], RedisStore]]:
    """Opens a store anew whose replica, when it has begun to follow, hears nothing any more. Valkey
    counts what a connection has written, Redis what it has asked for.
    """
    port = free_port()
    with (
        serving(request.param(), "--port", str(port), "--repl-diskless-sync-delay", "0") as primary,
        serving(request.param(), "--replicaof", "127.0.0.1", str(port)) as replica,
        ExitStack() as opened_ones,
    ):

        def another() -> RedisStore:
            store = opened(f"{primary.url('p')}&wait=1&wait_timeout=100ms")
            opened_ones.callback(store.close)
            return store

        until_confirmed(another())
        store = another()
        register(store)
        submit(store, new("held"))
        take(store)
        for each in ("judge", "silent", "leaves"):
            register(store, each)
        submit(store, new("lost"), new("left"))
        take(store, "silent")
        take(store, "leaves")
        os.kill(replica.pid, signal.SIGSTOP)
        yield another
        os.kill(replica.pid, signal.SIGCONT)


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda store: store.submit([new("a")]), id="submit"),
        pytest.param(lambda store: store.submit_flow(FLOW, [new("b", flow="f")]), id="flow"),
        pytest.param(lambda store: store.commit([decide(HELD, Done())]), id="commit"),
        pytest.param(
            lambda store: store.turn("w", [decide(HELD, Done())], ["q"], 0, EVERYTHING), id="turn"
        ),
        pytest.param(lambda store: store.declare_lost("judge", {"silent": 1}), id="declare_lost"),
        pytest.param(lambda store: store.drop_worker("leaves", 1), id="drop_worker"),
        pytest.param(lambda store: store.set_queue("q", paused=True), id="set_queue"),
        pytest.param(
            lambda store: run(store, "declare_lost_here", "silent", 1), id="declare_lost_here"
        ),
        pytest.param(lambda store: run(store, "claim", "a", "q", "nonce", "", ""), id="claim"),
        pytest.param(take_claim, id="take_claim"),
        pytest.param(lambda store: run(store, "listen", "r", "held", 0), id="listen"),
        pytest.param(lambda store: run(store, "enlist", "shards", "", "q"), id="enlist"),
        pytest.param(number_incoming, id="number_incoming"),
        pytest.param(decide_plan, id="decide_plan"),
    ],
)
def test_who_finds_it_done_is_not_told_that_it_is_safe(
    deaf: Callable[[], RedisStore], ask: Callable[[RedisStore], object]
) -> None:
    for _ in range(2):
        with pytest.raises(StoreUnreachable, match="0 of 1 replicas"):
            ask(deaf())


def test_scripts_that_the_server_forgot_are_confirmed_too(store: RedisStore) -> None:
    names = fill(store, 1)
    store._server.ask("SCRIPT", "FLUSH")
    assert ids(take(store)) == names


@pytest.mark.parametrize("number", [1, 500], ids=["one", "many"])
def test_a_primary_that_is_replaced_while_replicas_are_waited_for_can_be_asked_again(
    own_server: Starts, number: int
) -> None:
    """Somebody else answers then: there is nothing to mend."""
    server = own_server()
    opened(server.url("p")).submit([new("to know the script")])
    store = opened(f"{server.url('p')}&wait=1&wait_timeout=9s")
    answer = in_thread(lambda: store.submit([new() for _ in range(number)]))
    there = opened(server.url("p"))
    until(lambda: b"blocked_clients:1\r" in there._server.ask("INFO", "clients"), "for the waiter")
    there._server.ask("REPLICAOF", "127.0.0.1", free_port())
    with pytest.raises(StoreUnreachable, match="replaced by another server"):
        answer()


def test_without_any_replica_it_says_so(own_server: Starts) -> None:
    store = opened(f"{own_server().url('p')}&wait=2&wait_timeout=0.05")
    with pytest.raises(StoreUnreachable, match=r"0 of 2 replicas confirmed it within 0\.05 s"):
        fill(store, 1)
    store.close()


def test_beats_need_no_replica(own_server: Starts) -> None:
    store = opened(f"{own_server().url('p')}&wait=1&wait_timeout=9s")
    begun = time.monotonic()
    for number in (1, 2, 3):
        beat(store, "w", number)
    assert time.monotonic() - begun < 9
    store.close()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("wait=some", "wait=some"),
        ("wait=-1", "wait=-1"),
        ("wait_timeout=1s", "needs wait"),
        ("wait=1&wait_timeout=soon", "soon"),
        ("wait=1&wait_timeout=0", "more than 0"),
        ("wait=1&wait_timeout=30s", "socket_timeout"),
    ],
)
def test_a_bad_option_says_what_is_wrong(query: str, said: str) -> None:
    with pytest.raises(BadConfig, match=said):
        open_store(f"redis://localhost?{query}")


@pytest.mark.parametrize("is_in_use", [False, True])
def test_who_looks_does_not_wait_for_replicas_that_are_not_there(
    own_server: Starts, is_in_use: bool
) -> None:
    """The settings may be what has to be mended, and `stayer doctor` has to say so."""
    server = own_server()
    if is_in_use:
        submit(opened(server.url("p")), new("a"))
    looking = opened(f"{server.url('p')}&wait=1&wait_timeout=50ms")
    assert [queue.name for queue in looking.queues()] == ["q"] * is_in_use
    [of_replicas] = [finding for finding in looking.check() if finding.check == "replicas"]
    assert of_replicas.status == "fail"
    assert "gets an error" in of_replicas.message
    with pytest.raises(StoreUnreachable, match=r"has done what was asked, but 0 of 1 replicas"):
        submit(looking, new("b"))
    looking.close()
