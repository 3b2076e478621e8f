"""Nothing is left of a task, whatever it did and however it ends."""

from __future__ import annotations

import os
import signal

import pytest

from tests.keeper.harness import Attempt, Node, wait_for

KINDS = [
    "plain",
    "setsid",
    "double_fork",
    "cleared_environment",
    "mutual_respawners",
    "fork_loop",
    "ignores_term",
]

every_kind = pytest.mark.parametrize("kind", KINDS)


def is_over(attempt: Attempt) -> None:
    """The exit is written, and then there is nothing left."""
    attempt.exit()
    assert attempt.nothing_is_left()


@every_kind
def test_cancel_leaves_nothing(node: Node, kind: str) -> None:
    attempt = node.nasty(kind)
    assert attempt.cancel(grace=0.3)["stop"]["why"] == "cancel"
    is_over(attempt)


@every_kind
def test_the_end_of_the_main_process_leaves_nothing(node: Node, kind: str) -> None:
    attempt = node.nasty(kind)
    (attempt.files / "leave").touch()
    is_over(attempt)
    ended = attempt.exit()
    assert ended["exit_code"] == 0
    assert ended["leftovers"] >= 1


@every_kind
def test_a_lost_lease_stops_everything_before_its_end(node: Node, kind: str) -> None:
    attempt = node.nasty(kind)
    until = node.renew(10.2, length=60.0)
    attempt.look()
    # What can't be frozen in time is killed.
    wait_for(lambda: "fenced" in attempt.stopped() or attempt.read("exit"), "the fence")
    node.void()
    is_over(attempt)
    assert attempt.last_stamp() < until


@every_kind
def test_a_killed_keeper_leaves_nothing(node: Node, kind: str) -> None:
    attempt = node.nasty(kind)
    os.kill(attempt.running()["keeper"], signal.SIGKILL)
    is_over(attempt)
    assert attempt.exit()["keeper_died"] == signal.SIGKILL


@every_kind
def test_a_stopped_keeper_is_ended_by_the_kernel_before_the_lease_ends(
    node: Node, kind: str
) -> None:
    attempt = node.nasty(kind)
    until = node.renew(5.0, length=6.0)
    attempt.make_it_look()
    os.kill(attempt.running()["keeper"], signal.SIGSTOP)
    is_over(attempt)
    assert attempt.exit()["keeper_died"] == signal.SIGKILL
    assert attempt.last_stamp() < until


@pytest.mark.parametrize("kind", ["cleared_environment", "mutual_respawners", "fork_loop"])
def test_a_user_without_rights_can_cancel_it_all(nobody: Node, kind: str) -> None:
    attempt = nobody.nasty(kind)
    attempt.cancel(grace=0.3)
    is_over(attempt)


@pytest.mark.parametrize("kind", ["double_fork", "mutual_respawners"])
def test_a_user_without_rights_survives_a_killed_keeper(nobody: Node, kind: str) -> None:
    attempt = nobody.nasty(kind)
    os.kill(attempt.running()["keeper"], signal.SIGKILL)
    is_over(attempt)


def test_five_hundred_children_end_with_their_parent(node: Node) -> None:
    attempt = node.nasty("many", births=501)
    assert attempt.cancel(grace=0.1)["usage"]["user"] >= 0
    is_over(attempt)
