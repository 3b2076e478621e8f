"""The store does not answer; tasks go on or stand still, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from stayer.service.lease.heartbeat import moment
from tests.faults.fleet import Fleet, until

HOLD = """
import fcntl, os, sqlite3, sys
lock = os.open(sys.argv[1] + "-lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def store_gone(fleet: Fleet) -> Iterator[None]:
    """Nobody can write: for the workers the store is out of reach."""
    command = [sys.executable, "-c", HOLD, str(fleet.folder / "stayer.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.communicate()


def test_a_task_is_frozen_when_the_lease_is_over_and_goes_on_afterwards(fleet: Fleet) -> None:
    # A keeper that does not get to it in time, a sixth of the lease, is killed: so much has to be
    # enough on a busy machine.
    fleet.worker("one", lease=6.0)
    fleet.worker("two", lease=6.0)
    fleet.stamper("a")
    fleet.until_stamped("a")
    until(lambda: fleet.get("a").state == "started")
    home = fleet.get("a").node
    assert home is not None
    with store_gone(fleet):
        running = fleet.folder / home / "run" / "a.1" / "running"
        until(lambda: "fenced" in json.loads(running.read_text())["stopped"])
        before = len(fleet.read_stamps("a")[1])
    fleet.until_stamped("a", more_than=before + 20)
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 1)
    assert list(fleet.read_stamps("a")) == [1]
    [thawed] = [event for event in fleet.store.events("a") if event.event == "thawed"]
    assert "without a lease" in (thawed.note or "")


def test_what_ends_while_the_store_is_gone_is_recorded_once(fleet: Fleet) -> None:
    fleet.worker("one", lease=60)
    fleet.stamper("a")
    fleet.until_stamped("a")
    until(lambda: fleet.get("a").state == "started")
    with store_gone(fleet):
        fleet.finish("a")
        until((fleet.folder / "one" / "run" / "a.1" / "exit").exists)
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 1)
    assert fleet.endings("a") == ["done"]
    until(lambda: not (fleet.folder / "one" / "run" / "a.1").exists())


def test_a_worker_waits_for_a_store_that_is_not_there_yet(fleet: Fleet) -> None:
    with store_gone(fleet):
        fleet.worker("one")
    fleet.submit("a", "true")
    assert fleet.until_ended("a").state == "complete"


def test_time_limits_stand_still_while_a_task_is_frozen(fleet: Fleet) -> None:
    """It is charged only for the time that it could run."""
    fleet.worker("one")
    began = moment()
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    running = fleet.folder / "one" / "run" / "a.1" / "running"
    with store_gone(fleet):
        until(lambda: "fenced" in json.loads(running.read_text())["stopped"])
        frozen = moment()
        until(lambda: moment() > frozen + 2 * (frozen - began))
        stood_still = moment() - frozen
        before = len(fleet.read_stamps("a")[1])
    fleet.until_stamped("a", more_than=before)
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert task.usage is not None
    assert task.usage.ran <= moment() - began - stood_still
