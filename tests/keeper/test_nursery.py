"""The nursery: requests, its own death, versions beside each other."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from stayer.keeper.kernel import moment
from tests.keeper.harness import SOURCE, Node, wait_for


def test_keepers_outlive_their_nursery_and_record(node: Node) -> None:
    attempt = node.shell("while [ ! -e leave ]; do sleep 0.02; done; exit 5")
    attempt.running()
    node.nursery.kill()
    node.nursery.wait()
    (attempt.files / "leave").touch()
    assert attempt.exit()["exit_code"] == 5


def test_a_killed_nursery_can_be_followed_by_another_while_keepers_live(node: Node) -> None:
    attempt = node.nasty("plain")
    node.nursery.kill()
    node.nursery.wait()
    node.nursery = node.start_nursery()
    assert node.shell("exit 3").exit()["exit_code"] == 3
    assert attempt.cancel(grace=0.1)["stop"]["why"] == "cancel"


def test_a_second_nursery_goes_away(node: Node) -> None:
    node.start("true").exit()
    assert node.start_nursery().wait() == 0
    assert node.nursery.poll() is None


def test_a_retired_nursery_ends_with_its_last_keeper(node: Node) -> None:
    attempt = node.nasty("plain")
    node.tell("retire")
    other = node.start("true")
    assert other.exit()["exit_code"] == 0
    assert node.nursery.poll() is None
    attempt.cancel(grace=0.1)
    assert node.nursery.wait() == 0


@pytest.mark.long
def test_a_forgotten_nursery_ends(node: Node) -> None:
    node.start("true").exit()
    node.void()
    node.tell("hello")
    assert node.nursery.wait() == 0


def test_lines_that_make_no_sense_are_passed_over(node: Node) -> None:
    node.start("true").exit()
    node.tell("x" * 4000)
    for line in ("", "start", "start /no/such/place", "dance", "start relative", "\udce4".encode(
        errors="surrogateescape"
    ).decode("latin-1")):  # fmt: skip
        node.tell(line)
    assert node.shell("exit 2").exit()["exit_code"] == 2


def test_a_line_may_come_in_pieces(node: Node) -> None:
    attempt = node.prepare(["true"])
    node.start("true").exit()
    line = f"start {attempt.path}\n".encode()
    descriptor = os.open(node.state / f"nursery-{node.version()}.fifo", os.O_WRONLY)
    for byte in line:
        os.write(descriptor, bytes([byte]))
    os.close(descriptor)
    assert attempt.exit()["exit_code"] == 0


def test_a_flood_without_end_of_line_is_dropped(node: Node) -> None:
    node.start("true").exit()
    descriptor = os.open(node.state / f"nursery-{node.version()}.fifo", os.O_WRONLY)
    for _ in range(100):
        os.write(descriptor, b"x" * 4096)
    os.write(descriptor, b"\n")
    os.close(descriptor)
    assert node.shell("exit 2").exit()["exit_code"] == 2


def test_many_at_once_all_end(node: Node) -> None:
    attempts = [node.start("true") for _ in range(100)]
    assert all(attempt.exit()["exit_code"] == 0 for attempt in attempts)


def test_the_orphans_of_one_keeper_do_not_cost_the_others(node: Node) -> None:
    others = [node.nasty("double_fork") for _ in range(3)]
    attempt = node.nasty("mutual_respawners")
    os.kill(attempt.running()["keeper"], signal.SIGKILL)
    assert attempt.exit()["keeper_died"] == signal.SIGKILL
    assert attempt.nothing_is_left()
    now = moment()
    wait_for(lambda: all(other.last_stamp() > now for other in others))


def test_an_older_version_works_beside(make_node: Callable[..., Node], tmp_path: Path) -> None:
    older_source = tmp_path / "keeper"
    shutil.copytree(SOURCE, older_source, ignore=shutil.ignore_patterns("__pycache__"))
    with (older_source / "tree.py").open("a") as file:
        file.write("# older\n")
    new = make_node()
    old = make_node(state=new.state, source=older_source)
    assert new.version() != old.version()
    running_old = old.prepare(["sh", "-c", "while [ ! -e leave ]; do sleep 0.02; done; exit 6"])
    old.tell(f"start {running_old.path}")
    running_old.running()
    shutil.rmtree(older_source / "__pycache__", ignore_errors=True)
    for path in older_source.iterdir():
        path.write_text("broken(")
    new.attempts.append(running_old)
    assert new.shell("exit 7").exit()["exit_code"] == 7
    (running_old.files / "leave").touch()
    assert running_old.exit()["exit_code"] == 6


def test_a_nursery_with_nothing_to_do_does_nothing(node: Node) -> None:
    """It must not wake itself: it would go round as often as the processor allows."""
    node.start("true").exit()
    before = processor_time(node.nursery.pid)
    node.start("sleep", "2").exit()
    assert processor_time(node.nursery.pid) - before < 0.1


def processor_time(pid: int) -> float:
    """Seconds that it has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
