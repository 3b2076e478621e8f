"""What a worker tells the store, and when it must not."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from stayer.core.errors import StoreUnreachable
from stayer.core.happenings import Done, Fail, Start
from stayer.core.lifecycle import decide
from stayer.core.model import Change, Fault, Order, Progress, Report, Task
from stayer.core.submit.checks import new_task
from stayer.core.worker_model import EVERYTHING, Worker
from stayer.service.control import workers as worker_control
from stayer.service.lease.heartbeat import Heartbeat
from stayer.store import Store
from stayer.worker.attempt import HeldAttempt
from stayer.worker.commit_outcomes import settle_outcomes
from stayer.worker.keeper_orders import carry_out
from stayer.worker.threads.commit_outcomes import OutcomeCommitter
from stayer.worker.threads.context import ThreadContext
from stayer.worker.threads.executor import Job
from stayer.worker.threads.main import LOCK
from stayer.worker.threads.worker import ThreadOptions, ThreadsWorker
from tests.worker.test_attempts import Hands, hands, killing

__all__ = ("hands",)

HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(1000)
"""


def test_an_order_that_could_not_be_passed_on_is_not_acknowledged(hands: Hands) -> None:
    held = hands.take("a")
    shutil.rmtree(held.run.folder)
    assert carry_out(held, [Order(1, "pause", {}), Order(2, "resume", {})]) == 0


def test_what_becomes_of_a_failure_is_not_decided_unseen(hands: Hands) -> None:
    """Of what was adopted while the store was away, its policy is not known."""
    new = new_task(queue="default", id="a", command=["false"], retries=1)
    hands.store.submit([new])
    [task] = hands.store.reserve(hands.state.worker_id, ["default"], 1, EVERYTHING)
    [started] = hands.store.commit([decide(task, Start(1))])
    assert started is not None
    run = hands.state.run_for(started)
    run.prepare(started, {"limits": {}}, None)
    run.declare_end({"exit_code": 1, "stop": None})
    unseen = Task("a", "default", state="started", worker=hands.state.worker_id, attempt=1)
    held = HeldAttempt(unseen, run)
    held.known = False
    assert settle_outcomes(hands.store, [held]) == [held]
    [after] = hands.store.get(["a"])
    assert after is not None
    assert (after.failures, after.state in ("pending", "scheduled")) == (1, True)


def test_a_loss_is_counted_from_what_the_store_knows(hands: Hands) -> None:
    """Not from the worker's copy: progress since the reservation has set the count to 0."""
    held = hands.take("a")
    held.task = replace(held.task, losses=2)  # as they were when it was taken
    news = Report(id="a", attempt=1, progress=Progress(done=1.0))
    hands.store.beat(worker_like(hands), 2, "second", [news])
    held.run.declare_end({"keeper_died": 9, "stop": None})
    assert settle_outcomes(hands.store, [held]) == [held]
    [after] = hands.store.get(["a"])
    assert after is not None
    assert (after.state, after.losses) == ("pending", 1)


def test_a_late_result_brings_the_checkpoint_that_no_beat_could(hands: Hands) -> None:
    held = hands.take("a")
    judge = replace(worker_like(hands), id="judge")
    hands.store.beat(judge, 1, "first", [])
    [known] = [each for each in hands.store.workers() if each.id == hands.state.worker_id]
    lost = hands.store.declare_lost("judge", {known.id: known.number})
    assert worker_control.return_lost_tasks(hands.store, lost) == 1
    (held.run.task_folder / "checkpoint").write_bytes(b"the last of it")
    held.run.declare_end({"exit_code": 0, "signal": None, "stop": None})
    assert settle_outcomes(hands.store, [held]) == [held]
    [after] = hands.store.get(["a"])
    saved = hands.store.checkpoint("a")
    assert after is not None
    assert (after.state, saved and saved.data) == ("complete", b"the last of it")


def test_a_clock_that_is_set_back_does_not_make_a_run_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With SQLite the store's clock is that of this machine."""
    year = 365 * 86400.0
    began = time.time()
    hands = Hands(tmp_path)
    held = hands.take("a")
    held.run.declare_end({"exit_code": 0, "signal": None, "stop": None, "took": 40.0})
    monkeypatch.setattr("time.time", lambda: began - year)
    monkeypatch.setattr(hands.store._database, "clock", lambda: began - year)  # type: ignore[attr-defined]
    assert settle_outcomes(hands.store, [held]) == [held]
    [after] = hands.store.get(["a"])
    assert after is not None
    assert after.started_at is not None
    assert after.finished_at is not None
    assert after.started_at >= began
    assert after.finished_at - after.started_at == pytest.approx(40.0, abs=0.1)
    hands.state.close()
    hands.store.close()


def worker_like(hands: Hands) -> Worker:
    """What the store knows of the worker."""
    return next(each for each in hands.store.workers() if each.id == hands.state.worker_id)


class Unheard:
    """A store that does what is committed, and can't say so the first time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_heard = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, changes: Sequence[Change]) -> list[Task | None]:
        answers = self._store.commit(changes)
        self._hear()
        return answers

    def turn(self, *given: Any) -> Any:
        answers = self._store.turn(*given)
        self._hear()
        return answers

    def _hear(self) -> None:
        is_heard, self._is_heard = self._is_heard, True
        if not is_heard:
            raise StoreUnreachable("0 of 1 replicas confirmed it")


@pytest.mark.parametrize(
    ("exit_code", "said"), [(0, "task a (true) is complete"), (1, "task a (true) ended")]
)
def test_an_end_that_is_told_twice_is_told_in_the_log_as_any_other(
    hands: Hands, caplog: pytest.LogCaptureFixture, exit_code: int, said: str
) -> None:
    caplog.set_level("INFO")
    hands.store.submit([new_task(queue="default", id="a", command=["true"], retries=1)])
    [task] = hands.store.reserve(hands.state.worker_id, ["default"], 1, EVERYTHING)
    run = hands.state.run_for(task)
    run.prepare(task, {"limits": {}}, None)
    run.declare_end({"exit_code": exit_code, "stop": None})
    held = HeldAttempt(task, run)
    store: Any = Unheard(hands.store)
    with pytest.raises(StoreUnreachable):
        settle_outcomes(store, [held])
    assert settle_outcomes(store, [held]) == [held]
    assert said in caplog.text
    assert "refused" not in caplog.text


@pytest.mark.parametrize("outcome", [Done(1), Fail(Fault("E", "why"))])
def test_the_same_of_a_pool(
    hands: Hands, caplog: pytest.LogCaptureFixture, outcome: Done | Fail
) -> None:
    hands.store.submit([new_task(queue="default", id="a", name="f", retries=1)])
    [task] = hands.store.reserve(hands.state.worker_id, ["default"], 1, EVERYTHING)
    store: Any = Unheard(hands.store)
    settling = OutcomeCommitter(store, hands.state.worker_id, 1)
    context = ThreadContext(task, hands.store, lambda *_, **__: None)
    job = Job(task, context, False, 0.0)
    job.end_with(outcome)
    settling.add(job)
    with pytest.raises(StoreUnreachable):
        settling.turn(["default"], 0, EVERYTHING, None)
    assert settling.turn(["default"], 0, EVERYTHING, None) == ([job], [])
    assert ("task a (f) ended (error, E: why)" in caplog.text) == isinstance(outcome, Fail)
    assert "refused" not in caplog.text


def test_what_a_pool_held_is_handed_back_only_when_it_is_gone(hands: Hands) -> None:
    hands.store.submit([new_task(queue="default", id="a", name="f")])
    hands.store.reserve(hands.state.worker_id, ["default"], 1, EVERYTHING)
    options = ThreadOptions(store=hands.store.url, app="none", names=(), threads=1)
    worker = ThreadsWorker(hands.store, hands.state, options)
    me = Worker(id=hands.state.worker_id, node="here", pid=1)
    worker._heartbeat = Heartbeat(hands.store, me, on_orders=print, on_lost=print, last_number=1)
    arguments = [sys.executable, "-c", HOLD, str(hands.state.path / LOCK)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as pool, killing(pool):
        assert pool.stdout is not None
        assert pool.stdout.readline() == b"held\n"
        worker._take_back()
        assert [task.state for task in hands.store.get(["a"]) if task] == ["reserved"]
    worker._take_back()
    assert [task.state for task in hands.store.get(["a"]) if task] == ["pending"]
