"""Flows as one thing: `submit_flow`, `flows`, `flow`, the filter, and the verbs on all of one."""

from __future__ import annotations

import pytest

from stayer.core.errors import BadInput, Refused, UnknownFlow
from stayer.core.flows.model import FlowInfo, NewFlow, Part
from stayer.core.flows.plan import PartPlan, lay_out
from stayer.core.happenings import Done, Fail, Retry, Start
from stayer.core.lifecycle import decide
from stayer.core.model import FINISHED, Fault, Filter, NewTask, Policy, State, Task
from stayer.service.control import flows as flow_control
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    check_counts,
    fill,
    get,
    ids,
    new,
    register,
    submit,
    take,
    take_one,
)

PARTS = (
    Part(name="first", queue="q", kind="fetch"),
    Part(name="items", queue="q", tasks=3, is_map=True, at_once=2, after=("first",)),
    Part(name="last", queue="other", after=("items",)),
)
BOOM = Fail(Fault("Boom"))


@pytest.fixture(autouse=True)
def worker(store: Store) -> None:
    register(store, queues=("q", "other"))


def a_flow(id: str = "f") -> NewFlow:
    return NewFlow(id=id, name="nightly", owner="ada", parts=PARTS)


def tasks(id: str = "f") -> list[NewTask]:
    items = [f"{id}.items.{number}" for number in range(3)]
    return [
        new(f"{id}.last", "other", flow=id, part="last", after=tuple(items)),
        new(f"{id}.first", flow=id, part="first"),
        *(new(item, flow=id, part="items", after=(f"{id}.first",)) for item in items),
    ]


def counts(store: Store, id: str = "f") -> dict[str, dict[State, int]]:
    flow = store.flow(id)
    assert flow is not None
    return flow.counts


def run(store: Store, *, failing: str = "") -> list[str]:
    """Run what there is; the answer is what ran."""
    ran = []
    while found := take(store, queues=["q", "other"]):
        ran.append(found[0].id)
        apply(store, found[0], BOOM if failing and failing in found[0].id else Done())
    return ran


def start_one(store: Store) -> Task:
    return apply(store, take_one(store), Start(pid=1))


class TestSubmitting:
    def test_a_flow_is_there_with_all_of_its_tasks(self, store: Store, clock: Clock) -> None:
        assert store.submit_flow(a_flow(), tasks())
        assert store.flow("f") == FlowInfo(
            id="f",
            name="nightly",
            owner="ada",
            created=clock.now,
            parts=PARTS,
            counts={"first": {"pending": 1}, "items": {"waiting": 3}, "last": {"waiting": 1}},
        )
        assert store.flow("g") is None
        check_counts(store)

    def test_the_same_again_is_the_same(self, store: Store) -> None:
        assert store.submit_flow(a_flow(), tasks())
        assert not store.submit_flow(a_flow(), tasks())
        assert not store.submit_flow(a_flow(), [new("f.more", flow="f")])
        assert store.get(["f.more"]) == [None]

    def test_a_task_in_use_refuses_it_all(self, store: Store, clock: Clock) -> None:
        fill(store, 1)
        store.submit([new("f.first")])
        with pytest.raises(Refused, match=r"in use \(f.first\)"):
            store.submit_flow(a_flow(), tasks())
        assert store.flow("f") is None
        assert store.get(["f.last"]) == [None]
        # ... also one that was
        control.cancel(store, "f.first")
        store.purge(["f.first"], FINISHED, clock.advance(1), 1)
        with pytest.raises(Refused, match=r"in use \(f.first\)"):
            store.submit_flow(a_flow(), tasks())
        assert store.flows(None, 9).flows == ()

    def test_what_nobody_knows_refuses_it_all(self, store: Store) -> None:
        with pytest.raises(BadInput, match="'nobody'"):
            store.submit_flow(a_flow(), [*tasks(), new("f.x", flow="f", after=("nobody",))])
        assert store.flow("f") is None
        assert store.queues() == []

    def test_it_must_have_tasks_and_not_too_many(self, store: Store) -> None:
        with pytest.raises(BadInput, match="has no tasks"):
            flow_control.submit(store, a_flow(), [])
        with pytest.raises(BadInput, match="at most 20,000 fit"):
            flow_control.submit(store, a_flow(), [new("f.x")] * 20_001)


class TestReading:
    def test_it_counts_what_becomes_of_its_tasks(self, store: Store) -> None:
        store.submit_flow(a_flow(), tasks())
        task = take_one(store)
        assert counts(store)["first"] == {"reserved": 1}
        apply(store, apply(store, task, Start()), Done())
        assert counts(store)["first"] == {"complete": 1}
        assert counts(store)["items"] == {"pending": 3}
        run(store, failing="items.1")
        assert counts(store)["items"] == {"complete": 2, "failed": 1}
        assert counts(store)["last"] == {"cancelled": 1}
        assert flow_control.get(store, "f").state == "failed"

    def test_its_tasks_are_found(self, store: Store) -> None:
        fill(store, 3)
        store.submit_flow(a_flow(), tasks())
        store.submit_flow(a_flow("g"), tasks("g"))
        found = list(control.find_all(store, Filter(flow="f")))
        assert sorted(ids(found)) == sorted(task.id for task in tasks())
        waiting = store.find(Filter(flow="f", states=("waiting",), queues=("q",)), None, 9).tasks
        assert sorted(ids(waiting)) == ["f.items.0", "f.items.1", "f.items.2"]
        page = store.find(Filter(flow="f"), None, 2)
        rest = store.find(Filter(flow="f"), page.next, 9)
        assert [*page.tasks, *rest.tasks] == found
        assert store.find(Filter(flow="none"), None, 9).tasks == ()

    def test_flows_come_in_pages(self, store: Store, clock: Clock) -> None:
        for number in range(5):
            clock.advance(1)
            store.submit_flow(a_flow(f"f{number}"), tasks(f"f{number}"))
        page = store.flows(None, 2)
        assert [flow.id for flow in page.flows] == ["f4", "f3"]
        assert page.flows[0] == store.flow("f4")
        page = store.flows(page.next, 3)
        assert [flow.id for flow in page.flows] == ["f2", "f1", "f0"]
        assert page.next is None
        assert [flow.id for flow in flow_control.find_all(store)] == ["f4", "f3", "f2", "f1", "f0"]

    def test_a_flow_goes_with_its_last_task(self, store: Store, clock: Clock) -> None:
        store.submit_flow(a_flow(), tasks())
        run(store)
        store.purge(["f.last", "f.items.0"], FINISHED, clock.advance(1), 9)
        assert counts(store) == {"first": {"complete": 1}, "items": {"complete": 2}}
        assert len(store.purge(None, FINISHED, clock.now, 9)) == 3
        assert store.flow("f") is None
        assert store.flows(None, 9).flows == ()

    def test_the_beginning_of_a_drawn_id_is_enough(self, store: Store) -> None:
        drawn = "abcdefghijklmnop"
        store.submit_flow(a_flow(drawn), tasks(drawn))
        store.submit_flow(a_flow("chosen"), tasks("chosen"))
        assert flow_control.resolve(store, "abc") == drawn
        assert flow_control.resolve(store, "chosen") == "chosen"
        for unknown in ("chos", "", "zzz"):
            with pytest.raises(UnknownFlow):
                flow_control.resolve(store, unknown)


class TestVerbs:
    def test_cancel_starts_nothing(self, store: Store) -> None:
        # Given one that would run if what it runs after is cancelled
        anyway = new(
            "f.anyway",
            flow="f",
            part="anyway",
            after=("f.first", "f.items.0"),
            policy=Policy(when_failed="run"),
        )
        store.submit_flow(a_flow(), [*tasks(), anyway])
        running = apply(store, take_one(store), Start())

        # When the flow is cancelled, then what waits is gone and what runs is asked
        assert flow_control.cancel(store, "f") == 6
        assert counts(store) == {
            "anyway": {"cancelled": 1},
            "first": {"started": 1},
            "items": {"cancelled": 3},
            "last": {"cancelled": 1},
        }
        assert get(store, running.id).cancel_wanted
        assert flow_control.cancel(store, "f") == 0

    def test_retry_goes_on_from_where_it_failed(self, store: Store) -> None:
        store.submit_flow(a_flow(), tasks())
        assert run(store, failing="items.1") == [
            "f.first",
            "f.items.0",
            "f.items.1",
            "f.items.2",
        ]
        assert flow_control.retry(store, "f") == 2
        assert counts(store) == {
            "first": {"complete": 1},
            "items": {"complete": 2, "pending": 1},
            "last": {"waiting": 1},
        }
        assert run(store) == ["f.items.1", "f.last"]
        assert flow_control.get(store, "f").state == "complete"
        with pytest.raises(Refused, match="nothing of it has failed"):
            flow_control.retry(store, "f")
        check_counts(store)

    def test_retry_of_a_cancelled_flow_keeps_its_order(self, store: Store) -> None:
        store.submit_flow(a_flow(), tasks())
        flow_control.cancel(store, "f")
        assert flow_control.retry(store, "f") == 5
        assert counts(store) == {
            "first": {"pending": 1},
            "items": {"waiting": 3},
            "last": {"waiting": 1},
        }
        assert run(store)[-1] == "f.last"

    def test_retry_lets_what_was_held_wait_once_more(self, store: Store) -> None:
        held = new(
            "f.held", flow="f", part="held", after=("f.first",), policy=Policy(when_failed="hold")
        )
        store.submit_flow(a_flow(), [new("f.first", flow="f", part="first"), held])
        run(store, failing="first")
        assert (get(store, "f.held").state, get(store, "f.held").held) == ("pending", True)
        flow_control.retry(store, "f")
        assert (get(store, "f.held").state, get(store, "f.held").held) == ("waiting", False)
        assert run(store) == ["f.first", "f.held"]

    def test_what_fails_again_is_heard_again(self, store: Store) -> None:
        store.submit_flow(a_flow(), tasks())
        run(store, failing="first")
        for _ in range(2):
            flow_control.retry(store, "f")
            assert run(store, failing="first") == ["f.first"]
            assert counts(store)["last"] == {"cancelled": 1}

    def test_retry_keeps_to_what_a_map_may_run_at_once(self, store: Store) -> None:
        """What failed stands behind what came after it and runs by now, however often."""
        plan = PartPlan(
            name="m",
            tasks=tuple(new("-", parameters=number) for number in range(4)),
            is_map=True,
            at_once=1,
        )
        flow_control.submit(store, *lay_out("throttled", [plan], id="f"))
        apply(store, start_one(store), Done())
        failed = apply(store, start_one(store), Fail(Fault("B"), final=True))
        third = start_one(store)
        for _ in range(2):
            # Given one that failed, one that runs and one that waits
            assert flow_control.retry(store, "f") == 1
            assert store.waits(failed.id, 9) == ([third.id], 1)
            assert counts(store) == {"m": {"complete": 1, "started": 1, "waiting": 2}}
            store.promote(9)
            assert take(store) == []
            control.cancel(store, failed.id)
            store.promote(9)
        apply(store, get(store, third.id), Done())
        assert run(store) == ["f.m.3"]
        check_counts(store)

    @pytest.mark.parametrize(
        ("end", "state"), [(Done(), "pending"), (BOOM, "cancelled")], ids=["done", "failed"]
    )
    def test_what_is_retried_behind_one_that_goes_meanwhile_hears_of_it(
        self, store: Store, clock: Clock, end: Done | Fail, state: State
    ) -> None:
        """Between the look at the flow and the change of it."""
        submit(store, new("u"), new("d", after=("u",)))
        control.cancel(store, "d")
        apply(store, take_one(store), end)
        clock.advance(1)
        control.delete(store, "u")
        assert apply(store, get(store, "d"), Retry(("u",))).state == "waiting"
        store.promote(9)
        assert get(store, "d").state == state

    def test_wait(self, store: Store) -> None:
        store.submit_flow(a_flow(), tasks())
        assert flow_control.wait(store, "f", timeout=0).state == "pending"
        run(store)
        assert flow_control.wait(store, "f").state == "complete"
        with pytest.raises(UnknownFlow):
            flow_control.wait(store, "nobody")


def test_flows_belong_to_tasks_by_whatever_way_they_come(store: Store) -> None:
    """A part without a name, a flow that nobody submitted as such: no harm."""
    store.submit([new("a", flow="loose")])
    task: Task = take_one(store)
    store.commit([decide(task, Done())])
    assert store.flow("loose") is None
    assert ids(store.find(Filter(flow="loose"), None, 9).tasks) == ["a"]
