"""The fence: what can no longer be proven to be ours stands still, or ends."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from stayer.keeper.kernel import moment
from tests.keeper.harness import PYTHON, Attempt, Node, state_of, wait_for

FENCED = ["fenced"]


def lose(node: Node, attempt: Attempt) -> float:
    """Let the lease run out; when the kernel would kill, once the task is frozen."""
    until = node.renew(10.2, length=60.0)
    attempt.look()
    wait_for(lambda: "fenced" in attempt.stopped(), "the fence")
    return until - 5.0


def test_a_frozen_task_stands_still_and_is_not_over(node: Node) -> None:
    attempt = node.nasty("double_fork")
    limit = lose(node, attempt)
    last = attempt.last_stamp()
    assert last < limit
    attempt.make_it_look()
    assert attempt.last_stamp() == last
    assert state_of(attempt.running()["pid"]) == "T"
    assert attempt.read("exit") is None


def test_a_renewed_lease_alone_thaws_nothing(node: Node) -> None:
    attempt = node.nasty("double_fork")
    lose(node, attempt)
    last = attempt.last_stamp()
    node.renew()
    attempt.make_it_look()
    assert attempt.stopped() == FENCED
    assert attempt.last_stamp() == last


def test_a_go_ahead_from_before_the_freeze_thaws_nothing(node: Node) -> None:
    attempt = node.nasty("plain")
    before = moment()
    lose(node, attempt)
    last = attempt.last_stamp()
    node.renew()
    # Said with both: the keeper has certainly read it, and had nothing else to hold the task by.
    attempt.go(thaw=before, paused=True)
    wait_for(lambda: "paused" in attempt.stopped())
    attempt.go(thaw=before)
    wait_for(lambda: "paused" not in attempt.stopped())
    assert attempt.stopped() == FENCED
    assert attempt.last_stamp() == last


def test_a_go_ahead_without_a_lease_thaws_nothing(node: Node) -> None:
    """Nor later, when the lease is good: it was not asked under that lease."""
    attempt = node.nasty("plain")
    lose(node, attempt)
    last = attempt.last_stamp()
    after = moment()
    attempt.go(thaw=after, paused=True)
    wait_for(lambda: attempt.stopped() == ["fenced", "paused"])
    attempt.go(thaw=after)
    wait_for(lambda: attempt.stopped() == FENCED)
    assert attempt.last_stamp() == last
    node.renew()
    attempt.make_it_look()
    assert attempt.stopped() == FENCED
    assert attempt.last_stamp() == last
    attempt.go(thaw=moment())
    wait_for(lambda: attempt.stopped() == [], "the thaw")
    wait_for(lambda: attempt.last_stamp() > last, "a sign of life")


def test_a_thawed_task_is_fenced_again(node: Node) -> None:
    attempt = node.nasty("setsid")
    lose(node, attempt)
    node.renew()
    attempt.go(thaw=moment())
    wait_for(lambda: attempt.stopped() == [], "the thaw")
    limit = lose(node, attempt)
    assert attempt.last_stamp() < limit


def test_a_frozen_task_is_cancelled_without_waking_it(node: Node) -> None:
    attempt = node.nasty("plain")
    lose(node, attempt)
    last = attempt.last_stamp()
    ended = attempt.cancel(grace=1000.0)
    assert (ended["stop"]["why"], ended["signal"]) == ("cancel", signal.SIGKILL)
    assert attempt.nothing_is_left()
    assert attempt.last_stamp() == last


def test_a_void_lease_ends_a_frozen_task_without_waking_it(node: Node) -> None:
    attempt = node.nasty("double_fork")
    lose(node, attempt)
    last = attempt.last_stamp()
    node.void()
    attempt.look()
    assert attempt.exit()["stop"]["why"] == "fence"
    assert attempt.nothing_is_left()
    assert attempt.last_stamp() == last


def test_a_cancelled_task_that_loses_its_lease_was_cancelled(node: Node) -> None:
    attempt = node.nasty("ignores_term")
    attempt.go(stop={"why": "cancel", "grace": 1000.0})
    wait_for(lambda: attempt.running()["stop"])
    node.renew(10.2, length=60.0)
    attempt.look()
    assert attempt.exit()["stop"]["why"] == "cancel"
    assert attempt.nothing_is_left()


@pytest.mark.parametrize("fence", ["freeze", "kill", "keep"])
def test_a_void_lease_ends_every_task(node: Node, fence: str) -> None:
    attempt = node.nasty("ignores_term", fence=fence)
    node.void()
    attempt.look()
    assert attempt.exit()["stop"]["why"] == "fence"
    assert attempt.nothing_is_left()


def test_a_lease_of_another_boot_ends_the_task(node: Node) -> None:
    attempt = node.nasty("plain")
    node.renew(boot="00000000-0000-4000-8000-000000000000")
    attempt.look()
    assert attempt.exit()["stop"]["why"] == "fence"


def test_a_task_may_choose_to_be_killed(node: Node) -> None:
    attempt = node.nasty("ignores_term", fence="kill")
    until = node.renew(10.2, length=60.0)
    attempt.look()
    assert attempt.exit()["stop"]["why"] == "fence"
    assert attempt.last_stamp() < until


def test_a_task_may_choose_to_go_on_until_its_worker_is_given_up(node: Node) -> None:
    attempt = node.nasty("double_fork", fence="keep")
    until = node.renew(0.1, length=6.0)
    attempt.look()
    wait_for(lambda: attempt.last_stamp() > until, "life after the lease")
    attempt.make_it_look()
    attempt.go(paused=False, thaw=until)
    attempt.make_it_look()
    after = moment()
    wait_for(lambda: attempt.last_stamp() > after, "life after a pause without a lease")
    assert (attempt.stopped(), attempt.running()["stop"]) == ([], None)
    node.void()
    attempt.look()
    assert attempt.exit()["stop"]["why"] == "fence"
    assert attempt.nothing_is_left()


def test_one_that_is_woken_behind_our_back_is_killed(node: Node) -> None:
    attempt = node.nasty("plain")
    lose(node, attempt)
    os.kill(attempt.running()["pid"], signal.SIGCONT)
    ended = attempt.exit()
    assert "woke" in ended["stop"]["note"]
    assert attempt.nothing_is_left()


def test_an_order_to_continue_does_not_wake_a_frozen_task(node: Node) -> None:
    attempt = node.nasty("plain")
    lose(node, attempt)
    last = attempt.last_stamp()
    attempt.go(signals=[[1, "SIGCONT"]])
    attempt.make_it_look()
    assert attempt.stopped() == FENCED
    assert attempt.last_stamp() == last


def test_paused_and_fenced_it_goes_on_only_without_either(node: Node) -> None:
    attempt = node.nasty("plain")
    attempt.go(paused=True)
    wait_for(lambda: attempt.stopped() == ["paused"])
    node.renew(10.2, length=60.0)
    attempt.look()
    wait_for(lambda: attempt.stopped() == ["fenced", "paused"])
    last = attempt.last_stamp()
    node.renew()
    attempt.go(paused=True, thaw=moment())
    wait_for(lambda: attempt.stopped() == ["paused"])
    assert attempt.last_stamp() == last
    attempt.go()
    wait_for(lambda: attempt.stopped() == [])
    wait_for(lambda: attempt.last_stamp() > last)


def test_a_thread_that_outlives_the_first_one_is_seen(node: Node) -> None:
    # Its process looks like a zombie, but runs.
    script = """
import _thread, ctypes, os, time
def run():
    while True:
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        os.pwrite(stamps, f"{now:020.6f}".encode(), 0)
stamps = os.open("stamp", os.O_WRONLY | os.O_CREAT)
_thread.start_new_thread(run, ())
time.sleep(0.05)
ctypes.CDLL(None).pthread_exit(None)
"""
    attempt = node.python(script)
    stamp = attempt.files / "stamp"
    wait_for(stamp.exists)
    wait_for(lambda: state_of(attempt.running()["pid"]) == "Z", "the end of the first thread")
    first = stamp.read_text()
    wait_for(lambda: stamp.read_text() > first, "the other thread")
    lose(node, attempt)
    last = stamp.read_text()
    attempt.make_it_look()
    assert stamp.read_text() == last
    assert attempt.read("exit") is None


def test_a_parent_that_waits_in_vfork_can_be_frozen(node: Node) -> None:
    # The child waits for somebody to open the pipe, the parent, deaf, for the child.
    script = """
import os
os.mkfifo("pipe")
opens = (os.POSIX_SPAWN_OPEN, 0, "pipe", os.O_RDONLY, 0)
os.posix_spawn("/bin/true", ["true"], {}, file_actions=[opens])
"""
    attempt = node.python(script)
    wait_for(lambda: state_of(attempt.running()["pid"]) == "D", "the vfork")
    lose(node, attempt)
    node.renew()
    attempt.go(thaw=moment())
    wait_for(lambda: attempt.stopped() == [], "the thaw")
    os.close(os.open(attempt.files / "pipe", os.O_WRONLY))
    assert attempt.exit()["exit_code"] == 0


def test_hogs_do_not_make_a_renewed_lease_look_lost(node: Node) -> None:
    hogs = [subprocess.Popen([PYTHON, "-S", "-c", "while True: pass"]) for _ in range(8)]
    try:
        node.renew(6.0, length=6.0)
        attempts = [node.nasty("plain") for _ in range(4)]
        start = moment()
        while moment() < start + 6.0:
            node.renew(6.0, length=6.0)
            assert all(attempt.stopped() == [] for attempt in attempts)
        assert all(attempt.read("exit") is None for attempt in attempts)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def test_a_lease_that_vanishes_is_not_renewed(node: Node) -> None:
    attempt = node.nasty("plain")
    until = node.renew(11.5, length=60.0)
    attempt.make_it_look()
    Path(node.state / "lease").unlink()
    wait_for(lambda: attempt.stopped() == FENCED)
    assert attempt.last_stamp() < until
