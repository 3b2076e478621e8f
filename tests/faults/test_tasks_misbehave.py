"""Keepers are killed, trees are nasty, tasks do their worst."""

from __future__ import annotations

import os
import signal

import pytest

from stayer.service.control import tasks as control
from tests.faults.fleet import TASK_USER, Fleet, until

NASTY = {
    "setsid": "setsid sleep 1000 & sleep 1000",
    "double fork": "(sh -c 'sleep 1000 & sleep 1000' &) ; sleep 1000",
    "deaf": "trap '' TERM; sleep 1000 & wait; sleep 1000",
    "respawning": "trap 'exec sh \"$0\"' TERM; while :; do sleep 0.05; sh -c 'sleep 1000' & done",
}


@pytest.mark.parametrize("kind", NASTY)
def test_cancelled_means_that_nothing_is_left(fleet: Fleet, kind: str) -> None:
    fleet.worker("one", lease=30)
    fleet.submit("a", "sh", "-c", NASTY[kind])
    fleet.until_state("a", "started")
    until(lambda: len(fleet.strays()) > 1)
    control.cancel(fleet.store, "a", grace=0.2)
    task = fleet.until_ended("a")
    assert (task.state, task.ending) == ("cancelled", "cancelled")
    assert fleet.strays() == []


def test_a_killed_keeper_takes_its_task_with_it_and_is_named(fleet: Fleet) -> None:
    fleet.worker("one", lease=30, slots=1)
    fleet.submit("a", "sh", "-c", "setsid sleep 1000 & sleep 1000")
    fleet.until_state("a", "started")
    until(lambda: len(fleet.strays()) == 3)
    _, keeper = fleet.keepers("one")
    seen = fleet.strays()
    os.kill(keeper, signal.SIGKILL)
    until(lambda: fleet.endings("a")[:1] == ["lost"])
    assert not set(seen) & set(fleet.strays())
    control.cancel(fleet.store, "a", grace=0)
    fleet.until_ended("a")


def test_a_stopped_keeper_is_fenced_by_the_kernel(fleet: Fleet) -> None:
    """Its worker is gone too, so nobody renews; another one gets the task, without overlap."""
    one = fleet.worker("one")
    fleet.stamper("a")
    fleet.until_stamped("a")
    until(lambda: fleet.get("a").state == "started")
    _, keeper = fleet.keepers("one")
    fleet.worker("two")
    os.kill(keeper, signal.SIGSTOP)
    fleet.signal(one, signal.SIGKILL)
    fleet.until_stamped("a", attempt=2, more_than=50)
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"
    fleet.assert_no_overlap("a")


@pytest.mark.parametrize(
    ("script", "ending", "type", "said"),
    [
        ("kill -9 $$", "killed", "Killed", "SIGKILL"),
        ("kill -SEGV $$", "killed", "Killed", "SIGSEGV"),
        ("echo out; echo err >&2; exit 7", "error", "ExitCode", "7"),
        ("head -c 5000 /dev/urandom; exit 1", "error", "ExitCode", "1"),
    ],
)
def test_how_a_task_ended_is_told(
    fleet: Fleet, script: str, ending: str, type: str, said: str
) -> None:
    fleet.worker("one", lease=30)
    fleet.submit("a", "sh", "-c", script)
    task = fleet.until_ended("a")
    assert (task.state, task.ending, task.failures) == ("failed", ending, 1)
    assert task.error is not None
    assert task.error.type == type
    assert said in task.error.message


@pytest.mark.parametrize(
    ("limit", "script", "ending", "said"),
    [
        ({"time_limit": 1.0}, "sleep 1000", "timeout", "time limit of 1s"),
        ({"silence_limit": 1.0}, "echo hi; sleep 1000", "silent", "limit of 1s"),
        (
            {"memory_limit": 30_000_000},
            "python3 -c 'import time; x = bytearray(100_000_000); time.sleep(1000)'",
            "oom",
            "its limit of 30",
        ),
    ],
)
def test_a_limit_that_was_exceeded_is_named(
    fleet: Fleet, limit: dict[str, float], script: str, ending: str, said: str
) -> None:
    fleet.worker("one", lease=30)
    fleet.submit("a", "sh", "-c", script, grace=0.1, **limit)
    task = fleet.until_ended("a")
    assert (task.state, task.ending) == ("failed", ending)
    assert task.error is not None
    assert said in task.error.message


def test_a_command_that_is_not_there_is_told(fleet: Fleet) -> None:
    fleet.worker("one", lease=30)
    fleet.submit("a", "no-such-program")
    fleet.submit("b", "true", cwd="/no/such/folder")
    for id, said in (("a", "no-such-program"), ("b", "/no/such/folder")):
        task = fleet.until_ended(id)
        assert task.state == "failed"
        assert task.error is not None
        assert said in task.error.message


def test_a_flood_of_output_is_bounded_in_the_store(fleet: Fleet) -> None:
    fleet.worker("one", lease=30)
    fleet.submit("a", fleet.python, "-c", "import sys\nfor n in range(200_000): print(f'{n:0>99}')")
    assert fleet.until_ended("a").state == "complete"
    pieces = fleet.store.log("a", 1, 0, 100_000_000)
    text = b"".join(piece.data for piece in pieces)
    assert text.startswith(b"0" * 99 + b"\n")
    assert text.endswith(b"199999\n")
    assert len(text) < 7_000_000


def test_many_children_do_no_harm(fleet: Fleet) -> None:
    fleet.worker("one", lease=30)
    fleet.submit("a", "sh", "-c", "for i in $(seq 300); do sleep 1000 & done; wait")
    until(lambda: len(fleet.strays()) > 250)
    control.cancel(fleet.store, "a", grace=0)
    assert fleet.until_ended("a").state == "cancelled"
    assert fleet.strays() == []


@pytest.mark.skipif(TASK_USER is not None, reason="a task of another user can't kill its keeper")
def test_a_task_that_kills_its_keeper_each_time_is_set_aside(fleet: Fleet) -> None:
    fleet.worker("one", lease=30)
    until_started = (
        "import os, signal, time; time.sleep(0.5); os.kill(os.getppid(), signal.SIGKILL)"
    )
    fleet.submit("a", fleet.python, "-c", until_started)
    task = fleet.until_ended("a")
    assert (task.state, task.ending) == ("failed", "lost")
    assert task.error is not None
    assert "set aside" in task.error.message
    assert fleet.endings("a") == ["lost", "lost", "lost"]


def test_a_task_may_be_paused_and_resumed(fleet: Fleet) -> None:
    from stayer.core.happenings import Ask
    from stayer.core.lifecycle import decide

    fleet.worker("one", lease=30)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    fleet.store.commit([decide(fleet.get("a"), Ask("pause"))])
    running = fleet.folder / "one" / "run" / "a.1" / "running"
    until(lambda: "paused" in running.read_text())
    before = len(fleet.read_stamps("a")[1])
    fleet.store.commit([decide(fleet.get("a"), Ask("resume"))])
    fleet.until_stamped("a", more_than=before)
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"
