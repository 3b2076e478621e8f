"""Orders in `go`, the kill ladder, and limits."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from stayer.keeper.kernel import moment
from tests.keeper.harness import Attempt, Node, state_of, wait_for

PATIENT = "trap 'echo term' TERM; echo ready; while :; do sleep 0.02; done"


def patient(node: Node, **spec: Any) -> Attempt:
    """A task that does not end when asked, once it hears."""
    attempt = node.shell(PATIENT, **spec)
    wait_for(lambda: attempt.running() and attempt.log())
    return attempt


def test_cancel_asks_again_and_again_and_then_kills(node: Node) -> None:
    attempt = patient(node, kill_interval=0.1)
    ended = attempt.cancel(grace=0.6)
    assert ended["signal"] == signal.SIGKILL
    assert attempt.log().count("term") >= 2


def test_a_task_may_end_in_its_own_way_within_the_grace(node: Node) -> None:
    attempt = node.shell("trap 'echo saved; exit 4' TERM; echo ready; while :; do sleep 0.02; done")
    attempt.running()
    wait_for(lambda: "ready" in attempt.log())
    ended = attempt.cancel()
    assert (ended["exit_code"], ended["stop"]["why"]) == (4, "cancel")
    assert attempt.log().endswith("saved\n")


LEAVES_SOMETHING = (
    "(trap '' TERM; touch left; exec sleep 1000) & "
    "while ! [ -e left ]; do sleep 0.01; done; echo 42 > result"
)


@pytest.mark.parametrize("why", ["cancel", "interrupt"])
def test_who_has_ended_has_ended_whatever_is_ordered_then(node: Node, why: str) -> None:
    attempt = node.shell(LEAVES_SOMETHING)
    main = attempt.running()["pid"]
    wait_for(lambda: state_of(main) in {"", "Z"})
    attempt.go(stop={"why": why, "grace": 3600.0})
    ended = attempt.exit()
    assert (ended["exit_code"], ended["stop"]) == (0, None)
    assert ended["leftovers"] >= 1


def test_who_has_ended_has_ended_though_the_lease_is_over_then(node: Node) -> None:
    attempt = node.shell(LEAVES_SOMETHING, fence="kill")
    main = attempt.running()["pid"]
    wait_for(lambda: state_of(main) in {"", "Z"})
    node.void()
    attempt.look()
    ended = attempt.exit()
    assert (ended["exit_code"], ended["stop"]) == (0, None)
    assert ended["leftovers"] >= 1


def test_a_second_order_shortens_the_grace(node: Node) -> None:
    attempt = patient(node)
    attempt.go(stop={"why": "interrupt", "grace": 1000.0})
    wait_for(lambda: attempt.running()["stop"])
    ended = attempt.cancel(grace=0.0)
    assert (ended["signal"], ended["stop"]["why"]) == (signal.SIGKILL, "cancel")


def test_a_second_order_never_lengthens_the_grace(node: Node) -> None:
    attempt = patient(node)
    attempt.go(stop={"why": "cancel", "grace": 1.0})
    wait_for(lambda: attempt.running()["stop"])
    ended = attempt.cancel(grace=3600.0)
    assert (ended["signal"], ended["stop"]["why"]) == (signal.SIGKILL, "cancel")


def test_a_limit_that_was_exceeded_stays_the_reason(node: Node) -> None:
    attempt = patient(node, limits={"time": 0.1}, grace=2.0)
    wait_for(lambda: attempt.running()["stop"])
    ended = attempt.cancel(grace=0.0)
    assert ended["stop"]["why"] == "timeout"


def test_two_orders_in_a_row_are_both_obeyed(node: Node) -> None:
    attempt = node.shell(
        "trap 'echo one' USR1; trap 'echo two' USR2; echo go; while :; do sleep 0.02; done"
    )
    attempt.running()
    wait_for(lambda: "go" in attempt.log())
    attempt.go(signals=[[1, "SIGUSR1"]])
    attempt.go(signals=[[1, "SIGUSR1"], [2, "SIGUSR2"]])
    wait_for(lambda: sorted(attempt.log().split()) == ["go", "one", "two"])
    attempt.make_it_look()
    assert sorted(attempt.log().split()) == ["go", "one", "two"]


@pytest.mark.parametrize(
    "text",
    [
        "", "[", "[]", '"x"', '{"stop": 3}', '{"signals": [[1, "SIGNO"]]}', '{"limits": 5}',
        f'{{"limits": {{"time": 1{"0" * 400}}}}}', '{"limits": ' + "[" * 100_000,
    ],
    ids=range(9),
)  # fmt: skip
def test_orders_that_make_no_sense_harm_nobody(node: Node, text: str) -> None:
    attempt = node.nasty("plain")
    (attempt.path / "go").write_text(text)
    attempt.look()
    attempt.make_it_look()
    assert attempt.read("exit") is None


def test_only_kill_and_stop_reach_a_keeper(node: Node) -> None:
    attempt = node.nasty("plain")
    keeper = attempt.running()["keeper"]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2, signal.SIGQUIT):
        os.kill(keeper, number)
        os.kill(node.nursery.pid, number)
    attempt.make_it_look()
    assert attempt.read("exit") is None
    assert node.nursery.poll() is None


def test_a_paused_task_stands_still_until_released(node: Node) -> None:
    attempt = node.nasty("setsid")
    attempt.go(paused=True)
    wait_for(lambda: attempt.stopped() == ["paused"])
    last = attempt.last_stamp()
    attempt.go(paused=True, limits={})
    assert attempt.last_stamp() == last
    attempt.go(paused=False)
    wait_for(lambda: attempt.last_stamp() > last)


def test_a_paused_task_can_end_well_when_cancelled(node: Node) -> None:
    attempt = node.shell("trap 'echo saved; exit 4' TERM; echo ready; while :; do sleep 0.02; done")
    attempt.running()
    wait_for(lambda: "ready" in attempt.log())
    attempt.go(paused=True)
    wait_for(lambda: attempt.stopped() == ["paused"])
    attempt.go(paused=True, stop={"why": "cancel", "grace": 60.0})
    ended = attempt.exit()
    assert ended["exit_code"] == 4
    assert attempt.log().endswith("saved\n")


def test_the_time_limit(node: Node) -> None:
    attempt = node.shell("exec sleep 1000", limits={"time": 0.3}, grace=0.1)
    ended = attempt.exit()
    assert ended["stop"]["why"] == "timeout"
    assert ended["ran"] >= 0.3


def test_a_limit_stands_still_while_the_task_does(node: Node) -> None:
    attempt = node.nasty("plain", limits={"time": 1.0}, grace=0.1)
    attempt.go(paused=True)
    wait_for(lambda: attempt.stopped() == ["paused"])
    start = moment()
    wait_for(lambda: moment() > start + 1.5)
    attempt.look()
    assert attempt.read("exit") is None
    assert attempt.running()["stop"] is None
    attempt.go()
    assert attempt.exit()["stop"]["why"] == "timeout"


def test_time_that_it_stands_still_does_not_count(node: Node) -> None:
    attempt = node.nasty("plain")
    attempt.go(paused=True)
    wait_for(lambda: attempt.stopped() == ["paused"])
    before, start = attempt.running()["ran"], moment()
    wait_for(lambda: moment() > start + 3.0)
    stood_still = moment() - start
    attempt.go()
    wait_for(lambda: attempt.stopped() == [])
    assert attempt.running()["ran"] - before < stood_still


def test_a_limit_can_be_lifted_and_set_while_it_runs(node: Node) -> None:
    attempt = node.shell("exec sleep 1000", limits={"time": 1000.0}, grace=0.1)
    attempt.running()
    attempt.go(limits={"time": None, "silence": 0.2})
    assert attempt.exit()["stop"]["why"] == "silent"


def test_a_task_that_speaks_is_not_silent(node: Node) -> None:
    script = "for i in $(seq 12); do echo $i; sleep 0.1; done; exec sleep 1000"
    attempt = node.shell(script, limits={"silence": 1.0}, grace=0.1)
    assert attempt.exit()["stop"]["why"] == "silent"
    assert attempt.log().splitlines()[-1] == "12"


def test_the_memory_limit_counts_the_tree(node: Node) -> None:
    script = """
import os, time
for _ in range(2):
    if os.fork() == 0:
        break
held = bytearray(60_000_000)
time.sleep(1000)
"""
    attempt = node.python(script, limits={"memory": 100_000_000}, grace=0.1)
    ended = attempt.exit()
    assert ended["stop"]["why"] == "memory"
    assert ended["usage"]["peak"] > 100_000_000


def test_a_limit_shows_the_stack_first(node: Node) -> None:
    script = (
        "trap 'echo stack' USR2; trap 'echo term; exit 0' TERM; echo ready; "
        "while :; do sleep 0.02; done"
    )
    attempt = node.shell(script, stack_signal=int(signal.SIGUSR2))
    wait_for(lambda: attempt.running() and attempt.log())
    attempt.go(limits={"time": 0.01})
    assert attempt.exit()["stop"]["why"] == "timeout"
    assert attempt.log().startswith("ready\nstack\n")
    assert attempt.log().endswith("term\n")
