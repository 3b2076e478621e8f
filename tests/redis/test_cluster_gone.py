"""A node of a cluster without replicas is gone for long: what its living nodes still do."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from time import monotonic

import pytest

from stayer.client.listener import Listener
from stayer.core.errors import LeaseLost, StoreUnreachable
from stayer.core.happenings import Done
from stayer.core.ids import generate
from stayer.core.model import NewTask, Progress, Report
from stayer.core.worker_model import EVERYTHING
from stayer.service.control import tasks as control
from stayer.service.control import waits
from stayer.service.control import workers as worker_control
from stayer.service.explain import explain
from stayer.store import known_workers
from stayer.stores import open_store
from stayer.stores.redis.keys import REGISTRY_TAG
from stayer.stores.redis_cluster import ClusterStore
from tests.contract.builders import (
    apply,
    beat,
    get,
    ids,
    new,
    register,
    started,
    submit,
    take,
    taken,
    worker,
)
from tests.servers.cluster import Cluster, killable, node_of
from tests.servers.sentinel import until

QUEUES = ("a", "b", "c")
"""Each on another node."""


AT_THE_REGISTRY = next(queue for queue in QUEUES if node_of(queue) == node_of(REGISTRY_TAG))
ELSEWHERE, ELSEWHERE_TOO = (queue for queue in QUEUES if queue != AT_THE_REGISTRY)
Gone = Callable[[str], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with killable() as cluster:
        yield cluster


@pytest.fixture
def gone(cluster: Cluster) -> Gone:
    """Kills the node of a queue for a while."""

    @contextmanager
    def killed(tag: str) -> Iterator[None]:
        node = cluster.nodes[node_of(tag)]
        node.signal(signal.SIGKILL)
        try:
            yield
        finally:
            node.start()
            until(lambda: b"cluster_state:ok" in node.ask("CLUSTER", "INFO", password=""), "for it")

    return killed


@pytest.fixture
def store(cluster: Cluster) -> Iterator[ClusterStore]:
    store = open_store(cluster.url())
    assert isinstance(store, ClusterStore)
    yield store
    store.close()


@contextmanager
def newcomer(cluster: Cluster, store: ClusterStore) -> Iterator[ClusterStore]:
    """The same store for somebody who knows nothing yet."""
    other = open_store(cluster.url(prefix=store._nodes.options.prefix))
    assert isinstance(other, ClusterStore)
    yield other
    other.close()


def id_claimed_at(tag: str, store: ClusterStore) -> str:
    """An id whose claim is on the node of the queue."""
    prefix = store._nodes.options.prefix
    drawn = (generate() for _ in range(1000))
    return next(id for id in drawn if node_of(f"{prefix}:claim:{id}") == node_of(tag))


class TestOtherQueues:
    @pytest.fixture(params=[AT_THE_REGISTRY, ELSEWHERE], ids=["that of the registry", "another"])
    def dead(self, request: pytest.FixtureRequest) -> str:
        """The queue whose node is away."""
        return str(request.param)

    def test_are_beaten_taken_from_and_committed_to(
        self, store: ClusterStore, gone: Gone, dead: str
    ) -> None:
        me = register(store, queues=QUEUES)
        running = {queue: started(store, queue=queue) for queue in QUEUES}
        news = [Report(id=each.id, attempt=1, progress=Progress(1, 2)) for each in running.values()]
        living = [queue for queue in QUEUES if queue != dead]
        with gone(dead):
            answer = beat(store, me, 2, *news)
            assert (answer.away, answer.undelivered) == ((dead,), (running[dead].id,))
            proven = None if dead != AT_THE_REGISTRY else tuple(living)
            assert answer.proven == proven
            for queue in living:
                drawn = NewTask(id=generate(), queue=queue, generated=True)
                [accepted] = submit(store, drawn)
                assert ids(take(store, queues=QUEUES)) == [accepted.id]
                apply(store, running[queue], Done())
            assert set(ids(store.holdings("w", living))).isdisjoint(
                each.id for each in running.values()
            )
        answer = beat(store, me, 3, *news)
        assert (answer.away, answer.undelivered, answer.proven) == ((), (), None)
        assert get(store, running[dead].id).progress is not None
        apply(store, running[dead], Done())

    def test_are_seen_by_who_comes_now(
        self, cluster: Cluster, store: ClusterStore, gone: Gone, dead: str
    ) -> None:
        register(store, queues=QUEUES)
        identity = store.identity()
        for queue in QUEUES:
            submit(store, new(queue=queue))
        living = tuple(queue for queue in QUEUES if queue != dead)
        with gone(dead), newcomer(cluster, store) as other:
            other.setup()
            assert other.reach(()).queues == living
            assert [queue.name for queue in other.queues(living)] == list(living)
            assert [each.id for each in known_workers(other)] == ["w"]
            assert other.identity() == identity
            assert other.now() > 0
            assert other.promote(10) is not None, "it looks again"
            assert other.sample() > 0
            with closing(other.waiter("w", QUEUES)) as waiter:
                assert not waiter.wait(0)
            for queue in living:
                submit(other, NewTask(id=generate(), queue=queue, generated=True))

    def test_wake_up_who_waits(self, store: ClusterStore, gone: Gone, dead: str) -> None:
        register(store, queues=QUEUES)
        [living, *_] = [queue for queue in QUEUES if queue != dead]
        waiter = store.waiter("w", QUEUES)
        with gone(dead):
            while waiter.wait(0.2):
                pass  # the connection that broke is news
            submit(store, NewTask(id=generate(), queue=living, generated=True))
            assert waiter.wait(60)
        waiter.close()


class TestIds:
    def test_a_task_is_found_though_its_claim_can_t_be_asked_for(
        self, cluster: Cluster, store: ClusterStore, gone: Gone
    ) -> None:
        register(store, queues=QUEUES)
        id = id_claimed_at(ELSEWHERE, store)
        task = started(store, queue=ELSEWHERE_TOO, id=id)
        [waiting] = submit(store, new(queue=ELSEWHERE_TOO))
        submit(store, new(queue=ELSEWHERE))
        with gone(ELSEWHERE), newcomer(cluster, store) as other:
            assert get(other, id).state == "started"
            assert other.events(id)
            assert explain(other, id).state == "started"
            assert explain(other, waiting.id).state == "pending"
            assert control.cancel(other, id).cancel_wanted
            with pytest.raises(StoreUnreachable):
                get(other, id_claimed_at(ELSEWHERE, store))
        assert get(store, task.id).cancel_wanted

    def test_one_that_was_chosen_waits_for_the_node_of_its_claim(
        self, store: ClusterStore, gone: Gone
    ) -> None:
        submit(store, new(queue=ELSEWHERE_TOO))
        chosen = new(id_claimed_at(ELSEWHERE, store), queue=ELSEWHERE_TOO)
        with gone(ELSEWHERE), pytest.raises(StoreUnreachable):
            submit(store, chosen)
        submit(store, chosen)

    def test_those_that_were_drawn_are_drawn_again(self, store: ClusterStore, gone: Gone) -> None:
        submit(store, new(queue=ELSEWHERE_TOO))
        id = id_claimed_at(ELSEWHERE, store)
        with gone(ELSEWHERE):
            [task] = submit(store, NewTask(id=id, queue=ELSEWHERE_TOO, generated=True))
            assert task.id != id
            assert get(store, task.id).queue == ELSEWHERE_TOO

    def test_an_end_is_waited_for_where_no_events_are_told(
        self, store: ClusterStore, gone: Gone
    ) -> None:
        [queue, *_] = [each for each in QUEUES if node_of(each) != node_of("news")]
        register(store, queues=QUEUES)
        [task] = [started(store, queue=queue, id=id_claimed_at(queue, store))]
        with gone("news"):
            assert list(waits.wait(store, [task.id], 0.0)) == []
            apply(store, task, Done())
            assert ids(list(waits.wait(store, [task.id], 60.0))) == [task.id]


class TestDeclaringLost:
    def test_of_one_that_beat_without_the_registry_waits_for_its_lease(
        self, store: ClusterStore, gone: Gone, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Given a worker whose last beats were heard by the queue of its task only
        me = register(store, queues=[ELSEWHERE], lease=100.0)
        register(store, "judge", queues=[ELSEWHERE])
        task = taken(store, queue=ELSEWHERE)
        with gone(REGISTRY_TAG):
            assert beat(store, me, 2).proven == (ELSEWHERE,)
            assert beat(store, me, 3).proven == (ELSEWHERE,)

        # When it is judged by what the registry shard knows
        assert store.declare_lost("judge", {"w": 1}) == []

        # Then it may take and beat no more, but holds what it holds
        with pytest.raises(LeaseLost):
            beat(store, me, 4)
        with pytest.raises(LeaseLost):
            take(store, queues=ELSEWHERE)
        assert store.declare_lost("judge", {}) == []
        assert ids(store.holdings("w", [ELSEWHERE])) == [task.id]

        # Until its lease is over
        later = monotonic() + 113.0
        monkeypatch.setattr("stayer.stores.redis_cluster.workers.monotonic", lambda: later)
        assert ids(store.declare_lost("judge", {})) == [task.id]

    def test_of_one_that_was_heard_again_does_not(self, store: ClusterStore, gone: Gone) -> None:
        me = register(store, queues=[ELSEWHERE])
        register(store, "judge", queues=[ELSEWHERE])
        task = taken(store, queue=ELSEWHERE)
        with gone(REGISTRY_TAG):
            beat(store, me, 2)
        beat(store, me, 3)
        assert store.declare_lost("judge", {"w": 1}) == [], "it lives"
        assert ids(store.declare_lost("judge", {"w": 3})) == [task.id]

    def test_goes_on_where_a_queue_was_away(self, store: ClusterStore, gone: Gone) -> None:
        register(store, queues=QUEUES)
        register(store, "judge", queues=QUEUES)
        held = {queue: taken(store, queue=queue).id for queue in QUEUES}
        with gone(ELSEWHERE):
            lost = store.declare_lost("judge", {"w": 1})
            assert set(ids(lost)) == {held[AT_THE_REGISTRY], held[ELSEWHERE_TOO]}
            worker_control.return_lost_tasks(store, lost)
        assert ids(store.declare_lost("judge", {})) == [held[ELSEWHERE]]

    def test_is_not_undone_by_a_beat_without_the_registry(
        self, store: ClusterStore, gone: Gone
    ) -> None:
        me = register(store, queues=[ELSEWHERE])
        register(store, "judge", queues=[ELSEWHERE])
        worker_control.return_lost_tasks(store, store.declare_lost("judge", {"w": 1}))
        with gone(REGISTRY_TAG), pytest.raises(StoreUnreachable):
            beat(store, me, 2)


def test_nobody_begins_while_the_registry_is_away(store: ClusterStore, gone: Gone) -> None:
    submit(store, new(queue=ELSEWHERE))
    with gone(REGISTRY_TAG):
        with pytest.raises(StoreUnreachable):
            register(store, queues=[ELSEWHERE])
        with pytest.raises(StoreUnreachable):
            submit(store, NewTask(id=generate(), queue="a new one", generated=True))
    register(store, queues=[ELSEWHERE])
    assert len(take(store, queues=ELSEWHERE)) == 1


def test_a_beat_without_the_registry_is_good_only_where_it_was_heard(
    store: ClusterStore, gone: Gone
) -> None:
    me = register(store, queues=[ELSEWHERE])
    with gone(REGISTRY_TAG):
        answer = beat(store, worker(queues=(ELSEWHERE, ELSEWHERE_TOO)), 2)
        assert answer.proven == (ELSEWHERE,), "it was never introduced to the other"
    assert beat(store, me, 3).proven is None


class TestTheDoctor:
    def test_names_the_node_and_its_slots(
        self, cluster: Cluster, store: ClusterStore, gone: Gone
    ) -> None:
        submit(store, new(queue=ELSEWHERE))
        with gone(ELSEWHERE):
            found = store.check()
        port = cluster.nodes[node_of(ELSEWHERE)].port
        failed = {each.check: each.message for each in found if each.status == "fail"}
        assert f"of 127.0.0.1:{port}" in failed["cluster"]
        assert f"127.0.0.1:{port}: does not answer" in failed["server"]

    def test_says_what_depends_on_the_registry(self, store: ClusterStore, gone: Gone) -> None:
        submit(store, new(queue=ELSEWHERE))
        with gone(REGISTRY_TAG):
            said = " ".join(each.message for each in store.check())
        assert "none can begin" in said


def test_a_listener_that_has_to_compare_goes_on_with_the_other_queues(
    store: ClusterStore, gone: Gone
) -> None:
    """As it does after each error and each thousandth task."""
    with Listener(store, QUEUES, lease=60.0, handles=EVERYTHING, node="n") as listener:
        submit(store, new("a task that it has", ELSEWHERE))
        held = listener.listen(timeout=9)
        assert held is not None
        with gone(ELSEWHERE):
            submit(store, NewTask(id=generate(), queue=ELSEWHERE_TOO, generated=True))
            listener._unsure = True
            found = listener.listen(timeout=9)
            assert found is not None
            assert found.queue == ELSEWHERE_TOO
        with pytest.raises(StoreUnreachable, match="answers again"):
            listener.listen(timeout=9)
        assert listener.listen(timeout=0) is None, "what it was given it is not given twice"
