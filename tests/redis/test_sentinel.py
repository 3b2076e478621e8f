"""Sentinels that put another server in the place of one that has gone."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import pytest

from stayer.core.errors import BadConfig, StoreUnreachable, StoreUnusable
from stayer.core.happenings import Done
from stayer.core.insight.health import Finding
from stayer.core.lifecycle import decide
from stayer.core.model import Filter, Task
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from stayer.stores.redis.connection.sentinel import _troubles, _View
from tests.contract.builders import (
    PATIENCE,
    beat,
    check_counts,
    fill,
    ids,
    in_thread,
    new,
    register,
    take,
)
from tests.contract.test_waiter import calm
from tests.faults.fleet import Fleet
from tests.servers.finding import redis_binary, valkey_binary
from tests.servers.sentinel import SENTINEL_PASSWORD, Group, until, watched_over

T = TypeVar("T")
QUICK = {"socket_timeout": 1, "socket_connect_timeout": 1, "wait_timeout": "500ms"}


@pytest.fixture(params=[redis_binary, pytest.param(valkey_binary, marks=pytest.mark.long)])
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    with watched_over(request.param()) as group:
        yield group


@pytest.fixture
def store(group: Group) -> Iterator[Store]:
    store = open_store(group.url(wait=1, **QUICK))
    store.setup()
    yield store
    store.close()


def patiently(call: Callable[[], T]) -> T:
    """Until the store answers."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except StoreUnreachable:
            assert time.monotonic() < deadline
            time.sleep(0.02)


class Life:
    """Submits, takes and finishes tasks again and again; knows what it was told."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.submitted: list[str] = []
        self.finished: list[str] = []
        self.stop = False
        self._beats = 1
        register(store)

    def live(self) -> None:
        while not self.stop:
            tasks = [new() for _ in range(3)]
            answers = patiently(lambda tasks=tasks: self.store.submit(tasks))  # type: ignore[misc]
            self.submitted += [answer.task.id for answer in answers]
            self._finish(patiently(self._taken))
            self._beats += 1
            patiently(lambda: beat(self.store, "w", self._beats))

    def _taken(self) -> list[Task]:
        """What an answer that got lost has given is among the holdings."""
        take(self.store, limit=2)
        return self.store.holdings("w")

    def _finish(self, tasks: Sequence[Task]) -> None:
        changes = [decide(task, Done("end")) for task in tasks]
        patiently(lambda: self.store.commit(changes))
        self.finished += [task.id for task in tasks]


@pytest.mark.parametrize(
    "harm", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.long)]
)
def test_a_failover_loses_nothing_that_was_confirmed_and_doubles_nothing(
    group: Group, store: Store, harm: signal.Signals
) -> None:
    # Given somebody who is busy
    life = Life(store)
    busy = in_thread(life.live)
    until(lambda: len(life.finished) > 50, "for some tasks")

    # When the primary dies, or hangs and wakes when another has taken its place
    old = group.primary()
    old.signal(harm)
    group.until_replaced(old)
    if harm == signal.SIGSTOP:
        old.signal(signal.SIGCONT)
        until(lambda: old.ask("ROLE")[0] == b"slave", "for the old one to follow")
    seen = len(life.finished)
    until(lambda: len(life.finished) > seen + 50, "for some more tasks")
    life.stop = True
    busy()

    # Then all that was told is true
    every = {task.id: task for task in store.find(Filter(), None, 1_000_000).tasks}
    assert set(life.submitted) <= set(every)
    assert {every[id].state for id in life.finished} == {"complete"}
    for task in every.values():
        events = [event.event for event in store.events(task.id)]
        assert events == ["pending", "reserved", "complete"][: len(events)]
        assert len(store.attempts(task.id)) == task.attempt <= 1
    check_counts(store)


@pytest.mark.parametrize(
    "harm", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.long)]
)
def test_wake_ups_come_from_the_new_primary(
    group: Group, store: Store, harm: signal.Signals
) -> None:
    # Given a waiter
    waiter = store.waiter(None, ["q"])
    calm(waiter)

    # When another server takes over
    old = group.primary()
    old.signal(harm)
    primary = group.until_replaced(old)

    # Then the waiter comes to listen there, and wakes
    def listens() -> bool:
        patiently(lambda: waiter.wait(0.1))
        return bool(primary.ask("PUBSUB", "NUMSUB", "stayer:{q}:wake")[1] == 1)

    until(listens, "for the waiter to listen there")
    calm(waiter)
    woken = in_thread(lambda: waiter.wait(PATIENCE))
    patiently(lambda: fill(store, 1))
    assert woken()
    waiter.close()


def test_a_worker_goes_on_and_so_do_its_tasks(group: Group, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, group.url(wait=1, **QUICK))
    try:
        worker = fleet.worker(lease=30)
        fleet.stamper("a")
        fleet.until_stamped("a")
        fleet.until_state("a", "started")
        old = group.primary()
        old.signal(signal.SIGKILL)
        seen = len(fleet.read_stamps("a")[1])
        group.until_replaced(old)
        fleet.until_stamped("a", more_than=seen + 100)
        fleet.finish("a")
        patiently(lambda: fleet.until_ended("a"))
        patiently(lambda: fleet.submit("b", "true"))
        assert fleet.until_ended("b").state == "complete"
        assert (fleet.endings("a"), fleet.endings("b")) == (["done"], ["done"])
        assert [each.pid for each in fleet.store.workers()] == [worker], "it never ended"
    finally:
        fleet.close()


def test_a_primary_that_became_a_replica_is_left(group: Group, store: Store) -> None:
    """Even if nobody closes the connections to it, as sentinels do."""
    register(store)
    old = group.primary()
    [other, _] = [server for server in group.servers if server is not old]
    old.ask("REPLICAOF", "127.0.0.1", other.port)
    with pytest.raises(StoreUnreachable, match="being replaced"):
        fill(store, 1)
    with pytest.raises(StoreUnreachable, match="about to take over"):
        store.queues()


def test_the_first_sentinels_may_be_gone(group: Group, store: Store) -> None:
    for sentinel in group.sentinels[:2]:
        sentinel.end()
    fresh = open_store(group.url())
    names = fill(store, 1)
    register(fresh)
    assert ids(take(fresh)) == names
    fresh.close()


def test_doctor_looks_at_sentinels(group: Group) -> None:
    def found() -> list[Finding]:
        store = open_store(group.url())
        assert isinstance(store, RedisStore)
        findings = [each for each in store.check() if each.check == "sentinels"]
        store.close()
        return findings

    # Given all that there are
    [fine] = found()
    primary = f"127.0.0.1:{group.primary().port}"
    assert (fine.status, fine.message) == (
        "ok",
        f"3 of 3 answer, the primary is {primary}; known are 2 replicas and 2 other sentinels, "
        "quorum 2",
    )

    # When one of them ends, then another
    group.sentinels[0].end()
    [fewer] = found()
    assert (fewer.status, "2 of 3 answer" in fewer.message) == ("warn", True)
    assert f"127.0.0.1:{group.sentinels[0].port}: " in fewer.message
    group.sentinels[1].end()

    # Then it is told that no other server would take over
    until(lambda: len(found()) == 2, "for the last one to be alone")
    assert "can't agree on another primary: NOQUORUM" in found()[1].message


def test_doctor_warns_of_sentinels_without_replica() -> None:
    [found] = _troubles([_View("a:1", 0, 2, 2, "")])
    assert (found.status, "know of no replica" in found.message) == ("warn", True)
    [found] = _troubles([_View("a:1", 1, 2, 2, ""), _View("b:2", 1, 2, 2, "")])
    assert (found.status, "a:1, b:2" in found.message) == ("warn", True)


class TestRefusals:
    def test_a_service_that_nobody_knows(self, group: Group) -> None:
        store = open_store(group.url().replace("/films", "/songs"))
        with pytest.raises(StoreUnusable, match="knows no primary 'songs': known are films"):
            store.now()

    def test_a_server_is_no_sentinel(self, group: Group) -> None:
        sentinels = [sentinel.port for sentinel in group.sentinels]
        url = group.url()
        for port in sentinels:
            url = url.replace(f":{port}", f":{group.servers[0].port}")
        with pytest.raises(StoreUnusable, match="is no sentinel: they usually have port 26379"):
            open_store(url.replace("of%20the%20sentinels", "of%20the%20servers")).now()

    def test_one_without_tls(self, group: Group) -> None:
        store = open_store(group.url().replace("redis+", "rediss+"))
        with pytest.raises(StoreUnreachable, match=r"If not, write redis\+sentinel://"):
            store.now()

    def test_one_that_can_not_be_reached_may_know(self, group: Group) -> None:
        store = open_store(group.url().replace("/films", "/songs"))
        group.sentinels[0].end()
        with pytest.raises(StoreUnreachable, match="knows no primary 'songs'"):
            store.now()

    def test_no_sentinel_answers(self) -> None:
        store = open_store("redis+sentinel://127.0.0.1:1,127.0.0.1:2/films")
        with pytest.raises(StoreUnreachable, match=r"127\.0\.0\.1:1: .*127\.0\.0\.1:2: "):
            store.now()

    @pytest.mark.parametrize("url", ["wrong", "none"])
    def test_a_password_of_the_servers(self, group: Group, url: str) -> None:
        found = group.url().replace(":of%20the%20servers@", ":wrong@" if url == "wrong" else "")
        with pytest.raises(StoreUnusable) as refused:
            open_store(found).now()
        primary = f"127.0.0.1:{group.primary().port}"
        assert f"the primary {primary} does not let this user in" in str(refused.value)
        assert "before the @" in str(refused.value)
        assert "sentinel_password" not in str(refused.value)

    @pytest.mark.parametrize("url", ["wrong", "none"])
    def test_a_password_of_the_sentinels(self, group: Group, url: str) -> None:
        given = "sentinel_password=of%20the%20sentinels"
        found = group.url().replace(given, "sentinel_password=wrong" if url == "wrong" else "")
        with pytest.raises(StoreUnusable) as refused:
            open_store(found).now()
        sentinel = f"127.0.0.1:{group.sentinels[0].port}"
        assert f"{sentinel} is a sentinel that does not let us in" in str(refused.value)
        assert "fix sentinel_password" in str(refused.value)
        assert "takes over" not in str(refused.value)

    def test_a_sentinel_is_no_server(self, group: Group) -> None:
        sentinel = f"127.0.0.1:{group.sentinels[0].port}"
        store = open_store(f"redis://:{SENTINEL_PASSWORD}@{sentinel}".replace(" ", "%20"))
        with pytest.raises(StoreUnusable) as refused:
            store.setup()
        wanted = f"redis+sentinel://{sentinel}/films"
        assert str(refused.value).endswith(f"is a sentinel: write {wanted}")
        with pytest.raises(StoreUnusable, match=r"Is it a sentinel\? Then write redis\+sentinel"):
            open_store(f"{store.url}/2".replace("//", f"//:{quote(SENTINEL_PASSWORD)}@")).setup()

    @pytest.mark.parametrize(
        ("url", "said"),
        [
            ("redis+sentinel://host", "name the service"),
            ("redis+sentinel://host/films/first", "name the service"),
            ("redis+sentinel:///films", "no host"),
            ("redis+sentinel://host:port/films", "'host:port' is no host"),
            ("redis+sentinel://host,/films", "'' is no host"),
            ("redis+sentinel://host/films?no_such_option=1", "no_such_option"),
        ],
    )
    def test_a_bad_url_says_what_is_wrong(self, url: str, said: str) -> None:
        with pytest.raises(BadConfig, match=said):
            open_store(url)

    def test_passwords_are_not_shown(self) -> None:
        url = "redis+sentinel://me:secret@a:1,[::1]:2,c/films/3?sentinel_password=secret&wait=1"
        assert open_store(url).url == "redis+sentinel://me@a:1,[::1]:2,c/films/3?wait=1"
