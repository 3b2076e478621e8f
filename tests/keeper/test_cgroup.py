"""A cgroup for each task, where the node lets the keeper make one; and everything without."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stayer.keeper import cgroup, tree
from tests.keeper.harness import PYTHON, TASK_USER, Attempt, Node, for_others, state_of, wait_for
from tests.keeper.test_fence import FENCED, lose
from tests.keeper.test_nasty_trees import every_kind


@pytest.fixture
def top(worker_id: str) -> Iterator[Path]:
    """A cgroup to make others in, with a leaf `worker` for the nursery."""
    found = cgroup.delegated()
    if found is None:
        pytest.skip("no cgroup of version 2 that this user may make others in")
    path = Path(found) / f"stayer-test-{os.getpid()}-{worker_id}"
    path.mkdir()
    (path / "worker").mkdir()
    yield path
    with contextlib.suppress(OSError):
        (path / "cgroup.kill").write_text("1")
    wait_for(lambda: not (path / "cgroup.events").exists() or removed(path), "an empty cgroup")


@pytest.fixture
def worker_id(request: pytest.FixtureRequest) -> str:
    return str(getattr(request.config, "workerinput", {}).get("workerid", "only"))


def removed(path: Path) -> bool:
    try:
        for each in (*path.glob("*/"), path):
            each.rmdir()
    except OSError:
        return False
    return True


def enter(path: Path) -> tuple[str, ...]:
    """A command's prefix: be in that cgroup."""
    return "sh", "-c", f'echo $$ > {path}/worker/cgroup.procs; exec "$@"', "sh"


@pytest.fixture(params=["own", "nobody"])
def any_node(request: pytest.FixtureRequest, make_node: Callable[..., Node], top: Path) -> Node:
    """In the leaf; of whoever runs the tests, and of a user that the cgroup was given to."""
    if request.param == "own":
        return make_node(prefix=enter(top))
    nobody: Node = request.getfixturevalue("nobody")
    assert nobody.user is not None
    give(top, nobody.user)
    return make_node(user=nobody.user, interpreter=nobody.interpreter, prefix=enter(top))


def give(path: Path, user: int) -> None:
    """Delegate it, as systemd does."""
    for each in (path, path / "worker"):
        for name in ("", "cgroup.procs", "cgroup.subtree_control"):
            os.chown(each / name, user, user)


def cgroup_of(attempt: Attempt) -> Path:
    """Its own one, and it is there."""
    path = Path(attempt.running()["cgroup"])
    assert path.exists()
    return path


def pids_in(path: Path) -> set[int]:
    return set(map(int, (path / "cgroup.procs").read_text().split()))


def test_the_task_is_in_its_own_cgroup_and_the_keeper_is_not(any_node: Node, top: Path) -> None:
    attempt = any_node.nasty("double_fork", cgroup=str(top))
    path, running = cgroup_of(attempt), attempt.running()
    assert path.parent == top
    assert path.name.startswith(f"stayer-{attempt.path.name}")
    inside = pids_in(path)
    assert running["pid"] in inside
    assert running["keeper"] not in inside
    assert len(inside) >= 2
    attempt.cancel(grace=0.1)
    assert not path.exists()


def test_an_isolated_task_has_one_too(any_node: Node, top: Path) -> None:
    attempt = any_node.nasty("double_fork", cgroup=str(top), isolate="pidns")
    path = cgroup_of(attempt)
    assert attempt.running()["pid"] in pids_in(path)
    lose(any_node, attempt)
    last = attempt.last_stamp()
    any_node.renew()
    attempt.go(thaw=any_node.until)
    wait_for(lambda: attempt.last_stamp() > last, "the thaw")
    assert attempt.cancel(grace=0.1)["stop"]["why"] == "cancel"
    assert attempt.nothing_is_left()
    assert not path.exists()


def test_how_it_ended_is_the_same(any_node: Node, top: Path) -> None:
    ended = any_node.shell("exit 7", cgroup=str(top)).exit()
    assert (ended["exit_code"], ended["signal"], ended["oom"]) == (7, None, False)
    assert [path.name for path in top.glob("*/")] == ["worker"]


@pytest.mark.parametrize("parent", ["/no/such/place", "/tmp", "/proc/self", ""])
def test_where_there_is_none_it_goes_on_without(node: Node, parent: str) -> None:
    attempt = node.nasty("setsid", cgroup=parent)
    assert attempt.running()["cgroup"] is None
    lose(node, attempt)
    assert attempt.cancel()["stop"]["why"] == "cancel"
    assert attempt.nothing_is_left()


def test_one_that_we_may_not_enter_is_done_without(
    nobody: Node, make_node: Callable[..., Node], top: Path
) -> None:
    # Ours to make others in, but we sit outside it, from where nobody may move a process.
    assert nobody.user is not None
    give(top, nobody.user)
    attempt = nobody.nasty("setsid", cgroup=str(top))
    assert attempt.running()["cgroup"] is None
    assert [path.name for path in top.glob("*/")] == ["worker"]


def test_the_kernel_freezes_and_thaws_it(any_node: Node, top: Path) -> None:
    attempt = any_node.nasty("fork_loop", cgroup=str(top))
    path = cgroup_of(attempt)
    lose(any_node, attempt)
    assert "frozen 1" in (path / "cgroup.events").read_text()
    last = attempt.last_stamp()
    pids = pids_in(path)
    assert state_of(attempt.running()["pid"]) != "T"  # not by a signal that it could see
    any_node.renew()
    attempt.make_it_look()
    assert attempt.stopped() == FENCED
    assert (attempt.last_stamp(), pids_in(path)) == (last, pids)
    attempt.go(thaw=any_node.until)
    wait_for(lambda: attempt.last_stamp() > last, "the thaw")
    assert "frozen 0" in (path / "cgroup.events").read_text()


def test_one_that_is_thawed_behind_our_back_is_killed(node: Node, top: Path) -> None:
    attempt = node.nasty("plain", cgroup=str(top))
    lose(node, attempt)
    (cgroup_of(attempt) / "cgroup.freeze").write_text("0")
    assert "woke" in attempt.exit()["stop"]["note"]
    assert attempt.nothing_is_left()


def test_what_left_the_cgroup_is_stopped_and_killed_too(any_node: Node, top: Path) -> None:
    attempt = any_node.nasty("double_fork", cgroup=str(top))
    path = cgroup_of(attempt)
    others = lambda: pids_in(path) - {attempt.running()["pid"]}  # noqa: E731
    wait_for(lambda: len(others()) == 1, "the end of the one in between")
    [escaped] = others()
    (top / "worker" / "cgroup.procs").write_text(str(escaped))
    limit = lose(any_node, attempt)
    assert state_of(escaped) == "T"
    assert attempt.last_stamp() < limit
    last = attempt.last_stamp()
    any_node.renew()
    attempt.go(thaw=any_node.until)
    wait_for(lambda: attempt.last_stamp() > last, "the thaw")
    wait_for(lambda: state_of(escaped) in {"S", "R"}, "the thaw of the escaped one")
    attempt.cancel(grace=0.1)
    assert attempt.nothing_is_left()


@every_kind
def test_cancel_leaves_nothing(any_node: Node, top: Path, kind: str) -> None:
    attempt = any_node.nasty(kind, cgroup=str(top))
    path = cgroup_of(attempt)
    assert attempt.cancel(grace=0.3)["stop"]["why"] == "cancel"
    assert attempt.nothing_is_left()
    assert not path.exists()


@every_kind
def test_a_killed_keeper_leaves_nothing(any_node: Node, top: Path, kind: str) -> None:
    attempt = any_node.nasty(kind, cgroup=str(top))
    path = cgroup_of(attempt)
    os.kill(attempt.running()["keeper"], signal.SIGKILL)
    assert attempt.exit()["keeper_died"] == signal.SIGKILL
    assert attempt.nothing_is_left()
    assert not path.exists()


def test_what_keeper_and_nursery_left_can_be_ended(any_node: Node, top: Path) -> None:
    attempt = any_node.nasty("cleared_environment", cgroup=str(top))
    path = cgroup_of(attempt)
    any_node.nursery.kill()
    any_node.nursery.wait()
    os.kill(attempt.running()["keeper"], signal.SIGKILL)
    wait_for(lambda: not attempt.locked())

    def ended() -> bool:
        cgroup.end(str(path))
        return not path.exists()

    wait_for(ended, "the end of the cgroup")
    assert attempt.nothing_is_left()


@pytest.mark.skipif(TASK_USER is not None, reason="a task of another user can make no cgroup there")
def test_a_cgroup_that_the_task_made_below_is_frozen_and_removed(node: Node, top: Path) -> None:
    script = f"""
here={top.parent}$(sed -n 's/^0:://p' /proc/self/cgroup | sed 's|.*/stayer-test|/stayer-test|')
mkdir $here/below; sleep 1000 & echo $! > $here/below/cgroup.procs; echo ready; wait
"""
    attempt = node.shell(script, cgroup=str(top))
    path = cgroup_of(attempt)
    wait_for(lambda: "ready" in attempt.log())
    [below] = pids_in(path / "below")
    lose(node, attempt)
    assert state_of(below) != "T"  # by the cgroup, not by a signal
    attempt.cancel()
    assert not path.exists()


def test_what_a_dead_keeper_left_is_not_mistaken_for_what_the_next_one_keeps(
    make_node: Callable[..., Node], top: Path
) -> None:
    node = make_node(prefix=enter(top))
    attempt = node.prepare(["sleep", "1000"], cgroup=str(top))
    (attempt.path / "lock").mkdir()  # of this keeper it can't even be said that it died
    node.tell(f"start {attempt.path}")
    node.shell("true").exit()  # by then the nursery knows of it
    nursery = node.nursery.pid
    wait_for(lambda: not tree.children(nursery) and state_of(nursery) == "S", "it to be at rest")
    os.kill(nursery, signal.SIGSTOP)  # it finds both at once: that it can speak, and the request
    (attempt.path / "lock").rmdir()
    node.tell(f"start {attempt.path}")
    os.kill(nursery, signal.SIGCONT)
    main = attempt.running()["pid"]
    node.shell("true").exit()
    node.shell("true").exit()
    assert state_of(main) == "S"
    assert attempt.cancel(grace=0.0)["stop"]["why"] == "cancel"


def test_cpu_is_what_the_cgroup_counted(any_node: Node, top: Path) -> None:
    # Children of a process that ignores SIGCHLD leave their times to nobody but the cgroup.
    script = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
    os._exit(0)
try:
    os.wait()
except ChildProcessError:
    pass
"""
    usage = any_node.python(script, cgroup=str(top)).exit()["usage"]
    assert usage["cpu"] >= 0.5
    assert usage["cpu"] == pytest.approx(usage["user"] + usage["system"])


def test_a_name_left_by_a_dead_one_is_used_again(top: Path) -> None:
    cgroup.Cgroup(str(top), "stayer-again")
    again = cgroup.Cgroup(str(top), "stayer-again")
    again.remove()
    assert not (top / "stayer-again").exists()


def asked(*prefix: str, interpreter: str = PYTHON) -> str:
    """What `delegated` finds in a process with that prefix."""
    code = f"import sys; sys.path.insert(0, {str(for_others())!r})\n" + (
        "from keeper.cgroup import delegated; print(delegated())"
    )
    words = [*prefix, interpreter, "-I", "-S", "-c", code]
    return subprocess.check_output(words, text=True).strip()


def test_the_delegated_cgroup_is_found(any_node: Node, top: Path) -> None:
    if any_node.user is None:
        # Root may do everything everywhere: only its own one is meant for it.
        assert asked(*enter(top)) == str(top / "worker")
        return
    who = ("setpriv", f"--reuid={any_node.user}", f"--regid={any_node.user}", "--clear-groups")
    assert asked(*enter(top), *who, interpreter=any_node.interpreter) == str(top)
    assert not list(top.glob("stayer-trial*"))


def test_without_any_right_there_is_none(nobody: Node) -> None:
    who = ("setpriv", f"--reuid={nobody.user}", f"--regid={nobody.user}", "--clear-groups")
    assert asked(*who, interpreter=nobody.interpreter) == "None"


def test_memory_is_read_where_the_kernel_counts_it(tmp_path: Path) -> None:
    # The memory controller is not to be had everywhere, so these are plain files.
    (tmp_path / "stayer-it").mkdir()
    (tmp_path / "stayer-it" / "memory.stat").write_text("anon 4096\nfile 9\nfile_mapped 100\n")
    (tmp_path / "stayer-it" / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    (tmp_path / "stayer-it" / "memory.max").write_text("max")
    it = cgroup.Cgroup.__new__(cgroup.Cgroup)
    it.path = str(tmp_path / "stayer-it")
    assert (it.resident(), it.oom_kills()) == (4196, 1)
    it.limit_memory(1e9)
    assert (tmp_path / "stayer-it" / "memory.max").read_text() == "1000000000"
    (tmp_path / "stayer-it" / "memory.events").unlink()
    assert it.oom_kills() is None
