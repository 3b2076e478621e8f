"""A cluster: steps between which a client dies, nodes that die, slots that move."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest
from redis.crc import key_slot

from stayer.core.errors import BadConfig, LeaseLost, StoreUnusable
from stayer.core.happenings import Done
from stayer.core.insight.health import Finding
from stayer.core.lifecycle import decide
from stayer.core.model import FINISHED, Filter
from stayer.core.worker_model import EVERYTHING
from stayer.service.control import workers as worker_control
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.redis.keys import REGISTRY_TAG
from stayer.stores.redis.pubsub import REPAIR_S
from stayer.stores.redis_cluster import OLDEST, ClusterStore
from tests.contract.builders import (
    Clock,
    beat,
    check_counts,
    fill,
    get,
    ids,
    in_thread,
    new,
    register,
    submit,
    take,
    worker,
)
from tests.contract.test_schedules import firing, schedule
from tests.docs.pages import text
from tests.redis.dying import deaths
from tests.redis.test_sentinel import Life, patiently
from tests.servers.cluster import Cluster, clustered, id_of, node_of
from tests.servers.finding import redis_binary, valkey_binary
from tests.servers.sentinel import Node, until

QUEUES = ("q", "r")


@pytest.fixture(params=[redis_binary, pytest.param(valkey_binary, marks=pytest.mark.long)])
def replicated(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three primaries, three replicas."""
    with clustered(request.param(), fails_over=True) as cluster:
        yield cluster


class TestADeathBetweenAnyTwoSteps:
    def test_of_a_submit(self, cluster: Cluster) -> None:
        tasks = [new("a", "q"), new("b", "r"), new("c", "q")]
        others = [new("a", "r"), new("b", "q"), new("c", "q"), new("d", "r")]
        for store, _ in deaths(cluster, 1, lambda store: None, lambda s, _: s.submit(tasks)):
            store.submit(others)
            found = store.find(Filter(), None, 100).tasks
            assert sorted(ids(found)) == ["a", "b", "c", "d"], "each once"
            assert all(get(store, task.id) == task for task in found)
            check_counts(store)
            register(store, queues=QUEUES)
            held = take(store, queues=QUEUES, limit=10)
            assert None not in store.commit([decide(task, Done()) for task in held])
            assert {task.state for task in store.find(Filter(), None, 10).tasks} == {"complete"}

    def test_of_a_submit_that_a_reader_finishes(self, cluster: Cluster) -> None:
        claimed = 0
        for store, _ in deaths(
            cluster, 1, lambda store: None, lambda store, _: store.submit([new("a", "q")])
        ):
            assert isinstance(store, ClusterStore)
            [claim] = store._shards.claims.find(["a"])
            claimed += claim is not None
            assert (store.get(["a"])[0] is not None) == (claim is not None)
            listed = ids(store.find(Filter(), None, 10).tasks)
            assert listed == (["a"] if claim is not None else [])
        assert claimed > 2

    def test_of_a_purge(self, cluster: Cluster) -> None:
        def ended(store: Store) -> None:
            register(store, queues=QUEUES)
            fill(store, 2, id=None)
            submit(store, new("a"))
            held = take(store, queues=QUEUES, limit=10)
            store.commit([decide(task, Done()) for task in held])

        def purge(store: Store, _: None) -> None:
            store.purge(None, FINISHED, store.now() + 10, 10)

        for store, _ in deaths(cluster, 1, ended, purge):
            purge(store, None)
            assert store.find(Filter(), None, 10).tasks == ()
            [again] = store.submit([new("a", "r")])
            assert (again.fresh, again.purged, again.task.queue) == (False, True, "q")
            check_counts(store)

    def test_of_dropping_a_queue(self, cluster: Cluster) -> None:
        def drop(store: Store, _: None) -> None:
            store.drop_queue("q", 10)

        for store, _ in deaths(cluster, 1, lambda store: submit(store, new("a")), drop):
            if store.queues(["q"]):
                store.drop_queue("q", 10)
            assert store.get(["a"]) == [None]
            [again] = store.submit([new("a", "r")])
            assert (again.fresh, get(store, "a").queue) == (True, "r")

    def test_of_registering(self, cluster: Cluster) -> None:
        for store, _ in deaths(
            cluster, 1, lambda store: None, lambda store, _: register(store, queues=QUEUES)
        ):
            register(store, queues=QUEUES)
            names = fill(store, 1) + fill(store, 1, "r")
            assert ids(take(store, queues=QUEUES, limit=5)) == names
            beat(store, worker(queues=QUEUES), 2)
            assert [each.running for each in store.workers()] == [2]

    def test_of_taking_from_a_queue_that_is_no_home(self, cluster: Cluster) -> None:
        def prepare(store: Store) -> list[str]:
            register(store)
            return fill(store, 2, "r")

        for store, names in deaths(
            cluster, 1, prepare, lambda store, _: store.reserve("w", ["r"], 1, EVERYTHING)
        ):
            beat(store, "w", 2)
            beat(store, "w", 3)
            take(store, queues="r", limit=2)
            assert ids(store.holdings("w")) == names
            beat(store, "w", 4)

    def test_of_declaring_lost(self, cluster: Cluster) -> None:
        def prepare(store: Store) -> list[str]:
            register(store, "w", queues=QUEUES)
            register(store, "judge", queues=())
            register(store, "other", queues=())
            names = fill(store, 2) + fill(store, 2, "r")
            assert ids(take(store, queues=QUEUES, limit=4)) == names
            return names

        for store, names in deaths(
            cluster, 1, prepare, lambda store, _: store.declare_lost("judge", {"w": 1})
        ):
            lost = store.declare_lost("other", {"w": 1})
            assert sorted(ids(lost)) == sorted(names)
            worker_control.return_lost_tasks(store, lost)
            assert store.declare_lost("other", {}) == []
            with pytest.raises(LeaseLost):
                beat(store, "w", 2)
            with pytest.raises(LeaseLost):
                take(store, "w", QUEUES)
            register(store, "fresh", queues=QUEUES)
            assert ids(take(store, "fresh", QUEUES, 10)) == names

    def test_of_taking_leave(self, cluster: Cluster) -> None:
        def prepare(store: Store) -> list[str]:
            register(store, queues=QUEUES)
            names = fill(store, 1) + fill(store, 1, "r")
            take(store, queues=QUEUES, limit=2)
            return names

        for store, names in deaths(cluster, 1, prepare, lambda store, _: store.drop_worker("w", 1)):
            register(store, "judge", queues=())
            lost = store.declare_lost("judge", {"w": 1})
            assert sorted(ids(lost)) == sorted(names)

    def test_of_giving_a_schedule_another_queue(self, cluster: Cluster) -> None:
        def prepare(store: Store) -> float:
            store.put_schedule(schedule(task=new("-", "q"), next=store.now()))
            return store.now()

        def move(store: Store, due: float) -> None:
            store.put_schedule(schedule(task=new("-", "r"), next=due))

        for store, due in deaths(cluster, 1, prepare, move):
            # It is one schedule, in the old queue or in the new one, and ticks once.
            [seen] = store.schedules()
            assert store.due_schedules(9) == [seen]
            tick = firing(seen, last=due, next=due + 60, tasks=(new("tick", seen.task.queue),))
            assert store.fire(tick)
            assert not store.fire(tick)
            assert get(store, "tick").queue == seen.task.queue
            [kept] = store.schedules()
            assert (kept.last_task, kept.task.queue) == ("tick", seen.task.queue)
            assert store.due_schedules(9) == []

    def test_of_watching(self, cluster: Cluster) -> None:
        def prepare(store: Store) -> list[str]:
            return fill(store, 3) + fill(store, 3, "r")

        for store, names in deaths(cluster, 1, prepare, lambda store, _: store.watch(0, 0, 100)):
            events = store.watch(0, 0, 100)
            assert Counter(event.id for event in events) == Counter(names), "each once"
            assert [event.number for event in events] == sorted({e.number for e in events})


def test_a_schedule_is_in_the_shard_of_its_queue_only(cluster: Cluster) -> None:
    store = open_store(cluster.url())
    assert isinstance(store, ClusterStore)
    for queue in ("q", "r", "q"):
        store.put_schedule(schedule(task=new("-", queue)))
        homes = [name for name in store._shards.names() if store._shards.of(name).schedules()]
        assert homes == [queue]
    store.close()


def owner_of(cluster: Cluster, slot: int, asked: Sequence[Node] = ()) -> Node | None:
    """The primary that has a slot, if all see it so."""
    ports = {
        int(part[2][1])
        for node in asked or cluster.nodes
        for part in node.ask("CLUSTER", "SLOTS", password="")
        if int(part[0]) <= slot <= int(part[1])
    }
    found = [node for node in cluster.nodes if node.port in ports]
    return found[0] if len(found) == 1 else None


def move_slot(cluster: Cluster, slot: int, step: Callable[[], None]) -> None:
    """Key by key, as an operator's tool does it; something may be done in the midst of it."""
    source = owner_of(cluster, slot)
    assert source is not None
    primaries = {int(part[2][1]) for part in source.ask("CLUSTER", "SLOTS", password="")}
    target = next(n for n in cluster.nodes if n.port in primaries and n is not source)
    target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", id_of(source), password="")
    source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", id_of(target), password="")
    moved = 0
    while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 5, password=""):
        source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys, password="")
        moved += len(keys)
        if moved == len(keys):
            step()
    for node in (target, source):
        node.ask("CLUSTER", "SETSLOT", slot, "NODE", id_of(target), password="")
    until(lambda: owner_of(cluster, slot) is target, "for all to know the new owner")


def check_life(store: Store, life: Life) -> None:
    """All that was told is true, and nothing was done twice."""
    every = {task.id: task for task in store.find(Filter(), None, 1_000_000).tasks}
    assert set(life.submitted) <= set(every)
    assert {every[id].state for id in life.finished} == {"complete"}
    for task in every.values():
        events = [event.event for event in store.events(task.id)]
        assert events == ["pending", "reserved", "complete"][: len(events)]
        assert len(store.attempts(task.id)) == task.attempt <= 1
    check_counts(store)


def test_a_fork_does_not_wait_for_a_thread_of_its_parent(cluster: Cluster) -> None:
    """One that learns who has which slot may take its time, and is not there in the child."""
    store = open_store(cluster.url())
    assert isinstance(store, ClusterStore)
    submit(store, new("a"))
    with store._nodes._guard, store._shards._guard:
        if (pid := os.fork()) == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            found = store.get(["a"])
            os._exit(0 if found[0] is not None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert store.get(["a"])[0] is not None
    store.close()


def test_a_queue_may_have_the_name_that_the_registry_has_between_braces(cluster: Cluster) -> None:
    """It is another shard: else what it does would be counted twice."""
    begin = 1_700_000_040.0
    clock = Clock(begin)
    store = open_store(cluster.url(), clock=clock)
    fill(store, 3, REGISTRY_TAG)
    store.sample()
    clock.advance(60)
    store.sample()
    figures = store.figures(begin, begin + 120, 60, None)
    assert [(point.submitted, point.depth) for point in figures] == [(3, 3)]
    store.close()


def test_threads_that_remember_where_tasks_are_don_t_trip_over_each_other(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(cluster.url())
    assert isinstance(store, ClusterStore)
    shards = store._shards
    tasks = submit(store, *(new(str(number)) for number in range(5)))

    class Places(dict[str, str]):
        """In which another thread wants to write while one looks which is the oldest."""

        def __iter__(self) -> Iterator[str]:
            oldest = super().__iter__()
            other = threading.Thread(target=shards.remember, args=(tasks[3:],))
            other.start()
            other.join(0.2)
            return oldest

    monkeypatch.setattr("stayer.stores.redis_cluster.router._REMEMBERED_PLACES", 2)
    monkeypatch.setattr(shards, "_places", Places())
    shards.remember(tasks[:3])
    assert shards.places(["1"]) == {"1": "q"}
    store.close()


def test_a_node_that_dies_is_replaced_and_nothing_is_lost(replicated: Cluster) -> None:
    options = {"wait": 1, "wait_timeout": "500ms", "socket_timeout": 1, "socket_connect_timeout": 1}
    store = open_store(replicated.url(prefix="p", **options))
    store.setup()
    life = Life(store)
    busy = in_thread(life.live)
    until(lambda: len(life.finished) > 20, "for some tasks")
    slot = key_slot(b"p:{q}")
    old = owner_of(replicated, slot)
    assert old is not None
    old.signal(signal.SIGKILL)
    others = [node for node in replicated.nodes if node is not old]
    until(
        lambda: owner_of(replicated, slot, others) not in (None, old),
        "for its replica to take over",
    )
    old.start()  # as the replica that has to confirm
    seen = len(life.finished)
    until(lambda: len(life.finished) > seen + 20, "for some more tasks")
    life.stop = True
    busy()
    check_life(store, life)
    store.close()


def test_a_queue_that_moves_waits_and_goes_on(cluster: Cluster) -> None:
    store = open_store(cluster.url(prefix="moving"))
    life = Life(store)
    busy = in_thread(life.live)
    until(lambda: len(life.finished) > 50, "for some tasks")
    refused: list[str] = []

    def try_in_vain() -> None:
        other = open_store(cluster.url(prefix="moving"))
        for call in (lambda: take(other), lambda: fill(other, 1), lambda: other.queues(["q"])):
            with pytest.raises(Exception, match="moving this to another node") as error:
                call()
            refused.append(str(error.value))
        other.close()

    move_slot(cluster, key_slot(b"moving:{q}"), try_in_vain)
    assert len(refused) == 3
    seen = len(life.finished)
    until(lambda: len(life.finished) > seen + 50, "for some more tasks")
    life.stop = True
    busy()
    check_life(store, life)
    store.close()


def test_a_lost_message_is_made_up_for(cluster: Cluster) -> None:
    """As if the node had died with the message: only the mark is there."""
    store = open_store(cluster.url())
    waiter = store.waiter(None, QUEUES)
    fill(store, 1, "r")
    ear = waiter._ear  # type: ignore[attr-defined]
    while not any(line.read() for line in ear._lines):
        pass
    assert waiter.wait(3 * REPAIR_S)
    waiter.close()
    store.close()


class TestTheDoctor:
    def findings(self, cluster: Cluster, **options: object) -> dict[str, list[Finding]]:
        store = open_store(cluster.url(**options))
        assert isinstance(store, ClusterStore)
        found: dict[str, list[Finding]] = {}
        for finding in store.check():
            found.setdefault(finding.check, []).append(finding)
        store.close()
        return found

    def test_looks_at_all_nodes(self, cluster: Cluster) -> None:
        found = self.findings(cluster)
        assert list(found) == [
            "cluster", "replicas", "server", "memory", "persistence", "incoming"
        ]  # fmt: skip
        assert "all 16,384 slots" in found["cluster"][0].message
        assert "no replica" in found["replicas"][0].message
        assert [each.status for each in found["memory"]] == ["ok"]
        assert found["server"][0].message.startswith("all 3 nodes: ")

    def test_names_the_one_that_throws_tasks_away(self, cluster: Cluster) -> None:
        bad = cluster.nodes[1]
        bad.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru", password="")
        fine, warned = sorted(self.findings(cluster)["memory"], key=lambda each: each.status)
        bad.ask("CONFIG", "SET", "maxmemory-policy", "noeviction", password="")
        assert (fine.status, warned.status) == ("ok", "warn")
        assert warned.message.startswith(f"127.0.0.1:{bad.port}: maxmemory-policy")

    def test_wants_as_many_replicas_as_have_to_confirm(self, cluster: Cluster) -> None:
        failed = [each.status for each in self.findings(cluster, wait=1)["replicas"]]
        assert "fail" in failed

    def test_tells_of_what_was_of_no_use(self, cluster: Cluster) -> None:
        store = open_store(cluster.url(prefix="useless"))
        assert isinstance(store, ClusterStore)
        store._nodes.ask("useless:incoming", "LPUSH", "useless:incoming", "no JSON")
        store.promote(10)
        [found] = self.findings(cluster, prefix="useless")["incoming"]
        assert (found.status, "{useless:incoming}:refused" in (found.todo or "")) == ("warn", True)
        store.close()


def test_the_url_of_the_how_to_is_understood() -> None:
    [url] = re.findall(r"'(redis\+cluster://.*)'", text("how-to/choose-a-redis-topology.md"))
    assert open_store(url).url == "redis+cluster://a:6379,b:6379,c:6379?wait=1"


class TestRefusals:
    def test_a_node_is_no_single_server(self, cluster: Cluster) -> None:
        store = open_store(f"redis://127.0.0.1:{cluster.nodes[0].port}")
        with pytest.raises(StoreUnusable, match="redis\\+cluster://"):
            store.setup()

    def test_a_node_that_is_too_old(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert OLDEST == (7, 0)
        monkeypatch.setattr("stayer.stores.redis_cluster.OLDEST", (99, 1))
        store = open_store(cluster.url())
        with pytest.raises(StoreUnusable, match=r"clusters need 99\.1 or newer"):
            store.setup()
        store.close()

    @pytest.mark.parametrize(
        ("url", "said"),
        [
            ("redis+cluster://host/1", "one database"),
            ("redis+cluster://host:port", "'host:port' is no host"),
        ],
    )
    def test_a_bad_url_says_what_is_wrong(self, url: str, said: str) -> None:
        with pytest.raises(BadConfig, match=said):
            open_store(url)


def test_a_submitter_finds_those_that_took_over(replicated: Cluster) -> None:
    """Whom it asks next is a replica, which confirms nothing: it says who has its slots."""
    store = open_store(replicated.url(prefix="over", wait=1))
    patiently(store.setup)
    queue = next(name for name in "abcdefgh" if node_of(name) == 0)
    claims_at = 2  # where nothing else is asked
    names = (f"t{number}" for number in range(99))
    first, second, *_ = (id for id in names if node_of(f"over:claim:{id}") == claims_at)
    patiently(lambda: store.submit([new(first, queue)]))
    old, heir = (replicated.nodes[start + claims_at] for start in (0, 3))
    until(lambda: heir.ask("CLUSTER", "FAILOVER", password=""), "for a failover")
    until(
        lambda: old.ask("ROLE", password="")[0] == b"slave" and heir.ask("ROLE", password="")[2],
        "for the roles to change, while all connections stay",
    )
    patiently(lambda: store.submit([new(second, queue)]))
    assert {task.id for task in store.find(Filter(), None, 9).tasks} == {first, second}
    store.close()
