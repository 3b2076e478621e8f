"""The loop of a pool, without a worker around it."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import msgspec
import pytest
from msgspec.structs import replace

from stayer.core.errors import StoreUnreachable
from stayer.core.happenings import Done, Fail, Stop
from stayer.core.lifecycle import OVERDUE
from stayer.core.model import Order, Task, Value
from stayer.core.submit.checks import new_task
from stayer.core.worker_model import EVERYTHING, Orders, Worker
from stayer.store import Store, Waiter
from stayer.stores import open_store
from stayer.worker.threads import protocol
from stayer.worker.threads.call import ThreadApp, call
from stayer.worker.threads.context import ThreadContext
from stayer.worker.threads.executor import Executor, Job
from stayer.worker.threads.in_flight import InFlightFile
from stayer.worker.threads.pool import Pool
from tests.faults.fleet import until


class AnApp:
    names = ("nothing",)


class Sleepless:
    """Counts how often the pool lies down, and wakes it at once."""

    times = 0

    def wait(self, timeout: float) -> bool:
        self.times += 1
        return False

    def ring(self) -> None: ...


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path}/stayer.db")
    store.setup()
    store.beat(Worker(id="w", node="n", pid=1, queues=("default",)), 1, "first", [])
    yield store
    store.close()


def test_a_pool_that_is_to_finish_and_has_nothing_does_not_lie_down(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing would wake it: it would leave when its worker's patience is over."""
    waiter = Sleepless()
    monkeypatch.setattr(store, "waiter", lambda *_: cast(Waiter, waiter))
    setup = protocol.Setup(
        store="", worker="w", app="", queues=("default",), confined=("default",), evenly=False,
        threads=2, lease=60.0, time_limit=None, state=str(tmp_path),
    )  # fmt: skip
    ours, theirs = protocol.pair()
    app = cast(ThreadApp, AnApp())
    pool = Pool(setup, store, app, InFlightFile(tmp_path / "begun", 2), ours)
    pool.receive(protocol.Finish(stop=True))
    pool.run()
    ours.close()
    os.close(theirs)
    assert waiter.times == 0


class Gate:
    """An app whose tasks wait until all that can run at once are at it, as short ones wait for a
    network."""

    def __init__(self, number: int) -> None:
        self._all_here = threading.Barrier(number)

    def call(self, task: ThreadContext) -> None:
        self._all_here.wait(60)


class Hasty:
    """An app whose tasks do nothing but say which thread they are in."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def call(self, task: ThreadContext) -> None:
        self.threads.append(threading.get_ident())


class Crew:
    """Hands that have been given so many tasks."""

    def __init__(self, app: object, store: Store, path: Path, number: int = 24) -> None:
        self.ended: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.hands = Executor(cast(ThreadApp, app), 8, InFlightFile(path, 8), self.ended.put)
        tasks = [Task(f"t{each}", "q", state="reserved", worker="w") for each in range(number)]
        contexts = [ThreadContext(task, store, lambda *_: None) for task in tasks]
        self.hands.take(Job(each.record, each, False, 0.0) for each in contexts)
        self._wanted = {task.id for task in tasks}

    def check(self) -> None:
        jobs = [self.ended.get(timeout=60) for _ in self._wanted]
        assert {job.task.id for job in jobs} == self._wanted
        assert [job.outcome for job in jobs] == [Done(None)] * len(jobs)


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    return tmp_path / "begun"


def test_tasks_that_are_not_short_get_all_threads(store: Store, begun: Path) -> None:
    crew = Crew(Gate(8), store, begun)

    def all_are_at_it() -> bool:
        crew.hands.begin()
        return len(crew.hands.running_jobs) == 8 or not crew.ended.empty()

    until(all_are_at_it)
    crew.check()


@pytest.mark.parametrize(("returned", "result"), [(None, {"loss": 0.5}), (7, 7)])
def test_what_a_function_returns_comes_after_the_result_it_set(
    store: Store, returned: object, result: object
) -> None:
    class Setter:
        def call(self, task: ThreadContext) -> object:
            task.set_result({"loss": 0.5})
            return returned

    context = ThreadContext(Task("t", "q"), store, lambda *_: None)
    assert call(cast(ThreadApp, Setter()), context) == Done(cast(Value, result))


def test_a_pool_that_has_nothing_else_to_do_uses_all_threads(store: Store, begun: Path) -> None:
    crew = Crew(Gate(8), store, begun)
    crew.hands.fill()
    crew.check()


def test_short_tasks_run_one_after_the_other(store: Store, begun: Path) -> None:
    app = Hasty()
    crew = Crew(app, store, begun)
    crew.hands.begin()
    crew.check()
    assert len(set(app.threads)) == 1


def test_threads_leave_when_tasks_turn_out_to_be_short(
    store: Store, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but one, at the end of the task that each of them is at."""
    monkeypatch.setattr("stayer.worker.threads.executor._LONG_TASK_S", 60.0)
    gate = threading.Event()

    class Slow(Hasty):
        def call(self, task: ThreadContext) -> None:
            super().call(task)
            gate.wait(60)
            time.sleep(0.001)  # so that others would have their turn

    app = Slow()
    crew = Crew(app, store, begun)
    crew.hands.fill()
    until(lambda: len(app.threads) == 8)
    crew.hands.begin()
    gate.set()
    crew.check()
    assert len(set(app.threads[8:])) == 1


def test_a_short_task_that_was_kept_waiting_does_not_bring_all_threads(
    store: Store, begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another process, say: one is no proof that tasks are long."""
    monkeypatch.setattr("stayer.worker.threads.executor._LONG_TASK_S", 60.0)
    monkeypatch.setattr("stayer.worker.threads.executor._SHORT_TASK_S", 0.05)

    class Once(Hasty):
        def call(self, task: ThreadContext) -> None:
            super().call(task)
            if len(self.threads) == 1:
                time.sleep(0.5)
            begin_again()

    app = Once()
    crew = Crew(app, store, begun)
    begin_again = crew.hands.begin
    begin_again()
    crew.check()
    assert len(set(app.threads)) == 1


class Counting:
    """An app that says what it ran."""

    names = ("nothing",)

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.gate = threading.Event()
        self.gate.set()

    def is_async(self, name: str) -> bool:
        return False

    def call(self, task: ThreadContext) -> None:
        self.gate.wait(60)
        self.ran.append(task.id)


class Lap:
    """A pool whose loop is gone through step by step."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.app = Counting()
        setup = protocol.Setup(
            store="", worker="w", app="", queues=("default",), confined=("default",), evenly=False,
            threads=2, lease=60.0, time_limit=None, state=str(folder),
        )  # fmt: skip
        self.link, self._theirs = protocol.pair()
        begun = InFlightFile(folder / "begun", 2)
        self.pool = Pool(setup, store, cast(ThreadApp, self.app), begun, self.link)
        self.pool._once()  # which compares with the store
        self.pool._has_slept = True
        store.submit([new_task(queue="default", id=f"t{each}", name="nothing") for each in "123"])
        self.tasks = store.reserve("w", ["default"], 3, EVERYTHING)

    def states(self) -> list[str]:
        return [task.state for task in self.store.get(["t1", "t2", "t3"]) if task is not None]

    def finish(self) -> None:
        self.pool.receive(protocol.Finish(stop=False))
        self.pool.run()
        self.link.close()
        os.close(self._theirs)


@pytest.fixture
def lap(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lap]:
    monkeypatch.setattr(store, "waiter", lambda *_: cast(Waiter, Sleepless()))
    lap = Lap(store, tmp_path)
    yield lap
    lap.finish()


def test_what_has_arrived_is_looked_at_while_the_store_is_at_the_next_turn(
    lap: Lap, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    real = lap.store.turn

    def turn(*given: object) -> object:
        *rest, meanwhile = given
        before = len(lap.pool._held)
        cast(Callable[[], object], meanwhile)()
        seen.append((before, len(lap.pool._held)))
        return real(*rest)  # type: ignore[arg-type]

    monkeypatch.setattr(lap.store, "turn", turn)
    lap.pool._arrived = lap.tasks
    lap.pool._turn(1)
    assert seen == [(0, 3)]
    until(lambda: len(lap.app.ran) == 3)


def test_an_order_for_what_has_just_arrived_is_obeyed(lap: Lap) -> None:
    lap.app.gate.clear()
    lap.pool._arrived = lap.tasks
    lap.pool.receive(protocol.Ask(Orders("t3", 1, (Order(1, "cancel"),))))
    lap.pool._handle_messages()
    assert lap.pool._held["t3", 1].outcome == Stop()
    lap.app.gate.set()


def test_what_is_past_its_deadline_is_asked_to_stop(lap: Lap) -> None:
    lap.app.gate.clear()
    lap.pool._arrived = [replace(task, finish_before=1.0) for task in lap.tasks]
    lap.pool._take_arrived()
    job = lap.pool._held["t1", 1]
    lap.pool._look_at(job, time.monotonic())
    assert job.context.cancelled
    assert job.context.read_stop() == Fail(OVERDUE, "expired")
    lap.app.gate.set()


def test_what_has_arrived_is_not_taken_a_second_time(lap: Lap) -> None:
    """When what the pool has is compared with what the store says."""
    lap.pool._arrived = lap.tasks
    lap.pool._unsure = True
    while lap.states() != ["complete"] * 3:
        lap.pool._once()
    assert sorted(lap.app.ran) == ["t1", "t2", "t3"]


def test_what_has_arrived_is_run_though_the_store_is_away(
    lap: Lap, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> object:
        lap.pool.receive(protocol.Finish(stop=False))
        monkeypatch.undo()
        raise StoreUnreachable("away")

    monkeypatch.setattr(lap.store, "turn", away)
    monkeypatch.setattr("stayer.worker.threads.pool._STORE_BACKOFF_S", (0.0, 0.0))
    lap.pool._arrived = lap.tasks
    lap.pool._has_changed = True
    lap.pool.run()
    assert set(lap.states()) <= {"complete", "pending"}
    assert len(lap.app.ran) == len(set(lap.app.ran)) == lap.states().count("complete") > 0


def test_a_pool_runs_nothing_of_queues_in_which_its_lease_is_not_good(
    lap: Lap, store: Store
) -> None:
    """It says so when the last of them has ended, and takes from them again when it may."""
    told: list[int] = []
    send = lap.link.send

    def heard(message: protocol.Message) -> None:
        if isinstance(message, protocol.ConfineDone):
            told.append(message.number)
        send(message)

    lap.link.send = heard  # type: ignore[method-assign]
    lap.app.gate.clear()
    lap.pool._arrived = lap.tasks
    lap.pool._take_arrived()
    until(lambda: len(lap.pool._hands.running_jobs) > 0)
    lap.pool.receive(protocol.Confine(1, ()))
    lap.pool._once()
    assert told == []  # one runs
    begun = lap.pool._hands.running_jobs
    lap.app.gate.set()
    while not told:
        lap.pool._once()
    assert told == [1]
    assert len(lap.app.ran) == len(begun) < 3
    while "reserved" in lap.states():
        lap.pool._once()
    assert lap.states().count("pending") == 3 - len(begun)

    lap.pool.receive(protocol.Confine(2, ("default",)))
    while lap.states() != ["complete"] * 3:
        lap.pool._once()
    assert told == [1, 2]
    assert sorted(lap.app.ran) == ["t1", "t2", "t3"]


def test_a_message_of_a_newer_version_is_passed_over() -> None:
    ours, theirs = protocol.pair()
    other = protocol.Link(theirs)
    other._connection.send_bytes(msgspec.msgpack.encode({"type": "Curtsy", "depth": 3}))
    other.send(protocol.Pong(7))
    assert ours.receive() == protocol.Pong(7)
    other.close()
    assert ours.receive() is None
    ours.close()
