"""The worker's hands, piece by piece: orders, thawing, and waiting for what must die first.

With a real store and real run directories, but keepers that only exist on paper: so that each
step can be taken when a test wants it.
"""

from __future__ import annotations

import fcntl
import json
import math
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stayer.core.errors import StoreUnreachable
from stayer.core.happenings import Cancel, Interrupt, Note, Start
from stayer.core.lifecycle import decide
from stayer.core.model import Order, Task
from stayer.core.submit.checks import new_task
from stayer.core.worker_model import EVERYTHING, Beat, Worker
from stayer.keeper import tree
from stayer.service.control import tasks as control
from stayer.service.lease.heartbeat import Heartbeat, moment
from stayer.store import Store
from stayer.stores import open_store
from stayer.worker import attempt as held_module
from stayer.worker import attempts as module
from stayer.worker.attempt import HeldAttempt
from stayer.worker.attempts import HeldAttempts
from stayer.worker.keeper_orders import carry_out
from stayer.worker.orphans import declare_end_for_keeper, is_over
from stayer.worker.reconcile import reconcile
from stayer.worker.state_directory import StateDirectory
from stayer.worker.threads import protocol
from stayer.worker.threads.main import LOST_LEASE
from stayer.worker.threads.process import PoolProcess, explain_end, write_excuse
from stayer.worker.threads.worker import ThreadOptions, ThreadsWorker
from stayer.worker.wakeup import Bell
from tests.contract.builders import PATIENCE
from tests.faults.fleet import until

NOBODY = {"keeper": 1, "keeper_started": -1, "pid": 1}


@contextmanager
def killing(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Whatever happens meanwhile: nobody is to wait for its end."""
    try:
        yield
    finally:
        process.kill()


class Hands:
    """A worker without its loop."""

    def __init__(self, folder: Path) -> None:
        self.store: Store = open_store(f"sqlite:///{folder}/q.db")
        self.store.setup()
        self.state = StateDirectory(folder / "one", "here")
        self.state.open()
        me = Worker(id=self.state.worker_id, node="here", pid=1)
        self.store.beat(me, 1, "first", ())
        self.holdings = HeldAttempts(self.state, Bell())

    def take(self, id: str, *stopped: str) -> HeldAttempt:
        """A task of ours that runs, stopped for these reasons."""
        self.store.submit([new_task(queue="default", id=id, command=["true"])])
        [task] = self.store.reserve(self.state.worker_id, ["default"], 1, EVERYTHING)
        [started] = self.store.commit([decide(task, Start(1))])
        assert started is not None
        run = self.state.run_for(started)
        run.prepare(started, {"limits": {}}, None)
        (run.folder / "running").write_text(json.dumps({**NOBODY, "stopped": stopped}))
        held = HeldAttempt(started, run)
        self.holdings.add(held)
        return held

    def task(self, held: HeldAttempt) -> Task:
        [task] = self.store.get([held.task.id])
        assert task is not None
        return task


@pytest.fixture
def hands(tmp_path: Path) -> Iterator[Hands]:
    hands = Hands(tmp_path)
    yield hands
    hands.state.close()
    hands.store.close()


def test_an_order_that_was_passed_on_is_not_passed_on_by_the_next_worker(hands: Hands) -> None:
    """The first one died before it could tell the store."""
    held = hands.take("a")
    orders = [Order(1, "signal", {"signal": "SIGHUP"}), Order(2, "signal", {"signal": "SIGHUP"})]
    assert carry_out(held, orders[:1]) == 1
    heir = HeldAttempt(held.task, hands.state.run_for(held.task))
    assert carry_out(heir, orders) == 2
    assert heir.run.keeper_orders["signals"] == [[1, "SIGHUP"], [2, "SIGHUP"]]


def test_that_one_goes_on_is_said_when_it_does_with_the_time_that_it_stood_still(
    hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    """Not when the store confirms that it may: its keeper may wait for the lease for long."""
    held = hands.take("a", "fenced")
    running = held.run.folder / "running"
    said = {**NOBODY, "fenced_since": 1000.0, "fenced_until": 0.0}
    running.write_text(json.dumps({**said, "stopped": ["fenced"]}))
    reconcile(hands.store, hands.state, hands.holdings)
    held.note_freeze()
    assert (list(held.unsent_notes), caplog.text) == ([], "")
    later = {**said, "fenced_until": 1012.9, "stopped": []}
    running.with_name("running.new").write_text(json.dumps(later))
    running.with_name("running.new").replace(running)
    held.note_freeze()
    held.note_freeze()
    assert list(held.unsent_notes) == [Note("thawed", "stood still for 12.9s without a lease")]
    assert caplog.text.count("task a goes on") == 1


def test_a_go_ahead_is_of_the_moment_before_the_store_was_asked(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine may sleep while we wait for the answer."""
    held = hands.take("a", "fenced")
    answered: list[float] = []
    ask = hands.store.holdings

    def slow(*given: Any) -> list[Task]:
        found = ask(*given)
        answered.append(moment())
        return found

    monkeypatch.setattr(hands.store, "holdings", slow)
    before = moment()
    reconcile(hands.store, hands.state, hands.holdings)
    assert before <= held.run.keeper_orders["thaw"] < answered[0]


def test_only_what_is_still_ours_may_go_on(hands: Hands) -> None:
    ours, taken = hands.take("ours", "fenced"), hands.take("taken", "fenced")
    hands.store.commit([decide(taken.task, Interrupt("somebody took it"))])
    reconcile(hands.store, hands.state, hands.holdings)
    assert "thaw" in ours.run.keeper_orders
    assert "stop" not in ours.run.keeper_orders
    assert "thaw" not in taken.run.keeper_orders
    assert taken.run.keeper_orders["stop"] == {"why": "fence", "grace": 0.0}


def test_what_stands_still_on_demand_is_not_let_go(hands: Hands) -> None:
    paused = hands.take("a", "paused")
    reconcile(hands.store, hands.state, hands.holdings)
    assert paused.run.keeper_orders == {}


def test_nothing_is_taken_while_something_that_was_lost_may_still_move(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = hands.take("a")
    assert not hands.holdings.has_dying()
    hands.store.commit([decide(held.task, Interrupt("somebody took it"))])
    reconcile(hands.store, hands.state, hands.holdings)
    assert hands.holdings.has_dying()
    held.run.declare_end({"stop": {"why": "fence"}})
    assert not hands.holdings.has_dying()

    hung = hands.take("b")
    hands.holdings.give_up()
    assert hands.holdings.has_dying()
    # What hangs in the kernel must not keep the worker from working for ever.
    monkeypatch.setattr(module, "_DEATH_TIMEOUT_S", 0.0)
    assert not hands.holdings.has_dying()
    assert not hung.run.has_ended()


def test_what_the_store_says_is_ours_and_nobody_runs_is_handed_back(hands: Hands) -> None:
    held = hands.take("a")
    hands.holdings.remove(held)
    reconcile(hands.store, hands.state, hands.holdings)
    assert hands.task(held).state == "pending"
    assert not held.run.folder.exists()


def test_a_keeper_that_died_before_it_said_anything_is_spoken_for(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was begun is never begun again: another keeper would not take it up."""
    held = hands.take("a")
    (held.run.folder / "running").unlink()
    monkeypatch.setattr(held_module, "_KEEPER_TIMEOUT_S", -1.0)
    declare_end_for_keeper(held)
    assert not held.run.has_ended()  # nobody has begun it
    (held.run.folder / "exit.tmp").touch()
    with open(held.run.folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        declare_end_for_keeper(held)
        assert not held.run.has_ended()
    declare_end_for_keeper(held)
    assert held.run.has_ended()


def test_whoever_takes_leave_hands_back_only_what_is_over(hands: Hands) -> None:
    held = hands.take("a")
    me = Worker(id=hands.state.worker_id, node="here", pid=1)

    def leave() -> bool:
        heartbeat = Heartbeat(
            hands.store, me, on_orders=lambda _: None, on_lost=lambda: None,
            last_number=hands.store.workers()[0].number,
        )  # fmt: skip
        heartbeat.start()
        return heartbeat.stop(lambda task: is_over(hands.state.run_for(task)))

    with open(held.run.folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as its keeper does
        assert not leave()
    assert hands.task(held).state == "started"
    assert [worker.id for worker in hands.store.workers()] == [me.id]
    held.run.declare_end({"exit_code": 0})
    assert not leave()
    assert hands.task(held).state == "started"
    (held.run.folder / "exit").unlink()
    assert leave()
    assert hands.task(held).state == "pending"
    assert hands.store.workers() == []


def test_a_cancel_without_a_grace_leaves_it_to_the_keeper(hands: Hands) -> None:
    held = hands.take("a")
    [asked] = hands.store.commit([decide(held.task, Cancel())])
    assert asked is not None
    carry_out(held, asked.orders)
    assert held.run.keeper_orders["stop"] == {"why": "cancel", "grace": None}


def test_handing_back_what_a_pool_held_looks_again_when_somebody_was_faster(hands: Hands) -> None:
    hands.store.submit([new_task(queue="default", id="a", name="f")])
    [task] = hands.store.reserve(hands.state.worker_id, ["default"], 1, EVERYTHING)
    real, looks = hands.store.holdings, []

    def holdings(worker: str, queues: Sequence[str] = ()) -> list[Task]:
        found = real(worker, queues)
        looks.append(found)
        if len(looks) == 1:  # between the look and the deed
            control.cancel(hands.store, task.id)
        return found

    hands.store.holdings = holdings  # type: ignore[method-assign]
    options = ThreadOptions(store=hands.store.url, app="none", names=(), threads=1)
    worker = ThreadsWorker(hands.store, hands.state, options)
    assert not worker._try(worker._hand_back)
    assert worker._try(worker._hand_back)
    [after] = hands.store.get(["a"])
    assert after is not None
    assert (after.state, len(looks)) == ("cancelled", 2)


def test_a_lease_that_is_good_in_some_queues_is_not_one_for_threads_of_others(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the pool has said that it runs nothing of them; a late answer to an older question
    does not count."""
    said: list[protocol.Confine] = []
    monkeypatch.setattr(PoolProcess, "send", lambda _, message: said.append(message))
    options = ThreadOptions(
        store=hands.store.url, app="none", names=(), threads=1, queues=("a", "b")
    )
    worker = ThreadsWorker(hands.store, hands.state, options)
    answer = partial(Beat, now=0.0)

    def is_renewed(until: float, proven: tuple[str, ...] | None) -> bool:
        worker._on_beat(until, answer(proven=proven))
        return f"{until:020.6f}" in hands.state.lease_path.read_text()

    worker._on_beat(1.0, answer())
    pool = PoolProcess.__new__(PoolProcess)
    pool._begin_confined(("a", "b"))
    worker._pool = pool
    assert is_renewed(2.0, None)
    assert not is_renewed(3.0, ("a", "c"))
    assert not is_renewed(4.0, ("a",))
    pool._on_confined(protocol.ConfineDone(1))
    assert is_renewed(5.0, ("a",))

    # And again, when it may run all of them
    assert is_renewed(6.0, None)
    assert not is_renewed(7.0, ("a",))
    pool._on_confined(protocol.ConfineDone(2))  # which was to the widening
    assert not is_renewed(8.0, ("a",))
    pool._on_confined(protocol.ConfineDone(3))
    assert is_renewed(9.0, ("a",))
    assert [(each.number, each.queues) for each in said] == [
        (1, ("a",)), (2, ("a", "b")), (3, ("a",)),
    ]  # fmt: skip


def test_nothing_is_handed_back_while_its_keeper_lives_though_its_lock_is_gone(
    hands: Hands,
) -> None:
    held = hands.take("a")
    with subprocess.Popen(["sleep", "1000"]) as keeper, killing(keeper):
        said = {**NOBODY, "keeper": keeper.pid, "keeper_started": tree.started(keeper.pid)}
        (held.run.folder / "running").write_text(json.dumps({**said, "stopped": []}))
        run = hands.state.run_for(held.task)
        assert not run.void()
    assert run.void()


def test_a_lease_counts_from_before_it_was_asked_for(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the answer took: the store counts from when it was asked."""
    asked: list[float] = []
    good_until: list[float] = []
    beat = hands.store.beat

    def noted(*arguments: Any) -> Beat:
        asked.append(moment())
        return beat(*arguments)

    monkeypatch.setattr(hands.store, "beat", noted)
    me = Worker(id=hands.state.worker_id, node="here", pid=1, lease=30.0)
    heartbeat = Heartbeat(
        hands.store,
        me,
        on_orders=print,
        on_lost=print,
        on_beat=lambda until, answer: good_until.append(until),
        last_number=1,
    )
    heartbeat.beat_now()
    assert good_until[0] <= asked[0] + me.lease


def test_a_pause_while_the_store_is_asked_is_not_added_to_the_lease(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a machine that was paused from outside only the wall clock tells, once it is set."""
    now, beat, ahead = time.time, hands.store.beat, 0.0
    good_until: list[float] = []

    def paused(*arguments: Any) -> Beat:
        nonlocal ahead
        ahead += 20.0
        return beat(*arguments)

    monkeypatch.setattr(time, "time", lambda: now() + ahead)
    me = Worker(id=hands.state.worker_id, node="here", pid=1, lease=30.0)
    heartbeat = Heartbeat(
        hands.store,
        me,
        on_orders=print,
        on_lost=print,
        on_beat=lambda until, answer: good_until.append(until),
        last_number=1,
    )
    monkeypatch.setattr(hands.store, "beat", paused)
    heartbeat.beat_now()
    assert good_until[0] < moment() + me.lease - 19.0
    monkeypatch.setattr(hands.store, "beat", beat)
    heartbeat.beat_now()
    monkeypatch.setattr(hands.store, "beat", paused)
    heartbeat.beat_now()
    assert good_until[0] < good_until[1] == good_until[2]  # no beat moves its end back


class SlowJudge:
    """What a judge does, step by step."""

    def __init__(self, hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.over = threading.Event(), threading.Event()
        self.seen: list[dict[str, int]] = []
        self.good_until: list[float] = []
        self.error: Exception | None = None
        monkeypatch.setattr(hands.store, "declare_lost", self._declare_lost)
        self.heartbeat = Heartbeat(
            hands.store,
            Worker(id=hands.state.worker_id, node="here", pid=1, lease=3600.0),
            on_orders=print,
            on_lost=print,
            on_beat=lambda until, answer: self.good_until.append(until),
            last_number=1,
        )
        self.heartbeat._judged_at = -math.inf  # it is time for one

    def _declare_lost(self, judge: str, silent: dict[str, int]) -> list[Task]:
        self.seen.append(silent)
        self.begun.set()
        assert self.over.wait(PATIENCE)
        if self.error is not None:
            raise self.error
        return []

    def beat_until(self, condition: Callable[[], bool]) -> None:
        for _ in range(1000):
            self.heartbeat.beat_now()
            if condition():
                return
            time.sleep(0.001)
        raise AssertionError("nobody judges")


@pytest.fixture
def judge(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowJudge]:
    judge = SlowJudge(hands, monkeypatch)
    yield judge
    judge.over.set()


def test_beats_go_on_while_dead_workers_are_declared_lost(judge: SlowJudge) -> None:
    """Replicas may have to confirm that, and be away: it is no reason to lose a lease."""
    heartbeat, good_until = judge.heartbeat, judge.good_until
    heartbeat.beat_now()
    assert judge.begun.wait(PATIENCE)
    heartbeat.beat_now()
    heartbeat._judged_at = -math.inf
    heartbeat.beat_now()
    assert good_until == sorted(set(good_until))
    assert (len(good_until), judge.seen) == (3, [{}]), "one thread at a time"
    judge.over.set()
    judge.beat_until(lambda: len(judge.seen) > 1)


def test_declaring_lost_that_failed_is_tried_again_with_the_next_beat(judge: SlowJudge) -> None:
    """For who is marked as dead, without a replica that has confirmed it, is no suspect."""
    judge.error = StoreUnreachable("0 of 1 replicas confirmed it")
    judge.over.set()
    judge.beat_until(lambda: len(judge.seen) > 2)
    judge.error = None
    before = len(judge.seen)
    judge.beat_until(lambda: len(judge.seen) > before)
    judging = judge.heartbeat._judging
    assert judging is not None
    judging.join()
    done = len(judge.seen)
    for _ in range(3):
        judge.heartbeat.beat_now()
    assert len(judge.seen) == done, "until a lease has passed"


def test_who_leaves_its_tasks_to_another_does_not_wait_for_its_judge(judge: SlowJudge) -> None:
    judge.heartbeat.beat_now()
    assert judge.begun.wait(PATIENCE)
    judge.heartbeat.abandon()
    judging = judge.heartbeat._judging
    assert judging is not None
    assert judging.is_alive()


def test_who_takes_leave_beats_until_dead_workers_are_declared_lost(
    judge: SlowJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.heartbeat.beat_now()
    assert judge.begun.wait(PATIENCE)
    leaving = threading.Thread(target=judge.heartbeat.stop)
    leaving.start()
    until(lambda: not judge.heartbeat._may_judge, "for it to leave")
    assert not judge.heartbeat._stopping
    judge.over.set()
    leaving.join(PATIENCE)
    assert not leaving.is_alive()


def test_a_pool_whose_lease_was_refused_blames_no_task(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the worker's own is good."""
    options = ThreadOptions(store=hands.store.url, app="none", names=(), threads=1)
    worker = ThreadsWorker(hands.store, hands.state, options)
    assert worker._charged
    worker._explain(LOST_LEASE)
    assert not worker._charged


def test_a_full_disk_keeps_nobody_from_leaving(hands: Hands) -> None:
    write_excuse(hands.state.path / "gone", "its worker stopped")
    write_excuse(hands.state.path, "its worker stopped")
    assert explain_end(hands.state.path) == ("its worker stopped", False)
