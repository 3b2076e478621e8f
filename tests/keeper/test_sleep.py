"""A machine that sleeps: what ran there stands still when it wakes, and goes on if it is ours."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.keeper.harness import PYTHON, SOURCE, Attempt, Node, state_of, wait_for
from tests.keeper.sleeping import Sleeper

FENCED = ["fenced"]
HOUR = 3600.0
LEASE = 60.0


@pytest.fixture
def sleeper() -> Iterator[Sleeper]:
    folder = Path(tempfile.mkdtemp(prefix="stayer-sleep-"))
    node = Sleeper(folder)
    try:
        yield node
    finally:
        node.close()
        shutil.rmtree(folder)


def begin(node: Sleeper, kind: str = "double_fork", **spec: Any) -> Attempt:
    """A task with a lease as a worker has it."""
    node.renew(LEASE, length=LEASE)
    return node.nasty(kind, **spec)


def stands_still(attempt: Attempt) -> None:
    """It is frozen, and nothing of it moves."""
    wait_for(lambda: attempt.stopped() == FENCED, "the fence")
    last = attempt.last_stamp()
    attempt.be_seen()
    assert attempt.last_stamp() == last
    assert attempt.stopped() == FENCED
    assert attempt.read("exit") is None


def goes_on(attempt: Attempt) -> None:
    wait_for(lambda: attempt.stopped() == [], "the thaw")
    last = attempt.last_stamp()
    wait_for(lambda: attempt.last_stamp() > last, "a sign of life")
    assert attempt.read("exit") is None


def test_a_task_stands_still_when_its_machine_wakes_up_and_goes_on_if_it_is_ours(
    sleeper: Sleeper,
) -> None:
    attempt = begin(sleeper)
    keeper = attempt.running()["keeper"]
    sleeper.sleep(HOUR)
    stands_still(attempt)
    assert attempt.running()["slept"] > HOUR - 1.0
    sleeper.confirm(attempt)
    goes_on(attempt)
    assert attempt.running()["keeper"] == keeper


def test_it_sleeps_every_night(sleeper: Sleeper) -> None:
    attempt = begin(sleeper)
    for _ in range(3):
        sleeper.renew(LEASE, length=LEASE)
        attempt.be_seen()
        sleeper.sleep(8 * HOUR)
        stands_still(attempt)
        sleeper.confirm(attempt)
        goes_on(attempt)


def test_what_was_given_to_another_meanwhile_is_killed_without_being_woken(
    sleeper: Sleeper,
) -> None:
    attempt = begin(sleeper)
    sleeper.sleep(HOUR)
    stands_still(attempt)
    last = attempt.last_stamp()
    sleeper.void()
    attempt.look()
    assert attempt.exit()["stop"]["why"] == "fence"
    assert attempt.nothing_is_left()
    assert attempt.last_stamp() == last


def test_a_nap_that_the_lease_outlasts_changes_nothing(sleeper: Sleeper) -> None:
    attempt = begin(sleeper)
    sleeper.sleep(LEASE / 2)
    attempt.be_seen()
    goes_on(attempt)


@pytest.mark.parametrize("sleep", [LEASE - 9.0, LEASE - 6.5, LEASE - 5.5, LEASE - 4.5, LEASE])
def test_it_is_never_killed_for_the_moment_at_which_it_wakes_up(
    sleeper: Sleeper, sleep: float
) -> None:
    """Between the moments at which it would be frozen, given up and killed if it were awake."""
    attempt = begin(sleeper)
    sleeper.sleep(sleep)
    stands_still(attempt)
    sleeper.confirm(attempt)
    goes_on(attempt)


@pytest.mark.parametrize("point", ["stop", "proof"])
def test_it_may_fall_asleep_while_it_freezes(sleeper: Sleeper, point: str) -> None:
    attempt = begin(sleeper)
    sleeper.sleep_at(point, HOUR)
    sleeper.renew(10.2, length=LEASE)
    attempt.look()
    wait_for(lambda: sleeper.has_slept_at(point), "the sleep")
    stands_still(attempt)
    sleeper.confirm(attempt)
    goes_on(attempt)


def test_what_was_asked_before_a_sleep_is_asked_again(sleeper: Sleeper) -> None:
    """Between question and answer, answer and go-ahead, go-ahead and the keeper's look."""
    attempt = begin(sleeper)
    sleeper.sleep(HOUR)
    stands_still(attempt)
    sleeper.renew(LEASE, length=LEASE)
    asked = sleeper.moment()
    sleeper.sleep(HOUR)
    attempt.go(thaw=asked)
    stands_still(attempt)
    # When the lease is renewed, nobody has asked again: that answer is an hour old.
    sleeper.renew()
    attempt.look()
    stands_still(attempt)
    attempt.go(thaw=sleeper.moment())
    goes_on(attempt)


@pytest.mark.parametrize("point", ["check", "go"])
def test_it_may_fall_asleep_while_it_thaws(sleeper: Sleeper, point: str) -> None:
    """It has looked at the lease, which is over when it goes on: it stops again, at once."""
    attempt = begin(sleeper)
    sleeper.sleep(HOUR)
    stands_still(attempt)
    since = attempt.running()["fenced_since"]
    sleeper.sleep_at(point, 2 * HOUR)
    sleeper.confirm(attempt)
    wait_for(lambda: sleeper.has_slept_at(point), "the sleep")
    wait_for(lambda: attempt.running()["fenced_since"] > since, "another freeze")
    stands_still(attempt)
    sleeper.confirm(attempt)
    goes_on(attempt)


def test_a_keeper_that_was_stopped_before_the_sleep_is_continued_by_the_kernel(
    sleeper: Sleeper,
) -> None:
    """It is not killed, as it is awake: the time that it was awake has not run out."""
    attempt = begin(sleeper)
    keeper = attempt.running()["keeper"]
    os.kill(keeper, signal.SIGSTOP)
    wait_for(lambda: state_of(keeper) == "T")
    sleeper.sleep(HOUR)
    stands_still(attempt)
    sleeper.confirm(attempt)
    goes_on(attempt)


def test_the_kernel_continues_what_is_stopped() -> None:
    """The kernel's part in it."""
    code = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from keeper.kernel import Alarm, moment
signal.pthread_sigmask(signal.SIG_BLOCK, Alarm.SIGNALS)
alarm = Alarm()
alarm.set(moment() + 0.1, moment() + 0.2)
os.kill(os.getpid(), signal.SIGSTOP)
heard = {signal.sigtimedwait(Alarm.SIGNALS, 60).si_signo for _ in Alarm.SIGNALS}
assert heard == set(Alarm.SIGNALS), heard
"""
    arguments = [PYTHON, "-I", "-S", "-c", code, str(SOURCE.parent)]
    process = subprocess.Popen(arguments)
    try:
        assert process.wait(60) == 0
    finally:
        process.kill()


def test_a_keeper_that_is_stopped_while_awake_is_killed_by_the_kernel(node: Node) -> None:
    node.renew(12.0, length=12.0)
    attempt = node.nasty("setsid")
    keeper = attempt.running()["keeper"]
    os.kill(keeper, signal.SIGSTOP)
    assert attempt.exit()["keeper_died"] == signal.SIGKILL
    assert attempt.nothing_is_left()
    assert attempt.last_stamp() < node.until


def test_who_asks_to_end_has_its_grace_when_it_is_awake(sleeper: Sleeper) -> None:
    attempt = begin(sleeper, "ignores_term")
    attempt.go(stop={"why": "cancel", "grace": 1000.0})
    wait_for(lambda: attempt.running()["stop"])
    sleeper.renew(2 * HOUR, length=2 * HOUR)
    attempt.be_seen()
    sleeper.sleep(HOUR)
    attempt.be_seen()
    last = attempt.last_stamp()
    wait_for(lambda: attempt.last_stamp() > last, "a sign of life")
    assert attempt.read("exit") is None


def test_a_task_that_is_rather_killed_is_killed_when_its_machine_wakes_up(
    sleeper: Sleeper,
) -> None:
    attempt = begin(sleeper, fence="kill")
    sleeper.sleep(HOUR)
    assert attempt.exit()["stop"]["why"] == "fence"
    assert attempt.nothing_is_left()


def test_a_task_that_goes_on_whatever_happens_does(sleeper: Sleeper) -> None:
    attempt = begin(sleeper, fence="keep")
    sleeper.sleep(HOUR)
    sleeper.pause(HOUR)
    attempt.be_seen()
    goes_on(attempt)


# Paused from outside: no clock of the machine tells, until somebody sets the wall clock right.


@pytest.mark.parametrize("fence", ["freeze", "kill"])
def test_a_clock_that_jumps_ahead_means_stand_still_and_ask(sleeper: Sleeper, fence: str) -> None:
    """Somebody may only have set the clock: so nothing is killed for it."""
    attempt = begin(sleeper, fence=fence)
    sleeper.pause(HOUR)
    attempt.look()
    stands_still(attempt)
    # The lease looks good, but is from before the pause.
    attempt.go(thaw=sleeper.moment())
    stands_still(attempt)
    sleeper.confirm(attempt)
    goes_on(attempt)


def test_a_pause_while_it_stands_still_makes_old_answers_void(sleeper: Sleeper) -> None:
    attempt = begin(sleeper)
    sleeper.sleep(HOUR)
    stands_still(attempt)
    sleeper.renew()
    asked = sleeper.moment()
    sleeper.pause(HOUR)
    attempt.go(thaw=asked)
    stands_still(attempt)
    sleeper.confirm(attempt)
    goes_on(attempt)


@pytest.mark.parametrize("seconds", [-HOUR, 1.0])
def test_other_changes_of_the_clock_change_nothing(sleeper: Sleeper, seconds: float) -> None:
    attempt = begin(sleeper)
    sleeper.set_clock(seconds)
    attempt.be_seen()
    goes_on(attempt)


def test_a_clock_that_is_slewed_for_long_changes_nothing(sleeper: Sleeper) -> None:
    attempt = begin(sleeper)
    for _ in range(20):
        sleeper.renew(LEASE, length=LEASE)
        attempt.be_seen()
        sleeper.set_clock(1.0)
        attempt.be_seen()
        assert attempt.stopped() == []


# Told beforehand: it stands still before the machine sleeps.


def test_who_is_told_beforehand_stands_still_before_the_machine_sleeps(sleeper: Sleeper) -> None:
    attempt = begin(sleeper)
    attempt.go(freeze=sleeper.moment())
    stands_still(attempt)
    last = attempt.last_stamp()
    sleeper.sleep(HOUR)
    stands_still(attempt)
    assert attempt.last_stamp() == last
    sleeper.confirm(attempt)
    goes_on(attempt)
    assert attempt.running()["slept"] > HOUR - 1.0


def test_it_goes_on_if_the_machine_does_not_sleep_after_all(sleeper: Sleeper) -> None:
    attempt = begin(sleeper)
    announced = sleeper.moment()
    attempt.go(freeze=announced)
    stands_still(attempt)
    attempt.go(freeze=announced, thaw=sleeper.moment())
    goes_on(attempt)
    attempt.be_seen()
    assert attempt.stopped() == []


@pytest.mark.parametrize("fence", ["kill", "keep"])
def test_who_is_not_to_be_frozen_is_not(sleeper: Sleeper, fence: str) -> None:
    attempt = begin(sleeper, fence=fence)
    attempt.go(freeze=sleeper.moment())
    attempt.be_seen()
    goes_on(attempt)
