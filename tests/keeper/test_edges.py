"""What comes together: the end of a pause and of the lease, a full disk and what is to be said."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stayer.keeper import keeper as keeper_module
from stayer.keeper.folder import RunDirectory
from stayer.keeper.grip import Grip
from stayer.keeper.keeper import Keeper
from stayer.keeper.kernel import boot_id, moment
from tests.keeper.harness import Attempt, Node, state_of, wait_for
from tests.keeper.test_start_and_end import small_disk

__all__ = ("small_disk",)


def paused(node: Node, **spec: Any) -> Attempt:
    attempt = node.nasty("double_fork", **spec)
    attempt.go(paused=True)
    wait_for(lambda: attempt.stopped() == ["paused"])
    return attempt


def at_the_edge(node: Node, attempt: Attempt, **orders: object) -> None:
    """Let the keeper meet the end of its lease and these orders in one and the same look."""
    keeper = attempt.running()["keeper"]
    os.kill(keeper, signal.SIGSTOP)
    wait_for(lambda: state_of(keeper) == "T")
    node.renew(9.9, length=60.0)  # frozen from 10 s before its end on
    attempt.go(**orders)
    os.kill(keeper, signal.SIGCONT)


def test_a_resume_when_the_lease_is_over_wakes_nothing(node: Node) -> None:
    attempt = paused(node)
    last = attempt.last_stamp()
    at_the_edge(node, attempt, paused=False)
    wait_for(lambda: attempt.stopped() == ["fenced"], "the fence to take over from the pause")
    assert attempt.last_stamp() == last
    node.renew()
    attempt.go(thaw=moment())
    wait_for(lambda: attempt.last_stamp() > last, "a sign of life")


class NoTimer:
    """In the place of the kernel's timers, which would end the process that runs these tests."""

    def set(self, *at: object) -> None:
        """Never."""


def keeper_here(folder: Path, lease: Path) -> Keeper:
    """A keeper in this process."""
    keeper = Keeper(RunDirectory(str(folder)), {"lease": str(lease)})
    keeper._timer = keeper._alarm = NoTimer()  # type: ignore[assignment]
    return keeper


class Hands(Grip):
    """Tells whether it was let go."""

    thawed = False

    def thaw(self) -> None:
        self.thawed = True


@pytest.mark.parametrize(("left", "goes_on"), [(30.0, True), (9.9, False)])
def test_a_resume_looks_at_the_lease_once_more(tmp_path: Path, left: float, goes_on: bool) -> None:
    """It may have ended since the fence was looked after, if only by a hair."""
    lease = tmp_path / "lease"
    lease.write_text(f"{boot_id()} {moment() + 60.0:020.6f} {60.0:012.3f}\n")
    keeper = keeper_here(tmp_path, lease)
    hands = keeper._grip = Hands(os.getpid(), None, None)
    keeper._stopped = {"paused"}
    lease.write_text(f"{boot_id()} {moment() + left:020.6f} {60.0:012.3f}\n")
    keeper._release("paused")
    assert (hands.thawed, keeper._stopped) == (goes_on, set() if goes_on else {"paused"})


@pytest.mark.parametrize("fence", ["freeze", "kill"])
def test_pause_cancel_and_the_end_of_the_lease_together_are_a_cancel(
    node: Node, fence: str
) -> None:
    attempt = node.nasty("ignores_term", fence=fence)
    at_the_edge(node, attempt, paused=True, stop={"why": "cancel", "grace": 1000.0})
    assert attempt.exit()["stop"]["why"] == "cancel"
    assert attempt.nothing_is_left()
    assert attempt.last_stamp() < node.until


def test_a_limit_set_while_it_stands_still_counts_when_it_goes_on(node: Node) -> None:
    attempt = paused(node, grace=0.1)
    attempt.go(paused=True, limits={"time": 0.01})
    attempt.go(paused=True, limits={"time": 0.01}, signals=[[1, "SIGURG"]])
    start = moment()
    wait_for(lambda: moment() > start + 0.5)
    assert attempt.read("exit") is None
    attempt.go(limits={"time": 0.01})
    assert attempt.exit()["stop"]["why"] == "timeout"


def test_a_deadline_strikes_also_while_it_stands_still(node: Node) -> None:
    attempt = paused(node, grace=0.1)
    attempt.go(paused=True, limits={"deadline": moment()})
    assert attempt.exit()["stop"]["why"] == "deadline"


def test_a_limit_lifted_while_it_stands_still_does_not_strike(node: Node) -> None:
    attempt = node.nasty("plain", limits={"time": 2.0}, grace=0.1)
    attempt.go(paused=True)
    wait_for(lambda: attempt.stopped() == ["paused"])
    attempt.go(limits={"time": None})
    wait_for(lambda: attempt.stopped() == [])
    woken = moment()
    wait_for(lambda: attempt.last_stamp() > woken + 2.5, "life after what was the limit")
    assert attempt.read("exit") is None


def test_what_a_full_disk_refused_is_said_when_there_is_room(
    make_node: Callable[..., Node], small_disk: Path
) -> None:
    node = make_node(state=small_disk)
    attempt = node.shell("exec sleep 1000")
    main = attempt.running()["pid"]
    # Let it look at what is used until that stays the same: then there is nothing else to say.
    watched = moment() + 3.0
    attempt.go(paused=False, watched=watched)
    wait_for(lambda: moment() > watched)
    filler = small_disk / "filler"
    os.system(f"cat /dev/zero > {filler} 2>/dev/null")
    (attempt.path / "go").write_text('{"paused": true}')  # in place: there is room for no other
    attempt.look()
    wait_for(lambda: state_of(main) == "T", "the pause")
    assert attempt.stopped() == []  # it could not be said
    filler.unlink()
    wait_for(lambda: attempt.stopped() == ["paused"], "it to be said again")


def test_a_machine_that_has_just_booted_says_it_again_as_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = tmp_path / "lease"
    lease.write_text(f"{boot_id()} {1e9:020.6f} {60.0:012.3f}\n")
    keeper = keeper_here(tmp_path, lease)
    tried: list[str] = []
    monkeypatch.setattr(keeper._folder, "write", lambda name, _: tried.append(name))
    monkeypatch.setattr(keeper_module, "moment", lambda: 7.0)
    keeper._accounts.sample()  # what is used stays the same, so this alone is to be said
    monkeypatch.setattr(keeper._accounts, "sample", lambda: keeper._accounts.usage)
    keeper._say()
    keeper._sample()
    assert tried == ["running", "running"]
