"""What happens to a client when things happen to its server."""

from __future__ import annotations

import asyncio
import math
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from queue import SimpleQueue

import pytest

from stayer import aio
from stayer.client.handle import TaskHandle
from stayer.core.errors import BadConfig, BadInput, StoreError, StoreUnreachable, StoreUnusable
from stayer.core.flows.model import NewFlow, Part
from stayer.core.happenings import Done, Snooze
from stayer.core.lifecycle import decide
from stayer.core.model import Filter
from stayer.service.control import flows as flow_control
from stayer.service.control import waits
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from stayer.stores.redis.health import OLDEST
from stayer.stores.redis.keys import key
from stayer.stores.redis.pack.tasks import pack_parts, parts_of
from stayer.stores.redis.pubsub import REPAIR_S
from stayer.stores.redis.scripts import CHANGES, names, script, sources
from tests.contract.builders import (
    PATIENCE,
    apply,
    beat,
    check_counts,
    counts,
    fill,
    get,
    ids,
    in_thread,
    new,
    register,
    started,
    submit,
    take,
    take_one,
)
from tests.servers.redis import RedisServer

Starts = Callable[..., RedisServer]


def plain(store: Store) -> Callable[..., object]:
    """Commands that are not Stayer's own."""
    assert isinstance(store, RedisStore)
    return store._server.ask


LUA = {
    "ARGV", "KEYS", "error", "function", "ipairs", "next", "pairs", "pcall", "select", "tonumber",
    "tostring", "type", "unpack",
}  # fmt: skip


def test_who_only_reads_need_not_wonder_whether_it_was_done(own_server: Starts) -> None:
    server = own_server()
    store = open_store(f"{server.url()}&socket_timeout=0.2")
    store.setup()
    store.submit([new("a")])
    reads = (store.queues, store.now, store.workers, store.last_event, lambda: get(store, "a"))
    os.kill(server.pid, signal.SIGSTOP)
    try:
        for read in reads:
            with pytest.raises(StoreUnreachable, match="did not answer in time") as refused:
                read()
            assert (refused.value.unsure, "or not" in str(refused.value)) == (False, False)
        with pytest.raises(StoreUnreachable, match="it may have done what was asked, or not") as to:
            store.submit([new("b")])
        assert to.value.unsure
    finally:
        os.kill(server.pid, signal.SIGCONT)
    store.close()


def test_it_is_known_of_every_command_whether_it_changes_something() -> None:
    called = {
        word
        for name in names()
        for word in re.findall(r"\b(?:call|in_parts)\('(\w+)'", script(name).text)
    }
    assert called - CHANGES == {
        "EXISTS", "GET", "GETRANGE", "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET",
            "HRANDFIELD",
        "HVALS", "LINDEX", "LLEN", "LRANGE", "MGET", "PTTL", "PUBSUB", "SCARD", "SISMEMBER",
        "SMEMBERS", "SRANDMEMBER", "STRLEN", "TIME", "TYPE", "XRANGE", "XREVRANGE", "ZCARD",
        "ZCOUNT",
        "ZLEXCOUNT", "ZRANGE", "ZRANGEBYLEX", "ZRANGEBYSCORE", "ZREVRANGE", "ZREVRANGEBYLEX",
        "ZSCORE",
    }  # fmt: skip
    assert [script(name).reads for name in ("find", "queues", "submit", "rights")] == [
        True, True, False, False,
    ]  # fmt: skip


class TestScripts:
    def test_that_the_server_forgot_are_sent_again(self, store: RedisStore) -> None:
        register(store)
        for number in range(5):
            plain(store)("SCRIPT", "FLUSH")
            name = f"t{number}"
            submit(store, new(name))
            plain(store)("SCRIPT", "FLUSH")
            task = take_one(store)
            plain(store)("SCRIPT", "FLUSH")
            assert store.commit([decide(task, Done())])[0] is not None
            plain(store)("SCRIPT", "FLUSH")
            assert get(store, name).state == "complete"
        check_counts(store)

    def test_that_the_server_forgot_are_sent_again_for_each_part_of_many(
        self, store: RedisStore
    ) -> None:
        """Before the first of them, or while they come."""
        for number, forgets in enumerate(([0], [1], [2], [0, 1, 2, 3, 4])):
            tasks = [new(f"t{number}-{each}") for each in range(900)]
            slices = parts_of(tasks)
            assert slices is not None
            parts = pack_parts(tasks, slices)
            server = store._server

            def calls(
                parts: Iterator[list[object]] = parts, forgets: list[int] = forgets
            ) -> Iterator[list[object]]:
                for at, part in enumerate(parts):
                    if at in forgets:
                        plain(store)("SCRIPT", "FLUSH")
                    yield part

            answers = list(server.run_each("submit", calls()))
            assert [answer[1:] for answer in answers] == [[[], [], 0]] * len(slices)
        assert counts(store) == {"pending": 3600}
        check_counts(store)

    def test_of_which_one_is_refused_leave_a_connection_that_can_be_used(
        self, store: RedisStore
    ) -> None:
        server = store._server
        tasks = [new(f"t{each}") for each in range(900)]
        parts = parts_of(tasks)
        assert parts is not None
        first, second, *rest = pack_parts(tasks, parts)
        second[0] = b"no MessagePack"
        told: list[object] = []
        with pytest.raises(StoreUnusable, match="user_script"):
            told.extend(server.run_each("submit", [first, second, *rest]))
        assert plain(store)("ECHO", "this is the answer") == b"this is the answer"
        assert store.get(["t0"])[0] is not None
        assert store.get([f"t{parts[1].start}"]) == [None]
        check_counts(store)

    def test_take_none_of_many_if_one_can_not_be_kept(self, store: RedisStore) -> None:
        many = [new(f"t{each}") for each in range(900)]
        with pytest.raises(BadInput, match="priority"):
            store.submit([*many, new("bad", priority=2**60)])
        assert counts(store) == {}

    def test_are_sent_once(self, store: RedisStore) -> None:
        fill(store, 1)
        plain(store)("CONFIG", "RESETSTAT")
        for _ in range(10):
            fill(store, 1)
        stats = plain(store)("INFO", "commandstats")
        assert isinstance(stats, bytes)
        assert b"cmdstat_evalsha:calls=10," in stats
        assert b"cmdstat_eval:" not in stats

    @pytest.mark.parametrize("name", names())
    def test_name_what_they_take_and_give(self, name: str) -> None:
        """Each can be loaded, so its Lua is sound; the header is for people."""
        header, _, body = sources()[name][1].partition("\n\n")
        takes, _, gives = header.partition("\n-- returns ")
        assert takes.startswith("-- ")
        assert gives
        for number in re.findall(r"ARGV\[([3-9]|\d\d+)\]", body):
            assert re.search(rf"(?<!\w){number} ", takes), f"argument {number}"
        assert "the rest" in takes or not re.search(r"#ARGV|unpack\(ARGV,|ARGV\[[^\d]", body)

    @pytest.mark.parametrize("name", names())
    def test_are_sound(self, store: RedisStore, name: str) -> None:
        assert plain(store)("SCRIPT", "LOAD", script(name).text) == script(name).digest.encode()

    @pytest.mark.parametrize("name", names())
    def test_call_what_is_there_by_then(self, name: str) -> None:
        """Lua finds out only when it gets there, which may be seldom."""
        code = re.sub(r"'(?:[^'\\\n]|\\.)*'|\[\[.*?\]\]", "''", script(name).text)
        code = re.sub(r"--.*", "", code)
        calls = re.finditer(r"(?<![.:\w])([a-z]\w*(?=\()|[A-Z][A-Z_]+\b)", code)
        first = {call[1]: code[: call.end()] for call in reversed(list(calls))}
        for called, before in first.items():
            there = rf"\blocal (?:(?:\w+,\s+)*|[^=\n]*\b){called}\b|\bfunction\([^)]*\b{called}\b"
            assert called in LUA or re.search(there, before), called


class TestARestart:
    """The server goes away and comes back, with appendonly."""

    @pytest.fixture
    def server(self, own_server: Starts) -> RedisServer:
        return own_server("--appendonly", "yes", "--appendfsync", "always")

    @pytest.fixture
    def store(self, server: RedisServer) -> Iterator[Store]:
        store = open_store(server.url("p"))
        store.setup()
        yield store
        store.close()

    def test_is_not_noticed_between_two_calls(self, server: RedisServer, store: Store) -> None:
        register(store)
        fill(store, 3)
        held = take(store, limit=2)
        server.stop()
        server.start()
        assert ids(store.holdings("w")) == ids(held)
        assert None not in store.commit([decide(task, Done()) for task in held])
        assert counts(store) == {"complete": 2, "pending": 1}
        check_counts(store)

    def test_is_waited_out_by_a_waiter(self, server: RedisServer, store: Store) -> None:
        # Given somebody who waits, and goes on waiting when the store can't be reached
        register(store)
        waiter = store.waiter("w", ["q"])

        def wait() -> list[str]:
            while True:
                try:
                    waiter.wait(None)
                    if tasks := take(store):
                        return ids(tasks)
                except StoreUnreachable:
                    time.sleep(0.01)

        woken = in_thread(wait)

        # When the server is restarted under it, and then a task comes
        server.stop()
        server.start()
        names = fill(store, 1)

        # Then it wakes
        assert woken() == names
        waiter.close()

    def test_is_waited_out_by_a_watcher(self, server: RedisServer, store: Store) -> None:
        fill(store, 1)
        since = store.last_event()

        def watch() -> list[str]:
            while True:
                try:
                    return [event.id for event in store.watch(since, PATIENCE, 10)]
                except StoreUnreachable:
                    time.sleep(0.01)

        seen = in_thread(watch)
        server.stop()
        server.start()
        names = fill(store, 1)
        assert seen() == names

    def test_is_waited_out_by_who_waits_for_a_task_or_a_flow(
        self, server: RedisServer, store: Store
    ) -> None:
        """A script that waits for three days must not end by a restart."""
        register(store)
        flow_control.submit(
            store,
            NewFlow(id="f", name="f", parts=(Part(name="a", queue="q"),)),
            [new("a", flow="f", part="a")],
        )
        told: SimpleQueue[str] = SimpleQueue()
        handle = TaskHandle(store, get(store, "a"), lambda value: value)
        waiting = [
            in_thread(lambda: ids(list(waits.wait(store, ["a"], tell=told.put)))),
            in_thread(lambda: flow_control.wait(store, "f", tell=told.put).state),
            in_thread(lambda: handle.wait(PATIENCE)),
            in_thread(lambda: asyncio.run(aio.TaskHandle(handle).wait())),
        ]
        server.stop()
        assert all("trying again" in told.get(timeout=PATIENCE) for _ in range(2))
        server.start()
        assert [told.get(timeout=PATIENCE) for _ in range(2)] == ["the store answers again"] * 2
        apply(store, take_one(store), Done(7))
        assert [result() for result in waiting] == [["a"], "complete", 7, 7]
        assert told.empty()

    def test_is_not_waited_out_for_longer_than_asked_for(
        self, server: RedisServer, store: Store
    ) -> None:
        submit(store, new("a"))
        handle = TaskHandle(store, get(store, "a"), lambda value: value)
        server.stop()
        with pytest.raises(StoreUnreachable):
            handle.wait(0.3)
        with pytest.raises(StoreUnreachable):
            asyncio.run(aio.TaskHandle(handle).wait(0.3))
        server.start()

    def test_without_the_server_the_store_is_unreachable(
        self, server: RedisServer, store: Store
    ) -> None:
        fill(store, 1)
        server.stop()
        for call in (store.now, store.queues, lambda: fill(store, 1)):
            with pytest.raises(StoreUnreachable, match="can't be reached"):
                call()
        with pytest.raises(StoreUnreachable):
            store.waiter("w", ["q"])
        server.start()
        assert counts(store) == {"pending": 1}


def test_what_was_acknowledged_over_a_second_ago_survives_a_kill(own_server: Starts) -> None:
    """With appendfsync everysec; and nothing is doubled, nor half done."""
    server = own_server("--appendonly", "yes", "--appendfsync", "everysec")
    store = open_store(server.url("p"))
    store.setup()
    register(store)
    acknowledged: list[tuple[float, str, str]] = []
    second = 1 + 1  # and one that the flush may take

    def live() -> None:
        number = 1
        while True:
            names = fill(store, 5)
            acknowledged.extend((time.monotonic(), name, "submitted") for name in names)
            done = store.commit([decide(task, Done("end")) for task in take(store, limit=3)])
            acknowledged.extend((time.monotonic(), task.id, "complete") for task in done if task)
            number += 1
            beat(store, "w", number)

    # When it is killed in the midst of it
    busy = in_thread(live)
    while not acknowledged or acknowledged[0][0] > time.monotonic() - second - 0.5:
        time.sleep(0.01)
    killed = time.monotonic()
    server.stop(signal.SIGKILL)
    with pytest.raises(StoreError):
        busy()
    server.start()

    # Then what is older than a second is there
    old = [(id, what) for at, id, what in acknowledged if at < killed - second]
    assert old
    found = dict(zip([id for id, _ in old], store.get([id for id, _ in old]), strict=True))
    for id, what in old:
        task = found[id]
        assert task is not None
        assert task.state == "complete" or what == "submitted"

    # And all that is there fits together, and goes on
    check_counts(store)
    every = store.find(Filter(), None, 100_000).tasks
    for task in every:
        events = [event.event for event in store.events(task.id)]
        assert events == ["pending", "reserved", "complete"][: len(events)]
        assert len(store.attempts(task.id)) == task.attempt <= 1
        assert events[-1] == task.state
    left = [*store.holdings("w"), *take(store, limit=100_000)]
    assert None not in store.commit([decide(task, Done()) for task in left])
    assert counts(store) == {"complete": len(every)}
    store.close()


def test_a_lost_message_is_made_up_for(store: RedisStore, other: Store) -> None:
    """As if the publishing server had died with the message: only the mark is there."""
    waiter = store.waiter(None, ["q"])
    fill(other, 1)
    ear = waiter._ear  # type: ignore[attr-defined]
    while not ear._lines[0].read():
        pass
    begin = time.monotonic()
    assert waiter.wait(PATIENCE)
    assert time.monotonic() - begin < REPAIR_S + PATIENCE
    waiter.close()


def test_who_waits_sees_an_end_though_its_event_is_gone(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when so many others came while he was stopped, or did something with the one before."""
    monkeypatch.setattr(waits, "WATCH_S", 0.1)
    register(store)
    tasks = [started(store, id=id) for id in ("a", "b")]
    apply(store, tasks[0], Done())
    waiting = waits.wait(store, ["a", "b"], timeout=5.0)
    assert next(waiting).id == "a"
    apply(store, tasks[1], Done())
    assert store._server.ask("DEL", key("events", store._server.address.prefix)) == 1
    assert ids(list(waiting)) == ["b"]


def test_a_watcher_that_is_ahead_of_a_failover_goes_on(store: RedisStore) -> None:
    """The events that a replica did not get are gone, and their numbers are used again."""
    fill(store, 3)
    ahead = store.last_event() + 1000
    seen = in_thread(lambda: store.watch(ahead, PATIENCE, 10))
    channel = f"{store._server.address.prefix}:events"
    while plain(store)("PUBSUB", "NUMSUB", channel) != [channel.encode(), 1]:
        time.sleep(0.01)
    names = fill(store, 1)
    assert [event.id for event in seen()] == names


class TestRefusals:
    @pytest.mark.parametrize(
        ("url", "said"),
        [
            ("redis://localhost?prefix=a:b", "prefix"),
            ("redis://localhost?prefix=", "prefix"),
            ("redis://localhost?no_such_option=1", "no_such_option"),
            ("unix://", "unix:///path"),
        ],
    )
    def test_a_bad_url_says_what_is_wrong(self, url: str, said: str) -> None:
        with pytest.raises(BadConfig, match=said):
            open_store(url)

    @pytest.mark.parametrize(
        ("url", "safe"),
        [
            ("redis://user:secret@host:7000/2", "redis://user@host:7000/2"),
            ("redis://:secret@host", "redis://host"),
            ("rediss://host?password=secret&prefix=x", "rediss://host?prefix=x"),
            ("unix:///run/redis.sock?password=secret", "unix:///run/redis.sock"),
        ],
    )
    def test_a_password_is_not_shown(self, url: str, safe: str) -> None:
        assert open_store(url).url == safe

    def test_nobody_is_there(self) -> None:
        store = open_store("redis://127.0.0.1:1")
        with pytest.raises(StoreUnreachable, match="running"):
            store.setup()

    def test_a_wrong_password(self, own_server: Starts) -> None:
        server = own_server()
        admin = open_store(server.url("p"))
        plain(admin)("CONFIG", "SET", "requirepass", "right")
        store = open_store(f"{server.url('p')}&password=wrong")
        with pytest.raises(StoreUnusable, match="password"):
            store.queues()
        right = open_store(f"{server.url('p')}&password=right")
        assert right.queues() == []

    def test_no_memory_left_changes_nothing(self, own_server: Starts) -> None:
        server = own_server()
        store = open_store(server.url("p"))
        store.setup()
        names = fill(store, 10)
        plain(store)("CONFIG", "SET", "maxmemory", "1kb")
        with pytest.raises(StoreUnusable, match="memory"):
            fill(store, 10)
        plain(store)("CONFIG", "SET", "maxmemory", "0")
        assert counts(store) == {"pending": 10}
        assert len(store.watch(0, 0, 100)) == 10
        check_counts(store)
        register(store)
        assert ids(take(store, limit=20)) == names
        store.close()

    def test_one_that_is_too_old(self, store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
        assert OLDEST == (6, 2)
        monkeypatch.setattr(import_module("stayer.stores.redis.health"), "OLDEST", (99, 1))
        with pytest.raises(StoreUnusable, match=r"needs 99\.1 or newer"):
            store.setup()

    def test_a_replica(self, own_server: Starts) -> None:
        server = own_server()
        store = open_store(server.url("p"))
        plain(store)("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(StoreUnusable, match="replica"):
            store.setup()

    def test_a_newer_stayer_has_been_here(self, store: RedisStore, url: str) -> None:
        prefix = url.rpartition("=")[2]
        plain(store)("HSET", f"{prefix}:meta", "schema", "99")
        with pytest.raises(StoreUnusable, match="newer"):
            store.setup()


def test_what_the_server_would_refuse_half_way_is_refused_before(store: RedisStore) -> None:
    register(store)
    tasks = [started(store), started(store)]
    changes = [
        decide(task, Snooze(delay)) for task, delay in zip(tasks, (5.0, math.nan), strict=True)
    ]
    with pytest.raises(BadInput, match="delay nan"):
        store.commit(changes)
    assert [get(store, task.id) for task in tasks] == tasks
    assert counts(store) == {"started": 2}


def test_two_prefixes_are_two_stores(shared_server: RedisServer) -> None:
    one, two = (open_store(shared_server.url(prefix)) for prefix in ("a", "a_b"))
    submit(one, new("same"))
    submit(two, new("same"))
    one.drop_queue("q", 10)
    assert (one.queues(), counts(two)) == ([], {"pending": 1})


def test_a_server_that_waits_costs_it_next_to_nothing(store: RedisStore) -> None:
    """One look in a few seconds, however many queues are waited for."""
    register(store)
    waiter = store.waiter("w", [f"q{number}" for number in range(20)])
    plain(store)("CONFIG", "RESETSTAT")
    assert not waiter.wait(REPAIR_S + 1)
    stats = plain(store)("INFO", "commandstats")
    assert isinstance(stats, bytes)
    assert b"cmdstat_evalsha:calls=1," in stats
    waiter.close()
