"""Tasks that come all or none on a cluster: unique words, and plans that take long."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stayer.core.errors import Refused
from stayer.core.flows.model import NewFlow, Part
from stayer.core.model import Filter, NewTask
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.redis_cluster import ClusterStore, two_phase
from tests.contract.builders import check_counts, ids, new
from tests.contract.test_flows import pass_on
from tests.redis.dying import Slow, deaths, interruptions
from tests.redis.test_cluster_flows import check_nothing_is_left_to_do
from tests.servers.cluster import Cluster

FLOW = NewFlow(id="f", name="f", parts=(Part(name="all", queue="q", tasks=3),))


def tasks(**fields: str) -> list[NewTask]:
    places = zip("abc", "qrs", strict=True)
    return [new(id, queue, flow="f", part="all", **fields) for id, queue in places]


def submit_flow(store: Store) -> bool:
    return store.submit_flow(FLOW, tasks(unique="word"))


class TestAUniqueWord:
    """Of a flow whose submitter died between any two steps."""

    @pytest.fixture(autouse=True)
    def hurry(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who is dead needs no patience."""
        monkeypatch.setattr(two_phase, "PLAN_PATIENCE_S", 0.0)
        monkeypatch.setattr(two_phase, "PLAN_ABANDONED_S", 0.0)

    @pytest.mark.parametrize("promoted", [True, False])
    def test_is_the_flows_or_free(self, cluster: Cluster, promoted: bool) -> None:
        seen: set[bool] = set()
        for store, _ in deaths(cluster, 2, lambda store: None, lambda store, _: submit_flow(store)):
            if promoted:
                pass_on(store)
            [answer] = store.submit([new("x", "r", unique="word")])
            assert answer.task.id == ("x" if answer.fresh else "b")
            assert (store.flow("f") is None) == answer.fresh
            if answer.fresh:
                with pytest.raises(Refused, match="unique"):
                    submit_flow(store)
            pass_on(store)
            assert sorted(ids(store.find(Filter(), None, 9).tasks)) == (
                ["x"] if answer.fresh else ["a", "b", "c"]
            )
            check_counts(store)
            check_nothing_is_left_to_do(store)
            seen.add(answer.fresh)
        assert seen == {True, False}


class Time:
    """In the place of the module: passes only when told."""

    def __init__(self, on_sleep: Callable[[], None] = lambda: None) -> None:
        self.now = 1000.0
        self._on_sleep = on_sleep

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self._on_sleep()


class TestAPlanThatTakesLong:
    """As that of very many tasks does; but it shows signs of life."""

    @pytest.fixture(autouse=True)
    def small_steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(two_phase, "_TASKS_AT_ONCE", 1)

    def test_is_not_undone_by_who_promotes(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        time = Time()
        monkeypatch.setattr(two_phase, "time", time)
        url = cluster.url()
        other = open_store(url)

        def meanwhile() -> None:
            time.now += 0.3 * two_phase.PLAN_ABANDONED_S
            other.promote(10)

        slow = Slow(url, meanwhile)
        begun = time.now
        assert slow.store.submit_flow(FLOW, tasks())
        assert time.now - begun > 2 * two_phase.PLAN_ABANDONED_S
        assert ids(other.find(Filter(), None, 9).tasks) == ["c", "b", "a"]
        other.promote(10)
        check_nothing_is_left_to_do(other)
        slow.store.close()
        other.close()

    def test_is_waited_for_by_who_submits_the_same(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Given a flow that somebody submits
        url = cluster.url()
        first, second = open_store(url), open_store(url)
        assert isinstance(first, ClusterStore)
        ours = first._shards.plans
        first._shards.add("qrs")
        plan = ours._lay(["a", "b", "c"], FLOW)
        left = tasks()

        def go_on() -> None:
            time.now += 0.6 * two_phase.PLAN_PATIENCE_S
            if left:
                assert ours._claim([left.pop(0)], plan) == {}
            else:
                ours._decide(plan, "go")

        # When another submits it meanwhile
        time = Time(go_on)
        monkeypatch.setattr(two_phase, "time", time)
        assert not second.submit_flow(FLOW, tasks())

        # Then it is the first one's that is there
        assert time.now - 1000.0 > 2 * two_phase.PLAN_PATIENCE_S
        assert ids(second.find(Filter(), None, 9).tasks) == ["c", "b", "a"]
        check_nothing_is_left_to_do(second)
        first.close()
        second.close()


def test_what_is_deleted_before_its_submitter_has_looked_does_not_come_back(
    cluster: Cluster,
) -> None:
    deleted: list[str] = []

    def drop(store: Store) -> None:
        there = ids(store.find(Filter(queues=("r",)), None, 9).tasks)
        if there:
            store.drop_queue("r", 9)
        deleted.extend(there)

    times = 0
    for store in interruptions(
        cluster,
        1,
        lambda store: deleted.clear(),
        lambda store: store.submit_flow(FLOW, tasks()),
        drop,
    ):
        found = ids(store.find(Filter(), None, 9).tasks)
        assert sorted([*found, *deleted]) == ["a", "b", "c"]
        check_counts(store)
        times += len(deleted)
    assert times > 1
