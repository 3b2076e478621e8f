"""`isolate = "pidns"`: the kernel itself ends all that a task has started."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.keeper.harness import TASK_USER, Node, wait_for
from tests.keeper.test_fence import lose
from tests.keeper.test_nasty_trees import every_kind

PIDNS = "pidns"


@pytest.fixture(params=["own", "nobody"])
def any_node(request: pytest.FixtureRequest) -> Node:
    """Of whoever runs the tests, and of a user without rights."""
    node: Node = request.getfixturevalue("node" if request.param == "own" else "nobody")
    return node


def test_it_is_in_a_namespace_of_its_own_with_its_own_proc(any_node: Node) -> None:
    script = "echo $$; cat; readlink /proc/self; ls /proc | grep -c '^[0-9]'; exit 7"
    attempt = any_node.shell(script, isolate=PIDNS)
    ended = attempt.exit()
    assert (ended["exit_code"], ended["signal"], ended["leftovers"]) == (7, None, 0)
    me, itself, reader, processes = attempt.log().replace("input", "input\n").split("\n", 4)[:4]
    assert (me, itself) == ("2", "the input")
    assert int(reader) > 2
    assert int(processes) < 10


def test_its_user_and_its_rights_stay_the_same(any_node: Node) -> None:
    attempt = any_node.shell("id -u; id -g; touch mine", isolate=PIDNS)
    assert attempt.exit()["exit_code"] == 0
    user = any_node.user or TASK_USER or os.getuid()
    assert attempt.log().split()[0] == str(user)
    assert (attempt.files / "mine").stat().st_uid == user


def test_nobody_else_sees_the_proc_of_a_task(node: Node) -> None:
    before = Path("/proc/self/mounts").read_text()
    attempt = node.shell("echo ready; exec sleep 1000", isolate=PIDNS)
    wait_for(lambda: attempt.read("running") and attempt.log())
    assert Path("/proc/self/mounts").read_text() == before
    assert Path(f"/proc/{os.getpid()}").exists()


def test_running_tells_the_pid_as_seen_from_outside(any_node: Node) -> None:
    attempt = any_node.start("sleep", "1000", isolate=PIDNS)
    running = attempt.running()
    status = Path(f"/proc/{running['pid']}/status")
    assert f"NSpid:\t{running['pid']}\t2\n" in status.read_text()
    wait_for(lambda: "Name:\tsleep\n" in status.read_text(), "it to become the program")
    os.kill(running["pid"], signal.SIGSEGV)
    ended = attempt.exit()
    assert (ended["exit_code"], ended["signal"]) == (None, signal.SIGSEGV)


def test_a_program_that_is_not_there_is_the_fault_of_the_task(any_node: Node) -> None:
    ended = any_node.start("/no/such/program", isolate=PIDNS).exit()
    assert "can't run /no/such/program: No such file" in ended["not_started"]
    assert "node" not in ended


def test_another_kind_of_isolation_is_not_known(node: Node) -> None:
    ended = node.start("true", isolate="moon").exit()
    assert "'moon'" in ended["not_started"]
    assert ended["node"]


def test_where_the_kernel_refuses_it_says_what_to_do(make_node: Callable[..., Node]) -> None:
    if os.getuid() != 0:
        pytest.skip("only root has a right to make namespaces that can be taken away")
    node = make_node(prefix=("setpriv", "--bounding-set=-sys_admin"))
    attempt = node.shell("touch began", isolate=PIDNS)
    ended = attempt.exit()
    assert ended["node"]
    assert "pidns" in ended["not_started"]
    assert "start the worker without" in ended["not_started"]
    assert not (attempt.files / "began").exists()


def test_inside_nobody_can_kill_or_stop_the_first_process(any_node: Node) -> None:
    script = """
for number in KILL STOP TERM HUP; do kill -$number 1; done
echo alive; while [ ! -e leave ]; do sleep 0.02; done; exit 3
"""
    attempt = any_node.shell(script, isolate=PIDNS)
    wait_for(lambda: attempt.read("running") and attempt.log())
    (attempt.files / "leave").touch()
    assert attempt.exit()["exit_code"] == 3


def test_signals_stacks_and_the_ladder_reach_the_main_process(any_node: Node) -> None:
    script = """
trap 'echo one' USR1; trap 'echo stack' URG; trap 'echo saved; exit 4' TERM
echo ready; while :; do sleep 0.02; done
"""
    attempt = any_node.shell(script, isolate=PIDNS, stack_signal=int(signal.SIGURG))
    wait_for(lambda: attempt.read("running") and attempt.log())
    attempt.go(signals=[[1, "SIGUSR1"]])
    wait_for(lambda: "one" in attempt.log())
    attempt.go(limits={"time": 0.01})
    ended = attempt.exit()
    assert (ended["exit_code"], ended["stop"]["why"]) == (4, "timeout")
    said = [word for word in attempt.log().split() if word != "Terminated"]  # the shell, of sleep
    assert said == ["ready", "one", "stack", "saved"]


def test_orphans_are_reaped_inside(any_node: Node) -> None:
    script = """
for i in 1 2 3; do (setsid true &); done
while :; do
    set -- $(cat /proc/[0-9]*/stat 2>/dev/null | cut -d' ' -f3 | sort -u)
    case " $* " in *" Z "*) sleep 0.02;; *) exit 0;; esac
done
"""
    attempt = any_node.shell(script, isolate=PIDNS)
    assert attempt.exit()["exit_code"] == 0


def test_what_is_left_behind_is_asked_and_counted(any_node: Node) -> None:
    attempt = any_node.shell(
        "setsid sh -c 'trap \"echo asked; exit\" TERM; echo on; while :; do sleep 0.02; done' & "
        "while ! grep -q on log; do sleep 0.02; done; exit 5",
        isolate=PIDNS,
    )
    ended = attempt.exit()
    assert ended["exit_code"] == 5
    assert ended["leftovers"] >= 1
    assert attempt.log().split()[-1] == "asked"


@every_kind
def test_cancel_leaves_nothing(any_node: Node, kind: str) -> None:
    attempt = any_node.nasty(kind, isolate=PIDNS)
    assert attempt.cancel(grace=0.3)["stop"]["why"] == "cancel"
    assert attempt.nothing_is_left()


@every_kind
def test_a_keeper_killed_with_its_nursery_leaves_nothing(any_node: Node, kind: str) -> None:
    attempt = any_node.nasty(kind, isolate=PIDNS)
    any_node.nursery.kill()
    any_node.nursery.wait()
    os.kill(attempt.running()["keeper"], signal.SIGKILL)
    wait_for(attempt.nothing_is_left, "the end of the namespace")


def test_a_stopped_keeper_is_ended_with_the_whole_namespace(any_node: Node) -> None:
    attempt = any_node.nasty("cleared_environment", isolate=PIDNS)
    until = any_node.renew(5.0, length=6.0)
    attempt.make_it_look()
    any_node.nursery.kill()
    any_node.nursery.wait()
    os.kill(attempt.running()["keeper"], signal.SIGSTOP)
    wait_for(attempt.nothing_is_left, "the end of the namespace")
    assert attempt.last_stamp() < until


def test_it_is_fenced_and_goes_on(any_node: Node) -> None:
    attempt = any_node.nasty("double_fork", isolate=PIDNS)
    limit = lose(any_node, attempt)
    last = attempt.last_stamp()
    assert last < limit
    any_node.renew()
    attempt.make_it_look()
    assert attempt.last_stamp() == last
    attempt.go(thaw=any_node.until)
    wait_for(lambda: attempt.last_stamp() > last, "the thaw")


def test_a_killed_first_process_takes_all_with_it(any_node: Node) -> None:
    attempt = any_node.nasty("double_fork", isolate=PIDNS)
    keeper = attempt.running()["keeper"]
    [first] = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    os.kill(int(first), signal.SIGKILL)
    ended = attempt.exit()
    assert (ended["exit_code"], ended["signal"]) == (None, signal.SIGKILL)
    assert attempt.nothing_is_left()


def test_what_was_used_inside_is_counted(any_node: Node) -> None:
    burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
    attempt = any_node.shell(f"(setsid sh -c '{burn}' &); {burn}; wait; exit 0", isolate=PIDNS)
    usage = attempt.exit()["usage"]
    assert usage["user"] > 0.1
    assert usage["peak"] > 100_000
