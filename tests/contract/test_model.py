"""Any sequence of operations does to the store what it does to the plain model of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from stayer.core.errors import LeaseLost, Refused, UnknownQueue, UnknownWorker
from stayer.core.happenings import Done, Expire, Interrupt, Start, WorkerLost
from stayer.core.lifecycle import decide
from stayer.core.model import Change, NewTask, Progress, Report, State, Task, Usage
from stayer.core.queue_model import QueueSettings
from stayer.core.worker_model import EVERYTHING, Handles, Worker
from stayer.store import REMEMBERED
from stayer.stores import open_store
from tests.contract.builders import Clock
from tests.contract.conftest import FreshUrl
from tests.contract.likeness import beat_of, by_id, visible
from tests.contract.plain import Plain
from tests.contract.strategies import (
    IDS,
    LEASE,
    QUEUES,
    WORKERS,
    possible,
    some_delays_of_news,
    some_handles,
    some_ids,
    some_limits,
    some_numbers,
    some_queues,
    some_reports,
    some_settings,
    some_states,
    some_tasks,
    some_workers,
)


class StoreMachine(RuleBasedStateMachine):
    """Drives a store and its model side by side."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.clock = Clock()
        self.store = open_store(url, clock=self.clock)
        self.store.setup()
        self.plain = Plain(self.clock)
        self.seen: list[Task] = []
        self.beats = 0
        self.dropped: Counter[str] = Counter()

    def teardown(self) -> None:
        try:
            self.tries_are_the_same()
        finally:
            self.store.close()

    def both(self, real: Callable[[], Any], plain: Callable[[], Any]) -> tuple[Any, Any] | None:
        """Do it to both: what they answer, or nothing if both refuse it in the same way."""
        refusals = (LeaseLost, Refused, UnknownWorker, UnknownQueue)
        try:
            expected = plain()
        except refusals as refusal:
            with pytest.raises(type(refusal)):
                real()
            return None
        return real(), expected

    def remember(self, *tasks: Task | None) -> None:
        self.seen = [*(task for task in tasks if task is not None), *self.seen][:30]

    def name(self, id: str) -> str:
        """Another one after a drop: whether a dropped id is accepted again is not said."""
        return id + "'" * self.dropped[id]

    @initialize(tasks=st.lists(some_tasks, min_size=4, max_size=8), limit=some_limits)
    def begin(self, tasks: list[NewTask], limit: int) -> None:
        for worker in WORKERS:
            self.beat(worker, 1, False, [])
        self.set_queue(QUEUES[0], {"limit": limit})
        self.submit(tasks)

    # What time does

    @rule(seconds=st.sampled_from([1.0, 2.0, 5.0, 30.0, 90.0, REMEMBERED / 2 + 1]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(limit=st.integers(1, 3))
    def promote(self, limit: int) -> None:
        late = len(self.plain.late())
        answer = self.store.promote(limit)
        self.end_what_is_late()
        assert len(self.plain.late()) == max(0, late - limit)
        due = {task.id for task in self.plain.due()}
        tasks = [task for task in self.store.get(sorted(due)) if task is not None]
        promoted = [task.id for task in tasks if task.state == "pending"]
        assert len(promoted) == min(limit, len(due))
        self.plain.promoted(promoted)
        moments = [self.plain.next_thing(), self.plain.next_start()]
        expected = min((moment for moment in moments if moment is not None), default=None)
        assert answer == (expected if expected is None else pytest.approx(expected, abs=1e-4))

    def end_what_is_late(self) -> None:
        """Which of those that were not started in time have ended is the store's choice."""
        for task in self.plain.late():
            [found] = self.store.get([task.id])
            if found is not None and found.state == "failed":
                self.plain.commit(decide(task, Expire()))

    # What submitters and operators do

    @rule(tasks=st.lists(some_tasks, max_size=5))
    def submit(self, tasks: list[NewTask]) -> None:
        tasks = [replace(new, id=self.name(new.id)) for new in tasks]
        expected = [self.plain.submit(new) for new in tasks]
        answers = self.store.submit(tasks)
        for new, answer, (task, fresh) in zip(tasks, answers, expected, strict=True):
            assert answer.fresh == fresh
            if answer.task.id != task.id:  # which of several that hold a unique word is not said
                assert answer.task.id in [
                    each.id for each in self.plain.holders(new.queue, new.unique)
                ]
            else:
                assert (answer.task.queue, answer.task.state) == (task.queue, task.state)
        self.remember(*(task for task, fresh in expected if fresh))

    @rule(data=st.data(), numbers=some_numbers)
    def things_happen(self, data: st.DataObject, numbers: list[int]) -> None:
        for number in numbers:
            if tasks := list(self.plain.tasks.values()):
                task = tasks[number % len(tasks)]
                ago = data.draw(some_delays_of_news)
                self.commit_both([decide(task, data.draw(possible(task)), ago)])

    @rule(data=st.data(), numbers=some_numbers)
    def things_come_late(self, data: st.DataObject, numbers: list[int]) -> None:
        """What was decided for a task as it was some time ago."""
        seen = self.seen
        for number in numbers:
            if seen:
                task = seen[number % len(seen)]
                ago = data.draw(some_delays_of_news)
                self.commit_both([decide(task, data.draw(possible(task)), ago)])

    def commit_both(self, changes: list[Change]) -> None:
        before = [self.plain.tasks.get(change.id) for change in changes]
        expected = [self.plain.commit(change) for change in changes]
        answers = self.store.commit(changes)
        assert [answer is None for answer in answers] == [task is None for task in expected]
        for change, task, answer in zip(changes, before, answers, strict=True):
            if answer is not None:
                assert task is not None
                if change.late and change.worker is not None and task.state == "pending":
                    self.plain.came_late(answer.id)
                assert visible(answer) == visible(self.plain.tasks[answer.id])
                assert answer.updated == self.clock.now
        self.remember(*expected)

    @rule(name=st.sampled_from(QUEUES), settings=some_settings)
    def set_queue(self, name: str, settings: QueueSettings) -> None:
        self.plain.set_queue(name, **settings)
        self.store.set_queue(name, **settings)

    @rule(states=some_states, limit=some_limits, later=st.integers(0, 1),
          chosen=st.none() | st.lists(some_ids, max_size=4))  # fmt: skip
    def purge(
        self, states: Sequence[State], limit: int, later: int, chosen: list[str] | None
    ) -> None:
        before = self.clock.now + later
        chosen = chosen and [self.name(id) for id in chosen]
        may_go = set(self.plain.purgeable(states, before))
        if chosen is not None:
            may_go &= set(chosen)
        gone = self.store.purge(chosen, states, before, limit)
        assert set(gone) <= may_go
        assert len(gone) == len(set(gone)) == min(limit, len(may_go))
        self.plain.forget(gone)

    @rule(name=st.sampled_from(QUEUES))
    def drop_queue(self, name: str) -> None:
        names = {self.name(id): id for id in IDS}
        mine = [names[task.id] for task in self.plain.tasks.values() if task.queue == name]
        answers = self.both(
            lambda: self.store.drop_queue(name, 100), lambda: self.plain.drop_queue(name)
        )
        if answers is not None:
            assert answers[0] == 0
            self.dropped.update(mine)
        elif name in self.plain.settings:
            # Whether a refused drop leaves the queue paused is not said.
            self.store.set_queue(name, paused=self.plain.settings[name].paused)

    # What workers do

    @rule(id=some_workers, step=st.sampled_from([1, 1, 1, 1, 0, -1, 3]), again=st.booleans(),
          reported=some_reports)  # fmt: skip
    def beat(self, id: str, step: int, again: bool, reported: list[tuple[int, int]]) -> None:
        lease = self.plain.leases.get(id)
        number = lease.number + step if lease else 1
        if lease and number < 2 and (lease.dead or number < 1):
            return  # a dead identity that comes back as a new one: no such thing
        self.beats += 1
        nonce = lease.nonce if lease and again else f"nonce {self.beats}"
        worker = Worker(id=id, node=f"node {id}", pid=1, queues=tuple(QUEUES), lease=LEASE)
        reports = [report for about, kind in reported for report in self.reports(about, kind)]
        answers = self.both(
            lambda: self.store.beat(worker, number, nonce, reports),
            lambda: self.plain.beat(worker, number, nonce, reports),
        )
        if answers is not None:
            assert beat_of(answers[0]) == beat_of(answers[1])

    def reports(self, about: int, kind: int) -> list[Report]:
        """News of one of all the tasks that run, whoever has it."""
        running = [task for id in WORKERS for task in self.plain.holdings(id)]
        if not running:
            return []
        task = running[about % len(running)]
        kinds: list[dict[str, Any]] = [
            {"attempt": task.attempt, "progress": Progress(done=float(self.beats))},
            {"attempt": task.attempt, "checkpoint": b"state"},
            {"attempt": task.attempt, "acknowledged": task.last_order},
            {"attempt": task.attempt, "usage": Usage(ran=float(self.beats)), "paused": True},
            {"attempt": task.attempt, "paused": False},
            {"attempt": task.attempt - 1, "progress": Progress(done=-1.0), "paused": True},
        ]
        return [Report(id=task.id, **kinds[kind])]

    @rule(id=some_workers, queues=some_queues, limit=some_limits, handles=some_handles)
    def reserve(self, id: str, queues: list[str], limit: int, handles: Handles) -> None:
        answers = self.both(
            lambda: self.store.reserve(id, queues, limit, handles),
            lambda: self.plain.reserve(id, queues, limit, handles),
        )
        if answers is not None:
            assert [visible(task) for task in answers[0]] == [visible(t) for t in answers[1]]
            self.remember(*answers[1])
        self.end_what_is_late()

    @rule(id=some_workers)
    def work(self, id: str) -> None:
        """Take all that there is and start it, so that much is running."""
        self.reserve(id, QUEUES, 10, EVERYTHING)
        tasks = [task for task in self.plain.holdings(id) if task.state == "reserved"]
        self.commit_both([decide(task, Start(pid=5)) for task in tasks])

    @rule(id=some_workers, queues=some_queues, limit=some_limits, finished=st.integers(0, 3),
          ago=some_delays_of_news)  # fmt: skip
    def turn(self, id: str, queues: list[str], limit: int, finished: int, ago: float) -> None:
        changes = [decide(task, Done("turn"), ago) for task in self.plain.holdings(id)[:finished]]
        answers = self.both(
            lambda: self.store.turn(id, changes, queues, limit, EVERYTHING),
            lambda: self.plain.turn(id, changes, queues, limit, EVERYTHING),
        )
        if answers is not None:
            (applied, given), (expected_applied, expected_given) = answers
            assert applied == expected_applied
            assert [visible(task) for task in given] == [visible(task) for task in expected_given]
        self.end_what_is_late()

    @rule(judge=some_workers, silent=some_workers, right=st.booleans(), decided=st.booleans())
    def declare_lost(self, judge: str, silent: str, right: bool, decided: bool) -> None:
        if judge == silent:
            return
        lease = self.plain.leases.get(silent)
        numbers = {silent: (lease.number if lease else 1) + (0 if right else 1)}
        answers = self.both(
            lambda: self.store.declare_lost(judge, numbers),
            lambda: self.plain.declare_lost(judge, numbers),
        )
        if answers is not None:
            assert by_id(answers[0]) == by_id(answers[1])
            if decided:
                self.commit_both([decide(task, WorkerLost()) for task in answers[1]])
            self.turn(silent, QUEUES, 2, 3, 0.0)
            self.beat(silent, 1, False, [])

    @rule(id=some_workers, step=st.sampled_from([None, None, 0, 1]))
    def drop_worker(self, id: str, step: int | None) -> None:
        lease = self.plain.leases.get(id)
        if lease is not None and lease.dead:
            return  # what is left of it is not said
        number = None if step is None else (lease.number if lease else 1) + step
        answers = self.both(
            lambda: self.store.drop_worker(id, number), lambda: self.plain.drop_worker(id, number)
        )
        if answers is not None:
            assert by_id(answers[0]) == by_id(answers[1])

    @rule(id=some_workers, data=st.data(),
          how=st.sampled_from(["lost", "lost", "taken", "touched", "handed back"]))  # fmt: skip
    def results_come_late(self, id: str, data: st.DataObject, how: str) -> None:
        """A worker holds its tasks no longer, and brings their results all the same."""
        self.work(id)
        tasks = self.plain.holdings(id)
        if not tasks:
            return
        if how == "handed back":
            self.commit_both([decide(task, Interrupt()) for task in tasks])
            self.work(id)
        else:
            self.retire(id)
        if how == "taken":
            self.reserve(data.draw(some_workers), QUEUES, 2, EVERYTHING)
        if how == "touched":
            self.things_happen(data, [0, 1, 2])
        for task in tasks:
            outcome = Done("late") if data.draw(st.booleans()) else Interrupt()
            self.commit_both([decide(task, outcome)])

    @rule()
    def everyone_comes_back(self) -> None:
        """Workers that were declared lost are replaced by new ones, so that there is always
        somebody.
        """
        for id in WORKERS:
            lease = self.plain.leases.get(id)
            if lease is not None and lease.dead:
                self.retire(id)
            if id not in self.plain.leases:
                self.beat(id, 1, False, [])

    def retire(self, id: str) -> None:
        """Have a worker declared lost by a passing judge, its tasks lost, and itself forgotten."""
        judge = Worker(id=f"judge {self.beats}", node="nowhere", pid=1, lease=LEASE)
        self.beats += 1
        number = {id: self.plain.leases[id].number}
        for each in (self.store, self.plain):
            each.beat(judge, 1, "only", [])
        lost = self.plain.declare_lost(judge.id, number)
        assert by_id(self.store.declare_lost(judge.id, number)) == by_id(lost)
        self.commit_both([decide(task, WorkerLost()) for task in lost])
        for each in (self.store, self.plain):
            assert each.declare_lost(judge.id, {}) == []
            assert each.drop_worker(judge.id, 1) == []
        self.plain.forget_the_dead()

    # What must be so after every step

    @invariant()
    def tasks_are_the_same(self) -> None:
        names = [self.name(id) for id in IDS]
        for id, task in zip(names, self.store.get(names), strict=True):
            expected = self.plain.tasks.get(id)
            assert (task and visible(task)) == (expected and visible(expected))

    @invariant()
    def queues_are_the_same(self) -> None:
        infos = self.store.queues()
        assert [info.name for info in infos] == sorted(self.plain.settings)
        counts = {
            (info.name, state): number
            for info in infos
            for state, number in info.counts.items()
            if number
        }
        assert counts == self.plain.counts()
        for info in infos:
            told = self.plain.settings[info.name]
            assert (info.paused, info.limit, info.key_limit, info.key_limits, info.rate) == (
                told.paused, told.limit, told.key_limit, told.key_limits, told.rate,
            )  # fmt: skip
            assert info.fair == told.fair

    @invariant()
    def workers_are_the_same(self) -> None:
        known = {each.id: (each.number, each.running, each.state) for each in self.store.workers()}
        assert known == self.plain.workers()
        for id in WORKERS:
            assert by_id(self.store.holdings(id)) == by_id(self.plain.holdings(id))

    def tries_are_the_same(self) -> None:
        for id in self.plain.tasks:
            for seen, expected in zip(self.store.attempts(id), self.plain.tries[id], strict=True):
                assert (seen.attempt, seen.worker) == (expected.attempt, expected.worker)
                assert (seen.started_at is not None) == expected.started
                if not expected.late:  # else whether it was lost or done is not said
                    assert seen.ending == expected.ending


def run(fresh_url: FreshUrl, how: settings) -> None:
    class Machine(StoreMachine):
        def __init__(self) -> None:
            super().__init__(fresh_url())

    run_state_machine_as_test(Machine, settings=how)


def test_a_store_does_what_its_model_does(fresh_url: FreshUrl) -> None:
    run(fresh_url, settings(max_examples=20, stateful_step_count=40, report_multiple_bugs=False))


@pytest.mark.long
def test_a_store_does_what_its_model_does_for_long(fresh_url: FreshUrl) -> None:
    run(fresh_url, settings(max_examples=1000, stateful_step_count=80, report_multiple_bugs=False))
