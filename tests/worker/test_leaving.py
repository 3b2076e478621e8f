"""Workers that come and go: take-overs, a quick end without a store, what is left behind."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from stayer.service.control import tasks as control
from stayer.worker import state_directory
from stayer.worker.state_directory import StateDirectory
from tests.contract.builders import in_thread
from tests.faults.fleet import Fleet, until
from tests.faults.test_store_gone import store_gone


def _stamping(fleet: Fleet, id: str = "a") -> None:
    fleet.stamper(id)
    fleet.until_stamped(id)
    fleet.until_state(id, "started")


def test_of_two_that_take_over_one_stays_and_the_other_goes(fleet: Fleet) -> None:
    old = fleet.worker(lease=30)
    _stamping(fleet)
    new = [fleet.worker(lease=30, take_over=True) for _ in range(2)]
    fleet.end_of(old)
    processes = fleet.workers[1:]
    until(lambda: [process.poll() is None for process in processes].count(True) == 1)
    [left] = [process.pid for process in processes if process.poll() is None]
    until(lambda: [worker.pid for worker in fleet.store.workers()] == [left])
    assert left in new
    fleet.finish("a")
    assert fleet.until_ended("a").attempt == 1


DEAF_AT_FIRST = """
import fcntl, os, signal, sys
heard = []
signal.signal(signal.SIGHUP, lambda *_: heard.append(1))
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
os.pwrite(lock, str(os.getpid()).encode(), 0)
print("ready", flush=True)
while len(heard) < 2:
    signal.pause()
"""


def test_who_did_not_hear_that_it_is_to_leave_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under nohup, where HUP is nothing until a worker has begun to listen."""
    monkeypatch.setattr(state_directory, "_ASK_HOLDER_EVERY_S", 0.05)
    with subprocess.Popen(
        [sys.executable, "-c", DEAF_AT_FIRST, str(tmp_path / "lock")], stdout=subprocess.PIPE
    ) as old:
        assert old.stdout is not None
        assert old.stdout.readline() == b"ready\n"
        try:
            in_thread(partial(StateDirectory(tmp_path, "one").open, take_over=True))()
        finally:
            old.kill()
    assert old.returncode == 0


def test_a_take_over_says_whom_it_waits_for(fleet: Fleet) -> None:
    old = fleet.worker(lease=30)
    until(fleet.store.workers)
    fleet.signal(old, signal.SIGSTOP)
    new = fleet.worker(lease=30, take_over=True)
    log = fleet.folder / "one.log"
    until(lambda: f"waiting for worker process {old}" in log.read_text())
    assert "it is stopped" in log.read_text()
    fleet.signal(old, signal.SIGCONT)
    assert fleet.end_of(old) == 0
    until(lambda: [worker.pid for worker in fleet.store.workers()] == [new])


def test_a_process_that_has_only_the_number_of_an_old_worker_is_spared(fleet: Fleet) -> None:
    """The lock file names it; but it is not it that has the lock."""
    old = fleet.worker(lease=30)
    until(fleet.store.workers)
    lock = os.open(fleet.folder / "one" / "lock", os.O_WRONLY)
    bystander = fleet.worker("two", lease=30)
    until(lambda: len(fleet.store.workers()) == 2)
    os.pwrite(lock, str(bystander).encode().ljust(20), 0)
    fleet.worker(lease=30, take_over=True)
    log = fleet.folder / "one.log"
    until(lambda: "waiting for worker process ?" in log.read_text())
    os.pwrite(lock, str(old).encode().ljust(20), 0)
    os.close(lock)
    assert fleet.end_of(old) == 0
    assert "SIGHUP" not in (fleet.folder / "two.log").read_text()


@pytest.mark.parametrize("signals", [["QUIT"], ["TERM", "QUIT"], ["INT", "INT"]])
def test_who_is_in_a_hurry_does_not_wait_for_the_grace(fleet: Fleet, signals: list[str]) -> None:
    worker = fleet.worker("one", "--grace", "1h", lease=60)
    deaf = f"trap '' TERM; touch {fleet.folder}/deaf; while :; do sleep 0.05; done"
    fleet.submit("a", "sh", "-c", deaf)
    until((fleet.folder / "deaf").exists)
    fleet.until_state("a", "started")
    log = fleet.folder / "one.log"
    for name in signals:
        heard = log.read_text().count("got SIG")
        os.kill(worker, signal.Signals[f"SIG{name}"])
        until(lambda heard=heard: log.read_text().count("got SIG") > heard)  # type: ignore[misc]
    assert fleet.end_of(worker) == 0
    assert (fleet.get("a").state, fleet.endings("a")) == ("pending", ["interrupted"])
    assert not fleet.strays()


def test_quit_leaves_outcomes_to_the_next_worker_if_the_store_is_gone(fleet: Fleet) -> None:
    worker = fleet.worker(lease=60)
    _stamping(fleet)
    with store_gone(fleet):
        fleet.signal(worker, signal.SIGTERM)
        until((fleet.folder / "one" / "run" / "a.1" / "exit").exists)
        fleet.signal(worker, signal.SIGQUIT)
        assert fleet.end_of(worker) == 0
    assert fleet.get("a").state == "started"
    fleet.worker(lease=60)
    fleet.until_stamped("a", attempt=2)
    assert fleet.endings("a") == ["interrupted", None]


def test_a_paused_task_that_is_handed_back_is_held(fleet: Fleet) -> None:
    worker = fleet.worker("one", lease=10)
    _stamping(fleet)
    control.pause(fleet.store, "a")
    until(lambda: fleet.get("a").paused)
    fleet.worker("two", lease=10)
    until(lambda: len(fleet.store.workers()) == 2)
    fleet.signal(worker, signal.SIGTERM)
    assert fleet.end_of(worker) == 0
    task = fleet.get("a")
    assert (task.state, task.held) == ("pending", True)
    control.release(fleet.store, "a")
    fleet.until_stamped("a", attempt=2)
    until(lambda: fleet.get("a").state == "started")
    assert not fleet.get("a").paused


def test_a_task_that_was_resumed_is_not_held(fleet: Fleet) -> None:
    worker = fleet.worker("one", lease=10)
    _stamping(fleet)
    control.pause(fleet.store, "a")
    until(lambda: fleet.get("a").paused)
    control.resume(fleet.store, "a")
    until(lambda: not fleet.get("a").paused)
    fleet.signal(worker, signal.SIGTERM)
    assert fleet.end_of(worker) == 0
    assert (fleet.get("a").state, fleet.get("a").held) == ("pending", False)


def test_what_was_left_before_a_reboot_is_removed(fleet: Fleet) -> None:
    one = fleet.worker("one")
    _stamping(fleet)
    [old] = fleet.store.workers()
    fleet.signal(one, signal.SIGSTOP)
    for pid in fleet.keepers("one"):
        os.kill(pid, signal.SIGKILL)
    fleet.signal(one, signal.SIGKILL)
    until(lambda: not fleet.strays())
    folder = fleet.folder / "one"
    identity = folder / "identity"
    identity.write_text(json.dumps({**json.loads(identity.read_text()), "boot": "another"}))
    two = fleet.worker("two")
    fleet.until_stamped("a", attempt=2)
    assert (folder / "run" / "a.1").exists()
    fleet.worker("one")
    until(lambda: not (folder / "run" / "a.1").exists(), "for its run directory to go")
    until(lambda: not (folder / f"lease-{old.id}").exists())
    assert [path.name for path in folder.glob("lease-*")] != []
    fleet.signal(two, signal.SIGKILL)


def test_one_row_with_orders_that_make_no_sense_stops_nobody_else(fleet: Fleet) -> None:
    fleet.worker("one")
    for id in ("bad", "good"):
        fleet.submit(id, "sh", "-c", 'echo 1/2 >> "$STAYER_REPORT"; sleep 1000')
        fleet.until_state(id, "started")
    with sqlite3.connect(fleet.folder / "stayer.db", timeout=30) as db:
        db.execute("UPDATE stayer_tasks SET orders = '{no json', last_order = 1 WHERE id = 'bad'")
    db.close()
    [before] = fleet.store.workers()
    until(lambda: fleet.store.workers()[0].number > before.number + 3, "for more beats")
    control.cancel(fleet.store, "good", grace=0)
    assert fleet.until_ended("good").state == "cancelled"
