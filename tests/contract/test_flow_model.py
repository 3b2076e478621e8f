"""Random flows, random fates: what a plain model says of them is what every store does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from stayer.core.flows.model import NewFlow
from stayer.core.happenings import Done, Fail, Interrupt
from stayer.core.model import FINISHED, QUEUED, Fault, NewTask, Policy, State, Task, WhenFailed
from stayer.service.control import flows as flow_control
from stayer.service.control import tasks as control
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import Clock, apply, check_counts, get, new, register, take
from tests.contract.conftest import FreshUrl
from tests.contract.test_flows import pass_on

QUEUES = ("q", "other")


class Node(Struct):
    """A task of the model; what it runs after is given by numbers of earlier ones."""

    after: set[int]
    behind: set[int]
    when_failed: WhenFailed
    state: State = "waiting"
    held: bool = False
    waits: set[int] = set()


class Model:
    """What the contract says, in sets."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        for node in nodes:
            node.waits = node.after | node.behind
            node.state = "waiting" if node.waits else "pending"

    def end(self, number: int, state: State) -> None:
        ended = [(number, state)]
        while ended:
            number, state = ended.pop()
            self.nodes[number].state = state
            self.nodes[number].waits = set()
            for other, node in enumerate(self.nodes):
                if node.state != "waiting" or number not in node.waits:
                    continue
                bad = state != "complete" and number in node.after
                if bad and node.when_failed == "cancel":
                    ended.append((other, "cancelled"))
                    node.state = "cancelled"
                    continue
                node.waits.discard(number)
                node.held = node.held or (bad and node.when_failed == "hold")
                if not node.waits:
                    node.state = "pending"

    def retry(self) -> bool:
        again = {n for n, node in enumerate(self.nodes) if node.state in ("failed", "cancelled")}
        goes_on = again | {n for n, node in enumerate(self.nodes) if node.state not in FINISHED}
        held = {
            n
            for n, node in enumerate(self.nodes)
            if node.held and node.state in QUEUED and node.after & again
        }
        anew, waiting = again | held, {n for n, o in enumerate(self.nodes) if o.state == "waiting"}
        follows: set[int] = set()
        for number, node in enumerate(self.nodes):
            line = self._line(node.behind, goes_on, anew | waiting)
            first = not node.behind & follows
            if number in anew:
                after_it = self._after(number) & goes_on - anew - waiting if first else set()
                node.waits = (node.after & goes_on) | line | after_it
                node.state = "waiting" if node.waits else "pending"
                node.held = node.held and number not in held
            elif number in waiting and not first and not line <= node.behind & (waiting - anew):
                node.waits = (node.after & goes_on) | line
            if number in anew or not first:
                follows.add(number)
        return bool(again)

    def _line(self, behind: set[int], goes_on: set[int], ends: set[int]) -> set[int]:
        found = behind & goes_on
        for number in behind - ends:
            found |= self._line(self.nodes[number].behind, goes_on, ends)
        return found

    def _after(self, number: int) -> set[int]:
        found = {n for n, node in enumerate(self.nodes) if number in node.behind}
        return found.union(*(self._after(n) for n in found))


@st.composite
def some_nodes(draw: st.DrawFn) -> list[Node]:
    nodes = []
    for number in range(draw(st.integers(1, 7))):
        earlier = st.sets(st.integers(0, number - 1), max_size=3) if number else st.just(set())
        when_failed: Any = st.sampled_from(["cancel", "cancel", "run", "hold"])
        after = draw(earlier)
        behind = draw(earlier) - after if draw(st.booleans()) else set()
        nodes.append(Node(after, behind, draw(when_failed)))
    return nodes


some_steps = st.lists(
    st.tuples(st.sampled_from(["done", "done", "done", "fail", "cancel", "release", "retry"]),
              st.integers(0, 6), st.booleans()),
    max_size=14,
)  # fmt: skip


def ids_of(numbers: set[int]) -> tuple[str, ...]:
    return tuple(f"t{number}" for number in sorted(numbers))


def tasks_of(nodes: list[Node]) -> list[NewTask]:
    return [
        new(
            f"t{number}",
            queue=QUEUES[number % 2],
            flow="f",
            part=f"p{number}",
            after=ids_of(node.after),
            behind=ids_of(node.behind),
            policy=Policy(when_failed=node.when_failed),
        )
        for number, node in enumerate(nodes)
    ]


class Run:
    """A store and its model, brought through the same steps."""

    def __init__(self, store: Store, nodes: list[Node], shuffled: list[int]) -> None:
        self.store, self.model = store, Model(nodes)
        self._relay: Any = store._relay  # type: ignore[attr-defined]
        register(store, queues=QUEUES)
        tasks = tasks_of(nodes)
        store.submit_flow(NewFlow(id="f", name="f"), [tasks[number] for number in shuffled])
        self.check()

    def step(self, what: str, number: int, dies: bool) -> None:
        number %= len(self.model.nodes)
        node = self.model.nodes[number]
        # One that dies has made its change, but passed nothing on.
        self.store._relay = (lambda: None) if dies else self._relay  # type: ignore[attr-defined]
        if what == "retry":
            if self.model.retry():
                flow_control.retry(self.store, "f")
        elif what == "release":
            control.release(self.store, f"t{number}") if node.state not in FINISHED else None
            node.held = node.held and node.state in FINISHED
        elif what == "cancel" and node.state not in FINISHED:
            control.cancel(self.store, f"t{number}")
            self.model.end(number, "cancelled")
        elif node.state == "pending" and not node.held and what in ("done", "fail"):
            apply(self.store, self._taken(number), Done() if what == "done" else Fail(Fault("B")))
            self.model.end(number, "complete" if what == "done" else "failed")
        pass_on(self.store)
        self.check()

    def _taken(self, number: int) -> Task:
        """This one, whichever would come first: the others are given back."""
        wanted = f"t{number}"
        taken = take(self.store, queues=QUEUES[number % 2], limit=99)
        for task in taken:
            if task.id != wanted:
                apply(self.store, task, Interrupt())
        return next(task for task in taken if task.id == wanted)

    def check(self) -> None:
        for number, node in enumerate(self.model.nodes):
            task = get(self.store, f"t{number}")
            assert (task.state, task.held) == (node.state, node.held), f"t{number}"
            waits, count = self.store.waits(task.id, 99)
            expected = node.waits if node.state == "waiting" else set()
            assert count == len(expected)
            assert set(waits) <= set(ids_of(expected))
        flow = flow_control.get(self.store, "f")
        assert flow.counts == {f"p{n}": {node.state: 1} for n, node in enumerate(self.model.nodes)}
        check_counts(self.store)


def run(fresh_url: FreshUrl, examples: int) -> None:
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), deadline=None)
    @given(some_nodes(), some_steps, st.data())
    def one(nodes: list[Node], steps: list[tuple[str, int, bool]], data: st.DataObject) -> None:
        store = open_store(fresh_url(), clock=Clock())
        store.setup()
        try:
            shuffled = data.draw(st.permutations(range(len(nodes))))
            running = Run(store, nodes, list(shuffled))
            for what, number, dies in steps:
                running.step(what, number, dies)
        finally:
            store.close()

    one()


def test_a_flow_does_what_its_model_does(fresh_url: FreshUrl) -> None:
    run(fresh_url, 40)


@pytest.mark.long
def test_a_flow_does_what_its_model_does_for_long(fresh_url: FreshUrl) -> None:
    run(fresh_url, 1500)
