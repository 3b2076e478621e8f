"""Flows on a cluster, whose tasks are on several nodes: what holds when somebody dies."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest

from stayer.core.errors import Refused
from stayer.core.flows.model import NewFlow, Part
from stayer.core.happenings import Done, Fail
from stayer.core.lifecycle import decide
from stayer.core.model import FINISHED, Fault, Filter, NewTask, Policy
from stayer.service.control import flows as flow_control
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.redis_cluster import ClusterStore, two_phase
from tests.contract.builders import (
    check_counts,
    get,
    happened,
    ids,
    in_thread,
    new,
    register,
    submit,
    take,
    take_one,
)
from tests.contract.test_flows import after, pass_on, states
from tests.redis.dying import deaths, interruptions
from tests.servers.cluster import Cluster

QUEUES = ("q", "r", "s")
FLOW = NewFlow(id="f", name="f", parts=(Part(name="all", queue="q", tasks=4),))
NAMES = ["a", "b", "c", "d"]


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is dead needs no patience."""
    monkeypatch.setattr(two_phase, "PLAN_PATIENCE_S", 0.0)
    monkeypatch.setattr(two_phase, "PLAN_ABANDONED_S", 0.0)


@pytest.fixture(params=[7, pytest.param(1, marks=pytest.mark.long)])
def stride(request: pytest.FixtureRequest) -> int:
    """After how many requests more the next one dies: the long tests try them all."""
    return int(request.param)


def part(id: str, queue: str, *upstreams: str, **fields: object) -> NewTask:
    return new(id, queue=queue, after=upstreams, flow="f", part="all", **fields)


def tasks() -> list[NewTask]:
    """a → b → c over three queues, and d beside them."""
    return [part("a", "q"), part("b", "r", "a"), part("c", "s", "b"), part("d", "r")]


def with_flow(store: Store) -> None:
    register(store, queues=QUEUES)
    assert store.submit_flow(FLOW, tasks())


def run_to_its_end(store: Store) -> list[str]:
    """In which order its tasks were taken."""
    order: list[str] = []
    pass_on(store)
    while taken := take(store, queues=QUEUES, limit=10):
        order += ids(taken)
        assert None not in store.commit([decide(task, Done()) for task in taken])
        pass_on(store)
    return order


def check_nothing_is_left_to_do(store: Store) -> None:
    """No notes, plans or promises, and nobody listens to or waits for what is gone."""
    assert isinstance(store, ClusterStore)
    prefix = store._nodes.options.prefix
    found = [
        name.decode()
        for server in store._nodes.primaries()
        for name in server.ask("KEYS", f"{prefix}:*")
    ]
    for word in ("outbox", "afar", "plan", "plans", "promised", "waits", "waiters", "asked"):
        assert not [name for name in found if f":{word}" in name], word
    for word in ("listeners", "dependents"):
        upstreams = {name.rpartition(":")[2] for name in found if f":{word}:" in name}
        assert None not in store.get(sorted(upstreams)), word


class TestADeathBetweenAnyTwoSteps:
    def test_of_submitting_a_flow(self, cluster: Cluster, stride: int) -> None:
        whole = none = 0
        for store, _ in deaths(
            cluster, stride, lambda store: None, lambda store, _: store.submit_flow(FLOW, tasks())
        ):
            # Given what a worker could take before anybody has repaired anything
            register(store, queues=QUEUES)
            early = ids(take(store, queues=QUEUES, limit=10))

            # Then all of it comes, or none
            pass_on(store)
            there = [task is not None for task in store.get(NAMES)]
            assert all(there) or not any(there)
            assert (store.flow("f") is not None) == all(there)
            assert all(there) or not early
            whole, none = whole + all(there), none + (not any(there))
            assert [flow.id for flow in store.flows(None, 9).flows] == (["f"] if all(there) else [])
            assert sorted(ids(store.find(Filter(), None, 9).tasks)) == (NAMES if all(there) else [])
            check_counts(store)

            # And it can be submitted again, and runs
            assert store.submit_flow(FLOW, tasks()) == (not all(there))
            held = store.holdings("w")
            assert None not in store.commit([decide(task, Done()) for task in held])
            order = ids(held) + run_to_its_end(store)
            assert sorted(order) == NAMES
            assert order.index("a") < order.index("b") < order.index("c")
            flow = flow_control.get(store, "f")
            assert (flow.state, flow.totals["complete"]) == ("complete", 4)
            check_counts(store)
            check_nothing_is_left_to_do(store)
        assert whole
        assert none

    def test_of_submitting_a_flow_before_another_wants_its_ids(
        self, cluster: Cluster, stride: int
    ) -> None:
        for store, _ in deaths(
            cluster, stride, lambda store: None, lambda store, _: store.submit_flow(FLOW, tasks())
        ):
            # Nobody promotes: who needs the ids, or reads one, sees to it.
            [answer] = store.submit([new("b", "q")])
            if answer.fresh:
                assert store.flow("f") is None
                with pytest.raises(Refused, match="in use"):
                    store.submit_flow(FLOW, tasks())
                assert states(store, "a") == ["cancelled"], "it is not there"
            else:
                assert get(store, "b").queue == "r"
                assert None not in store.get(NAMES)
            check_counts(store)

    def test_of_submitting_what_runs_after_others(self, cluster: Cluster, stride: int) -> None:
        def prepare(store: Store) -> None:
            register(store, queues=QUEUES)
            submit(store, new("x"), new("y", "r"))
            store.commit([decide(take_one(store), Done())])

        for store, _ in deaths(
            cluster,
            stride,
            prepare,
            lambda store, _: store.submit([after("b", "x", "y", queue="s"), after("c", "b")]),
        ):
            pass_on(store)
            [*again] = store.submit([after("b", "x", "y", queue="s"), after("c", "b")])
            assert states(store, "b", "c") == ["waiting", "waiting"]
            assert again[0].fresh == again[1].fresh
            assert store.waits("b", 9) == (["y"], 1)
            assert sorted(run_to_its_end(store)) == ["b", "c", "y"]
            check_nothing_is_left_to_do(store)

    def test_of_an_end_that_others_wait_for(self, cluster: Cluster, stride: int) -> None:
        def prepare(store: Store) -> None:
            register(store, queues=QUEUES)
            far = [after(f"{queue}{n}", "a", queue=queue) for queue in QUEUES for n in range(2)]
            submit(store, new("a"), *far, after("join", *(task.id for task in far), queue="s"))

        def end(store: Store, _: None) -> None:
            store.commit([decide(take_one(store), Done())])

        for store, _ in deaths(cluster, stride, prepare, end):
            for task in store.holdings("w"):
                store.commit([decide(task, Done())])
            assert sorted(run_to_its_end(store)) in (
                ["join", "q0", "q1", "r0", "r1", "s0", "s1"],
                ["a", "join", "q0", "q1", "r0", "r1", "s0", "s1"],
            )
            for id in ("q0", "q1", "r0", "r1", "s0", "s1", "join"):
                events = ["waiting", "pending", "reserved", "complete"]
                assert happened(store.events(id)) == events, "each once"
            check_counts(store)
            check_nothing_is_left_to_do(store)

    def test_of_a_failure_that_goes_through_all(self, cluster: Cluster, stride: int) -> None:
        def fail(store: Store, _: None) -> None:
            taken = take(store, queues=QUEUES, limit=1)
            store.commit([decide(task, Fail(Fault("Boom"))) for task in taken])

        for store, _ in deaths(cluster, stride, with_flow, fail):
            for task in store.holdings("w"):
                store.commit([decide(task, Fail(Fault("Boom")))])
            pass_on(store)
            if states(store, "a") == ["pending"]:
                continue
            assert states(store, "a", "b", "c") == ["failed", "cancelled", "cancelled"]
            assert happened(store.events("c")) == ["waiting", "cancelled"]

            # And with a retry it goes on from there
            assert flow_control.retry(store, "f") == 3
            assert sorted(run_to_its_end(store)) == NAMES
            check_nothing_is_left_to_do(store)

    def test_of_cancelling_a_flow(self, cluster: Cluster, stride: int) -> None:
        for store, _ in deaths(
            cluster, stride, with_flow, lambda store, _: flow_control.cancel(store, "f")
        ):
            flow_control.cancel(store, "f")
            pass_on(store)
            assert states(store, *NAMES) == ["cancelled"] * 4
            assert all(happened(store.events(id))[-1] == "cancelled" for id in NAMES)
            check_counts(store)
            check_nothing_is_left_to_do(store)

    def test_of_a_retry_of_a_flow(self, cluster: Cluster, stride: int) -> None:
        def prepare(store: Store) -> None:
            with_flow(store)
            [task, *others] = take(store, queues=QUEUES, limit=2)
            store.commit([decide(task, Fail(Fault("Boom"))), decide(others[0], Done())])
            pass_on(store)
            assert states(store, *NAMES) == ["failed", "cancelled", "cancelled", "complete"]

        for store, _ in deaths(
            cluster, stride, prepare, lambda store, _: flow_control.retry(store, "f")
        ):
            # Given a worker that goes on with what there is
            run_to_its_end(store)
            # When somebody wants the rest too
            if flow_control.get(store, "f").state != "complete":
                flow_control.retry(store, "f")
            run_to_its_end(store)
            # Then each has run once, and none before its time
            assert states(store, *NAMES) == ["complete"] * 4
            assert all(get(store, id).attempt == (2 if id == "a" else 1) for id in NAMES)
            check_counts(store)
            check_nothing_is_left_to_do(store)

    def test_of_a_purge(self, cluster: Cluster, stride: int) -> None:
        def prepare(store: Store) -> None:
            with_flow(store)
            store.commit([decide(task, Done()) for task in take(store, queues=QUEUES, limit=9)])
            pass_on(store)

        def purge(store: Store, _: None) -> list[str]:
            return store.purge(None, FINISHED, store.now() + 10, 10)

        for store, _ in deaths(cluster, stride, prepare, purge):
            purge(store, None)
            assert states(store, "a", "b", "c") == ["complete", "pending", "waiting"]
            assert store.get(["d"]) == [None], "nobody needs it"
            assert run_to_its_end(store) == ["b", "c"]
            while purge(store, None):
                pass
            assert store.get(NAMES) == [None] * 4
            pass_on(store)
            assert store.flow("f") is None
            check_nothing_is_left_to_do(store)

    def test_of_submitting_a_flow_with_unique_words(self, cluster: Cluster, stride: int) -> None:
        unique = [part("a", "q", unique="one"), part("b", "r", "a", unique="two")]
        for store, _ in deaths(
            cluster, stride, lambda store: None, lambda store, _: store.submit_flow(FLOW, unique)
        ):
            # The words are the flow's, or free again for anybody.
            [one, two] = store.submit([new("x", "q", unique="one"), new("y", "r", unique="two")])
            assert (one.fresh, two.fresh) in [(True, True), (False, False)]
            assert (one.task.id, two.task.id) in [("x", "y"), ("a", "b")]
            if one.fresh:
                with pytest.raises(Refused, match="unique word"):
                    store.submit_flow(FLOW, unique)
            pass_on(store)
            check_counts(store)


class TestAnEndAtAnyMoment:
    def test_of_a_submission_that_waits_for_it(self, cluster: Cluster, stride: int) -> None:
        def prepare(store: Store) -> None:
            register(store, queues=QUEUES)
            submit(store, new("x"))

        def end(store: Store) -> None:
            # Nobody promotes, who would finish the submission too.
            store.commit([decide(take_one(store), Done())])

        for store in interruptions(
            cluster,
            min(stride, 3),
            prepare,
            lambda store: store.submit([after("b", "x", queue="r"), after("c", "b", queue="s")]),
            end,
        ):
            pass_on(store)
            assert states(store, "x", "b", "c") == ["complete", "pending", "waiting"]
            assert run_to_its_end(store) == ["b", "c"]
            check_nothing_is_left_to_do(store)

    def test_of_a_retry_that_waits_for_it(self, cluster: Cluster, stride: int) -> None:
        def prepare(store: Store) -> None:
            with_flow(store)
            store.commit([decide(t, Done()) for t in take(store, queues="r", limit=9)])
            store.commit([decide(take_one(store), Fail(Fault("Boom")))])
            pass_on(store)

        def end(store: Store) -> None:
            store.commit([decide(task, Done()) for task in take(store, limit=9)])
            pass_on(store)

        for store in interruptions(
            cluster, min(stride, 3), prepare, lambda store: flow_control.retry(store, "f"), end
        ):
            assert run_to_its_end(store)[-2:] == ["b", "c"]
            assert states(store, *NAMES) == ["complete"] * 4
            check_nothing_is_left_to_do(store)

    def test_of_a_submission_that_comes_back_to_life(self, cluster: Cluster, stride: int) -> None:
        """Somebody has undone, or carried out, the plan of one who was only slow."""

        def take_the_ids(store: Store) -> None:
            pass_on(store)
            store.submit([new("d", "q")])

        def submit_it(store: Store) -> None:
            with suppress(Refused):
                store.submit_flow(FLOW, tasks())

        for store in interruptions(
            cluster, min(stride, 3), lambda store: None, submit_it, take_the_ids
        ):
            pass_on(store)
            there = [task is not None for task in store.get(NAMES)]
            assert there in ([True] * 4, [False, False, False, True])
            assert (store.flow("f") is not None) == all(there)
            assert get(store, "d").queue == ("r" if all(there) else "q")
            register(store, queues=QUEUES)
            assert sorted(run_to_its_end(store)) == (NAMES if all(there) else ["d"])
            check_nothing_is_left_to_do(store)


class TestWhatOthersNeed:
    def test_a_result_stays_until_the_last_in_any_queue_has_ended(self, cluster: Cluster) -> None:
        store = open_store(cluster.url())
        with_flow(store)
        store.commit([decide(task, Done("it")) for task in take(store, queues=QUEUES, limit=1)])
        for _ in range(3):
            store.forget({"result": -10.0, "complete": -10.0}, 100)
        assert get(store, "a").result == "it"
        assert run_to_its_end(store) == ["b", "d", "c"]
        while store.forget({"complete": -10.0}, 100):
            pass
        assert store.get(NAMES) == [None] * 4
        pass_on(store)
        check_nothing_is_left_to_do(store)
        store.close()

    def test_a_queue_that_is_dropped_ends_what_others_wait_for(self, cluster: Cluster) -> None:
        store = open_store(cluster.url())
        with_flow(store)
        store.drop_queue("q", 10)
        pass_on(store)
        assert states(store, "b", "c") == ["cancelled", "cancelled"]
        assert get(store, "d").state == "pending"
        check_nothing_is_left_to_do(store)
        store.close()


def test_a_worker_in_the_way_of_a_retry_makes_nothing_of_it(cluster: Cluster) -> None:
    """What failed is retried with what was cancelled for it, while another passes on."""
    store, other = (open_store(url) for url in [cluster.url(prefix="busy")] * 2)
    assert isinstance(store, ClusterStore)
    # Given a flow whose order is not that of the names of its queues
    register(store, queues=QUEUES)
    store.submit_flow(FLOW, [part("a", "s"), part("b", "r", "a"), part("c", "q", "b")])
    store.commit([decide(task, Fail(Fault("Boom"))) for task in take(store, queues="s")])
    pass_on(store)
    real = store._nodes.at

    def at(*arguments: object) -> object:
        pass_on(other)
        return real(*arguments)  # type: ignore[arg-type]

    store._nodes.at = at  # type: ignore[assignment,method-assign]
    assert flow_control.retry(store, "f") == 3
    assert states(other, "a", "b", "c") == ["pending", "waiting", "waiting"]
    assert run_to_its_end(other) == ["a", "b", "c"]
    store.close()
    other.close()


def test_of_many_submitters_of_a_flow_one_makes_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two_phase, "PLAN_PATIENCE_S", 0.5)  # here all are alive
    url = cluster.url()
    stores = [open_store(url) for _ in range(4)]
    for round in range(3):
        flow = NewFlow(id=f"f{round}", name="f", parts=FLOW.parts)

        def make(number: int, flow: NewFlow = flow) -> bool:
            queues = (QUEUES, QUEUES[::-1])[number % 2]
            first = new(f"{flow.id}.0", queues[0], flow=flow.id, part="all")
            rest = [
                new(f"{first.id}{n}", queues[n % 3], after=(first.id,), flow=flow.id, part="all")
                for n in range(8)
            ]
            return stores[number].submit_flow(flow, [first, *rest])

        waiting = [in_thread(partial(make, number)) for number in range(4)]
        assert sorted(each() for each in waiting) == [False, False, False, True]
        totals = flow_control.get(stores[0], flow.id).totals
        assert (totals["pending"], totals["waiting"]) == (1, 8)
    check_counts(stores[0])
    for store in stores:
        store.close()


def test_a_hold_and_a_run_across_queues(cluster: Cluster) -> None:
    store = open_store(cluster.url())
    register(store, queues=QUEUES)
    held, ready = Policy(when_failed="hold"), Policy(when_failed="run")
    far = [new("h", "r", after=("a",), policy=held), new("g", "s", after=("a",), policy=ready)]
    submit(store, new("a"), *far)
    store.commit([decide(take_one(store), Fail(Fault("Boom")))])
    pass_on(store)
    assert [(task.state, task.held) for task in (get(store, "h"), get(store, "g"))] == [
        ("pending", True),
        ("pending", False),
    ]
    store.close()
