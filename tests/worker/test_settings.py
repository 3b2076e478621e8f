"""What a task says of its own limits, what is set later, and what the worker reads anew."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from stayer.core.model import Policy
from stayer.service.control import tasks as control
from stayer.worker.options import Options
from tests.faults.fleet import Fleet, until


def test_a_tasks_own_limits_go_before_the_workers() -> None:
    options = Options(grace=30.0, time_limit=100.0, memory_limit=5)
    spec = options.for_keeper(Policy(grace=1.0, time_limit=7.0, silence_limit=3.0, fence="kill"))
    assert spec["limits"] == {"time": 7.0, "silence": 3.0, "memory": 5}
    assert (spec["grace"], spec["fence"]) == (1.0, "kill")


def test_a_task_may_say_that_it_has_no_limit() -> None:
    assert Options(time_limit=100.0).for_keeper(Policy(time_limit=0.0))["limits"] == {}


def test_keeping_is_the_workers_to_say() -> None:
    assert Options(fence="keep").for_keeper(Policy(fence="kill"))["fence"] == "keep"


def test_a_tasks_own_time_limit_ends_it(fleet: Fleet) -> None:
    fleet.worker(lease=30)
    fleet.submit("a", "sleep", "1000", time_limit=0.3, grace=0.1)
    task = fleet.until_ended("a")
    assert (task.state, task.ending) == ("failed", "timeout")


def test_a_deadline_ends_it_and_there_is_no_retry(fleet: Fleet) -> None:
    fleet.worker(lease=30)
    fleet.submit("a", "sleep", "1000", deadline=3.0, retries=5, retry_wait=0.01, grace=0.1)
    task = fleet.until_ended("a")
    assert (task.state, task.ending, fleet.endings("a")) == ("failed", "expired", ["expired"])
    assert task.error is not None
    assert task.error.message == "its deadline came while it ran"


def test_what_is_set_holds_for_the_next_attempt_too(fleet: Fleet) -> None:
    fleet.worker(lease=30)
    fleet.submit("a", "sleep", "1000", retries=1, retry_wait=0.01, grace=0.1)
    fleet.until_state("a", "started")
    control.set(fleet.store, "a", limits={"time": 0.5})
    assert fleet.until_ended("a").state == "failed"
    assert fleet.endings("a") == ["timeout", "timeout"]


def test_more_time_is_given_once_whoever_carries_it_out(fleet: Fleet) -> None:
    """The worker dies after it has passed the order on and before it could say so."""
    one = fleet.worker("one", lease=30)
    fleet.submit("a", "sleep", "1000", time_limit=1000.0)
    fleet.until_state("a", "started")
    [run] = (fleet.folder / "one" / "run").iterdir()
    fleet.signal(one, signal.SIGSTOP)
    control.set(fleet.store, "a", more_time=50.0)
    order = fleet.get("a").orders[-1]
    # As that worker would have left it.
    (run / "go").write_text(f'{{"seen": {order.number}, "limits": {{"time": 1050.0}}}}')
    fleet.signal(one, signal.SIGKILL)
    fleet.worker("one", lease=30)
    until(lambda: fleet.get("a").orders == ())
    assert '"time": 1050.0' in (run / "go").read_text()
    assert fleet.get("a").policy.time_limit == 1050.0
    control.set(fleet.store, "a", more_time=50.0)
    until(lambda: '"time": 1100.0' in (run / "go").read_text())
    control.cancel(fleet.store, "a", grace=0)
    fleet.until_ended("a")


@pytest.mark.parametrize("first", ["a", "b"])
def test_priorities_can_be_changed_while_tasks_wait(fleet: Fleet, first: str) -> None:
    for id in ("a", "b"):
        fleet.submit(id, "sh", "-c", f"echo {id} >> {fleet.folder}/order")
    control.set(fleet.store, first, priority=9)
    fleet.worker(slots=1)
    for id in ("a", "b"):
        fleet.until_ended(id)
    assert (fleet.folder / "order").read_text().split()[0] == first


def test_usr2_reads_slots_and_limits_anew(fleet: Fleet) -> None:
    config = fleet.folder / "stayer.toml"
    config.write_text("[worker]\nslots = 1\n")
    one = fleet.worker("one", "--config", str(config), slots=None, lease=30)
    for id in ("a", "b"):
        fleet.submit(id, "sleep", "1000")
    until(lambda: sorted(fleet.get(id).state for id in "ab") == ["pending", "started"])
    _tell(fleet, one, config, "[worker]\nslots = nonsense\n", "can't be used")
    _tell(fleet, one, config, '[worker]\nslots = 2\ntime_limit = "1s"\ngrace = "0s"\n', "2 slots")
    until(lambda: [worker.slots for worker in fleet.store.workers()] == [2])
    until(lambda: "timeout" in [*fleet.endings("a"), *fleet.endings("b")], "for the new limit")
    for id in "ab":
        if fleet.get(id).state == "started":
            control.cancel(fleet.store, id, grace=0)
        fleet.until_ended(id)


def _tell(fleet: Fleet, worker: int, config: Path, content: str, answer: str) -> None:
    config.write_text(content)
    fleet.signal(worker, signal.SIGUSR2)
    until(lambda: answer in (fleet.folder / "one.log").read_text(), f"for {answer!r}")


def test_a_drained_worker_says_so_by_its_exit_code(fleet: Fleet) -> None:
    one = fleet.worker("one", lease=30)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.signal(one, signal.SIGUSR1)
    until(lambda: [worker.state for worker in fleet.store.workers()] == ["DRAINING"])
    fleet.finish("a")
    assert fleet.end_of(one) == 5
    assert fleet.until_ended("a").state == "complete"


def test_a_cancel_gives_the_task_its_own_grace(fleet: Fleet) -> None:
    """Not the worker's, which would be longer than anybody's patience."""
    fleet.worker("one", "--grace", "100000s")
    fleet.submit("a", "sh", "-c", "trap '' TERM; sleep 100000 & wait; wait", grace=0.1)
    fleet.until_state("a", "started")
    control.cancel(fleet.store, "a")
    assert fleet.until_ended("a").state == "cancelled"
