"""A queue of a cluster that can't be reached for a while holds up nothing but itself."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from redis.crc import key_slot

from stayer.client.listener import Listener
from stayer.core.errors import StoreUnreachable
from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.core.schedules.model import Schedule
from stayer.core.worker_model import EVERYTHING
from stayer.service.control import tasks as control
from stayer.service.upkeep import due_work
from stayer.stores import open_store
from stayer.stores.redis import pubsub
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.keys import REGISTRY_TAG
from stayer.stores.redis.pubsub import Line, RedisWaiter
from stayer.stores.redis_cluster import ClusterStore, event_relay
from stayer.stores.redis_cluster.fan_out import FanOut
from tests.contract.builders import (
    PATIENCE,
    Clock,
    apply,
    beat,
    get,
    ids,
    new,
    register,
    started,
    submit,
    take,
    worker,
)
from tests.servers.cluster import Cluster, clustered, id_of
from tests.servers.finding import redis_binary
from tests.servers.redis import free_port
from tests.servers.sentinel import until

QUEUES = ("a", "b", "c")
Away = Callable[[str], AbstractContextManager[None]]


@pytest.fixture
def now() -> Clock:
    return Clock()


@pytest.fixture
def store(cluster: Cluster, now: Clock) -> Iterator[ClusterStore]:
    store = open_store(cluster.url(), clock=now)
    assert isinstance(store, ClusterStore)
    register(store, queues=QUEUES)
    yield store
    store.close()


@pytest.fixture
def away(cluster: Cluster, store: ClusterStore) -> Away:
    """Lets a queue be on its way to another node."""

    @contextmanager
    def moving(queue: str) -> Iterator[None]:
        place = f"{store._nodes.options.prefix}:{{{queue}}}:nowhere"
        slot = key_slot(place.encode())
        owner = store._nodes.ask(place, "CLUSTER", "MYID").decode()
        source, target, *_ = sorted(cluster.nodes, key=lambda node: id_of(node) != owner)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", id_of(target), password="")
        try:
            with pytest.raises(StoreUnreachable, match="moving"):
                store.queues([queue])
            yield
        finally:
            source.ask("CLUSTER", "SETSLOT", slot, "STABLE", password="")

    return moving


def pass_on(store: ClusterStore) -> None:
    while store.promote(10) == 0.0:
        pass


def test_time_goes_on_elsewhere(store: ClusterStore, now: Clock, away: Away) -> None:
    submit(store, *(new(f"late in {queue}", queue, delay=5.0) for queue in QUEUES))
    with away("a"):
        now.advance(5)
        following = store.promote(10)
        assert following is not None
        assert following > now(), "it is not asked again and again"
        assert ids(take(store, queues=["b", "c"], limit=9)) == ["late in b", "late in c"]
    assert store.promote(10) is None
    assert ids(take(store, queues="a")) == ["late in a"]


def test_schedules_fire_elsewhere(store: ClusterStore, now: Clock, away: Away) -> None:
    for queue in QUEUES:
        task = new("tick", queue)
        store.put_schedule(Schedule(name=f"of {queue}", cron="* * * * *", task=task, next=now()))
    now.advance(60)
    with away("a"):
        assert sorted(due_work.fire(store)) == ["of b", "of c"]
        assert len(take(store, queues=["b", "c"], limit=9)) == 2
    assert due_work.fire(store) == ["of a"]


def test_notices_are_taken_elsewhere(store: ClusterStore, away: Away) -> None:
    hook = ("complete:https://example.com/",)
    for queue in QUEUES:
        apply(store, started(store, queue=queue, id=queue, notify=hook), Done())
    with away("a"):
        assert {each.task for each in store.take_notices([""], 9, 10.0, 10.0)} == {"b", "c"}
    assert [each.task for each in store.take_notices([""], 9, 10.0, 10.0)] == ["a"]


def test_what_is_old_is_forgotten_elsewhere(store: ClusterStore, now: Clock, away: Away) -> None:
    for queue in QUEUES:
        apply(store, started(store, queue=queue, id=queue), Done())
    now.advance(10)
    with away("a"):
        assert store.forget({"complete": 5.0}, 10) == 2
        assert store.sample() > 0
    assert store.forget({"complete": 5.0}, 10) == 1


def test_events_are_told_from_elsewhere(store: ClusterStore, away: Away) -> None:
    since = store.last_event()
    with away("a"):
        submit(store, new("x", "b"))
        assert [event.id for event in store.watch(since, 0, 9)] == ["x"]


def test_what_comes_in_for_others_is_taken(store: ClusterStore, now: Clock, away: Away) -> None:
    items = [{"id": queue, "queue": queue} for queue in QUEUES]
    name = f"{store._nodes.options.prefix}:incoming"
    store._nodes.ask(name, "LPUSH", name, *map(json.dumps, [*items, {"delete": "a"}]))
    with away("a"):
        following = store.promote(10)
        assert following is not None
        assert following > now(), "it is not asked again and again"
        assert ids(take(store, queues=["b", "c"], limit=9)) == ["b", "c"]
    store.promote(10)
    assert get(store, "a").state == "cancelled", "in the order in which they came"


def test_ends_are_heard_elsewhere(store: ClusterStore, away: Away) -> None:
    up = started(store, queue="c", id="up")
    submit(store, *(new(f"in {queue}", queue, after=("up",)) for queue in QUEUES))
    with away("a"):
        apply(store, up, Done())
        states = {id: get(store, id).state for id in ("in b", "in c")}
        assert states == {"in b": "pending", "in c": "pending"}
    pass_on(store)
    assert get(store, "in a").state == "pending"


def test_what_waits_for_several_hears_of_those_that_can_be_asked(
    store: ClusterStore, away: Away
) -> None:
    ups = [started(store, queue=queue, id=f"up {queue}") for queue in "ac"]
    submit(store, *(new(f"after {each.id}", "b", after=(each.id,)) for each in ups))
    for up in ups:  # told to those who have to be told, and by nobody passed on
        store._shards.of(up.queue).commit([decide(up, Done())])
        store._shards.server_of("b").run("look_again", up.id, 0)
    with away("a"):
        pass_on(store)
        assert get(store, "after up c").state == "pending"
        assert get(store, "after up a").state == "waiting"
    pass_on(store)
    assert get(store, "after up a").state == "pending"


def test_a_flow_that_has_to_wait_for_it_is_carried_out_later(
    store: ClusterStore, away: Away
) -> None:
    with away("a"):
        with pytest.raises(StoreUnreachable):
            store.submit([new("first", "a"), new("second", "b", after=("first",))])
        submit(store, new("late", "b", delay=0.0))
        store.promote(10)
        assert ids(take(store, queues="b", limit=9)) == ["late"]
    store.promote(10)
    assert [get(store, id).state for id in ("first", "second")] == ["pending", "waiting"]
    assert control.cancel(store, "first").state == "cancelled"


@pytest.fixture
def unheard(store: ClusterStore, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets the next answer get lost that a queue gives to who wants tasks."""

    def lose(queue: str) -> None:
        shard = store._shards.of(queue)
        for name in ("reserve", "turn"):
            monkeypatch.setattr(shard, name, losing(getattr(shard, name)))

    def losing(ask: Callable[..., Any]) -> Callable[..., Any]:
        def ask_in_vain(*given: Any) -> Any:
            monkeypatch.undo()
            ask(*given)
            raise StoreUnreachable("no answer in time")

        return ask_in_vain

    return lose


def test_who_was_given_something_in_a_lost_answer_is_told_to_look(
    store: ClusterStore, unheard: Callable[[str], None]
) -> None:
    """Others did answer: without an error nobody would look before a lease is over."""
    submit(store, new("lost", "a"), new("heard", "b"))
    unheard("a")
    assert ids(take(store, queues=QUEUES, limit=9)) == ["heard"]
    with pytest.raises(StoreUnreachable, match="answers again for a"):
        take(store, queues=QUEUES, limit=9)
    assert sorted(ids(store.holdings("w"))) == ["heard", "lost"]
    assert take(store, queues=QUEUES, limit=9) == [], "it is told once"


def test_the_same_after_a_turn(store: ClusterStore, unheard: Callable[[str], None]) -> None:
    task = started(store, queue="b")
    submit(store, new("lost", "a"))
    unheard("a")
    done = [decide(task, Done())]
    assert store.turn("w", done, QUEUES, 9, EVERYTHING) == ([True], [])
    assert store.turn("w", [], QUEUES, 0, EVERYTHING) == ([], []), "who wants none need not know"
    with pytest.raises(StoreUnreachable, match="answers again for a"):
        store.turn("w", [], QUEUES, 9, EVERYTHING)
    assert store.turn("w", [], QUEUES, 9, EVERYTHING) == ([], [])


def test_a_queue_that_is_still_away_is_no_reason_to_look(store: ClusterStore, away: Away) -> None:
    submit(store, new("x", "b"))
    with away("a"):
        assert ids(take(store, queues=QUEUES)) == ["x"]
        assert take(store, queues=QUEUES) == []
    with pytest.raises(StoreUnreachable, match="answers again"):
        take(store, queues=QUEUES)


def test_a_listener_is_given_what_got_lost(
    store: ClusterStore, unheard: Callable[[str], None]
) -> None:
    """As long as it beats nobody else is."""
    submit(store, new("lost", "a"))
    with Listener(store, QUEUES, lease=60.0, handles=EVERYTHING, node="n") as listener:
        unheard("a")
        assert listener.listen(timeout=0) is None
        with pytest.raises(StoreUnreachable, match="answers again"):
            listener.listen(timeout=0)
        found = listener.listen(timeout=0)
        assert found is not None
        assert (found.id, found.attempt) == ("lost", 1)


def test_who_could_not_listen_to_a_node_does_when_it_is_back(
    store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also to one that is back so soon that nobody has missed its marks."""
    waiter = store.waiter(None, QUEUES)
    assert isinstance(waiter, RedisWaiter)
    missed = store._shards.server_of("a").node()

    def subscribed(server: Server, questions: Sequence[Sequence[str]]) -> Line:
        if server is missed:
            raise StoreUnreachable("it is away")
        return pubsub.subscribe(server, questions)

    with monkeypatch.context() as patch:
        patch.setattr(event_relay, "subscribe", subscribed)
        waiter._ear._disconnect()
        assert waiter.wait(0), "something may have come meanwhile"
    monkeypatch.setattr(pubsub, "REPAIR_S", 0.0)
    assert not waiter.wait(0), "it has looked, and found nothing"
    monkeypatch.setattr(pubsub, "REPAIR_S", PATIENCE)
    submit(store, new("x", "a"))
    assert waiter.wait(5.0)
    waiter.close()


def test_another_node_is_asked_each_time(cluster: Cluster) -> None:
    """One that is cut off from the others says what was true before, and would say it again."""
    store = open_store(cluster.url())
    assert isinstance(store, ClusterStore)
    asked = set()
    for _ in cluster.nodes:
        store._nodes.forget()
        store.queues()
        asked.add(store._nodes._last_asked[-1])
    assert asked == {("127.0.0.1", node.port) for node in cluster.nodes}
    store.close()


def test_that_all_are_gone_is_said_shortly_and_in_the_same_words() -> None:
    ports = sorted(free_port() for _ in range(3))
    hosts = [f"127.0.0.1:{port}" for port in ports]
    store = open_store(f"redis+cluster://{','.join(hosts)}")
    said = set()
    for _ in range(4):
        with pytest.raises(StoreUnreachable, match=f"reached \\({', '.join(hosts)}: ") as gone:
            store.queues()
        said.add(str(gone.value))
    assert len(said) == 1, "so that a worker tells it once"
    assert said.pop().count("redis+cluster://") == 1
    store.close()


def test_a_node_that_knows_of_no_others_is_not_believed() -> None:
    with clustered(redis_binary(), replicas=0) as cluster:
        for node in cluster.nodes:
            node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no", password="")
        alone, *others = cluster.nodes
        for node in others:
            alone.ask("CLUSTER", "FORGET", id_of(node), password="")
        slots = alone.ask("CLUSTER", "SLOTS", password="")
        assert len(slots) == 1, "it knows of itself only"
        store = open_store(cluster.url())
        assert [len(submit(store, new(queue=queue))) for queue in "abcdef"] == [1] * 6
        until(lambda: len(store.queues()) == 6, "for all queues")
        store.close()


def test_what_a_failover_lost_of_who_is_where_is_written_down_again(
    cluster: Cluster, store: ClusterStore, now: Clock
) -> None:
    # Given a node in the place of one that had been told of a queue and of a home
    submit(store, new(queue="a", delay=5.0))
    prefix = store._nodes.options.prefix
    for name in (f"{prefix}:{{{REGISTRY_TAG}}}:shards", f"{prefix}:{{{REGISTRY_TAG}}}:homes:w"):
        assert store._nodes.ask(name, "DEL", name) == 1
    store._nodes.forget()

    # When those who knew go on
    submit(store, new("late", queue="a", delay=5.0))
    beat(store, worker(queues=QUEUES), 2)

    # Then everybody knows
    other = open_store(cluster.url(prefix=prefix), clock=now)
    assert [queue.name for queue in other.queues()] == ["a"]
    now.advance(5)
    assert other.promote(10) is None
    assert len(take(store, queues="a", limit=9)) == 2
    register(other, "judge")
    assert len(other.declare_lost("judge", {"w": 2})) == 2
    other.close()


def test_who_is_where_is_confirmed_by_replicas(cluster: Cluster) -> None:
    store = open_store(cluster.url(wait=1, wait_timeout="50ms"))
    assert isinstance(store, ClusterStore)
    with pytest.raises(StoreUnreachable, match=r"0 of 1 replicas confirmed a step"):
        submit(store, new())
    store.close()


def test_a_node_that_hangs_is_waited_for_once_not_for_each_of_its_queues() -> None:
    with clustered(redis_binary(), replicas=0) as cluster:
        store = open_store(cluster.url(socket_timeout=2))
        assert isinstance(store, ClusterStore)
        names = [f"queue {number}" for number in range(30)]
        submit(store, *(new(queue=name) for name in names))
        nodes = {name: store._shards.server_of(name).node() for name in names}
        prefix = store._nodes.options.prefix
        needed = store._nodes.server_of(f"{prefix}:{{{REGISTRY_TAG}}}:shards")
        ports = {store._nodes.at_host(("127.0.0.1", node.port)): node for node in cluster.nodes}
        hung = next(server for server in ports if server is not needed)
        there = [name for name in names if nodes[name] is not hung]
        assert len(there) < len(names) - 1, "it has several"
        ports[hung].signal(signal.SIGSTOP)
        fan_out = FanOut(store._shards)
        found = [info.name for infos in fan_out.all(lambda shard: shard.queues()) for info in infos]
        ports[hung].signal(signal.SIGCONT)
        assert (sorted(found), fan_out.misses, fan_out.is_slow) == (sorted(there), 1, True)
        store.close()
