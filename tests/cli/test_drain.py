"""`stayer drain`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stayer.core.worker_model import Worker
from stayer.store import Store
from stayer.stores import open_store
from tests.cli.running import Apart, Here
from tests.cli.working import Site
from tests.contract.builders import beat, register
from tests.faults.fleet import until


def the_worker(fleet: Site) -> Worker:
    until(fleet.store.workers, "for the worker to register")
    [found] = fleet.store.workers()
    return found


def assert_it_drains(fleet: Site, pid: int) -> None:
    """It takes no more, finishes what it has, and ends."""
    until(lambda: b"SIGUSR1" in (fleet.folder / "one.log").read_bytes(), "for it to hear")
    fleet.submit("late", "true")
    fleet.finish("t")
    assert fleet.end_of(pid) == 5
    assert fleet.get("t").state == "complete"
    assert fleet.get("late").state == "pending"


@pytest.fixture
def pid(fleet: Site) -> int:
    """A worker at work, on the state directory `one` of the node `one`."""
    pid = fleet.worker()
    fleet.stamper("t")
    fleet.until_stamped("t")
    return pid


def test_the_worker_of_a_state_directory(stayer: Here, fleet: Site, pid: int) -> None:
    id = the_worker(fleet).id
    done = stayer("drain", "--state-dir", str(fleet.folder / "one")).works()

    assert done.out == f"{id} takes no more tasks, and ends when it has none\n"
    assert_it_drains(fleet, pid)


def test_the_worker_with_this_id(stayer: Here, fleet: Site, pid: int) -> None:
    stayer("drain", the_worker(fleet).id).works()

    assert_it_drains(fleet, pid)


def test_the_workers_of_a_node(stayer: Here, fleet: Site, pid: int) -> None:
    stayer("drain", "--node", "one").works()

    assert_it_drains(fleet, pid)


def test_without_a_word_it_is_the_usual_worker(
    stayer: Here, fleet: Site, environment: dict[str, str]
) -> None:
    usual = Path(environment["HOME"]) / ".local/state/stayer/worker"
    process = fleet.start("--allow-commands", "--state-dir", str(usual))
    the_worker(fleet)

    stayer("drain").works()

    assert process.wait(60) == 5


def test_workers_of_two_stores_do_not_meet(
    stayer: Here, apart: Apart, store: Store, tmp_path: Path
) -> None:
    """Each command means the worker of its own store, though nobody names a state directory."""
    worker = ("worker", "--allow-commands", "--lease", "2s")
    other = open_store(f"sqlite:///{tmp_path}/other.db")
    other.setup()
    elsewhere = {"STAYER_STORE": other.url}
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    first = apart.start(*worker, **quiet)
    second = None
    try:
        until(store.workers, "for the first to register")
        second = apart.start(*worker, environment=elsewhere, **quiet)
        until(other.workers, "for the second to register")
        apart(*worker).refuses("another worker", "stayer/worker-2", "--take-over")

        stayer("drain", **elsewhere).works()
        assert second.wait(60) == 5
        stayer("drain", **elsewhere).refuses("no worker of yours has")
        assert first.poll() is None
        stayer("drain").works()
        assert first.wait(60) == 5
    finally:
        for process in (first, second):
            if process is not None:
                process.kill()
                process.wait()
        other.close()


def test_a_worker_that_is_elsewhere_hears_of_it_through_the_store(
    stayer: Here, store: Store
) -> None:
    register(store, "far")
    register(store, "near")

    done = stayer("drain", "--node", "node-of-far").works()

    assert done.out == "far takes no more tasks, and ends when it has none\n"
    assert beat(store, "far", 2).drain
    assert not beat(store, "near", 2).drain


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that a signal would kill."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    yield process
    process.kill()
    process.wait()


def test_a_number_that_was_used_again_is_safe(
    stayer: Here, tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "lock").write_text(str(bystander.pid))
    (state / "identity").write_text('{"id": "gone"}')

    stayer("drain", "--state-dir", str(state)).refuses("no worker of yours has")

    os.kill(bystander.pid, 0)
    assert bystander.poll() is None


def test_unknown_workers_are_refused(stayer: Here, store: Store) -> None:
    stayer("drain", "nobody").refuses("no worker 'nobody'", "stayer workers")
    stayer("drain", "--node", "nowhere").refuses("'nowhere'")
    stayer("drain").refuses("no worker of yours has", "--state-dir")
    stayer("drain", "w", "--node", "n").refuses("only one of them")


def test_a_worker_that_can_not_hear_yet_is_left_alone(
    stayer: Here, tmp_path: Path, environment: dict[str, str]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    deaf = (
        f"import fcntl, os, time; f = open({str(state / 'lock')!r}, 'w+'); "
        "fcntl.flock(f, fcntl.LOCK_EX); f.write(str(os.getpid())); f.flush(); "
        "print('ready', flush=True); time.sleep(1000)"
    )
    process = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        try:
            process.stdout.readline()
            stayer("drain", "--state-dir", str(state)).refuses("just starting")
        finally:
            process.kill()
            assert process.wait() == -signal.SIGKILL
