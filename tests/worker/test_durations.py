"""How long ago an attempt began and ended, from what its keeper, or another, left of it."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from stayer.core.submit.checks import new_task
from stayer.core.worker_model import EVERYTHING
from stayer.keeper.kernel import boot_id
from stayer.service.lease.heartbeat import moment
from stayer.worker.attempt import HeldAttempt
from stayer.worker.commit_outcomes import settle_outcomes
from stayer.worker.durations import idle_seconds, seconds_since_end, started_ago
from tests.faults.fleet import until
from tests.worker.test_attempts import Hands, hands

__all__ = ("hands",)


def ended(hands: Hands, id: str = "a", **said: Any) -> HeldAttempt:
    held = hands.take(id)
    held.run.declare_end({"exit_code": 0, "stop": None, **said})
    return held


def test_it_is_told_by_the_machines_own_clock(hands: Hands) -> None:
    """The wall clock, which may have been set since, has nothing to say."""
    held = ended(
        hands, boot=boot_id(), moment=moment() - 50, ended=time.time() - 9999, took=30.0, ran=20.0
    )
    assert seconds_since_end(held.run) == pytest.approx(50, abs=5)
    assert started_ago(held) == pytest.approx(80, abs=5)
    assert idle_seconds(held.run) == 10


def test_after_a_reboot_the_wall_clock_has_to_do(hands: Hands) -> None:
    held = ended(hands, boot="of before", moment=moment() - 5, ended=time.time() - 50)
    assert seconds_since_end(held.run) == pytest.approx(50, abs=5)


def test_a_clock_that_was_set_back_makes_no_end_to_come(hands: Hands) -> None:
    held = ended(hands, boot="of before", moment=moment(), ended=time.time() + 500)
    assert seconds_since_end(held.run) == 0


def test_whoever_wrote_of_the_end_did_so_when_it_was(hands: Hands) -> None:
    """The nursery speaks for a keeper that was killed, and knows no times."""
    held = ended(hands)
    before = time.time() - 50
    os.utime(held.run.folder / "exit", (before, before))
    assert seconds_since_end(held.run) == pytest.approx(50, abs=5)


@pytest.mark.parametrize("odd", ["soon", None, True, [], 1e300, -1e300, 10**400])
def test_what_a_task_wrote_there_does_no_harm(hands: Hands, odd: Any) -> None:
    held = ended(hands, boot=boot_id(), moment=odd, ended=odd, took=odd, ran=odd)
    assert 0 <= seconds_since_end(held.run) < 60
    assert idle_seconds(held.run) == 0
    assert settle_outcomes(hands.store, [held]) == [held]


def test_what_began_and_ended_unseen_has_a_start(hands: Hands) -> None:
    hands.store.submit([new_task(queue="default", id="a", command=["true"])])
    [task] = hands.store.reserve(hands.state.worker_id, ["default"], 1, EVERYTHING)
    until_moment = moment() + 1.0
    until(lambda: moment() > until_moment)
    run = hands.state.run_for(task)
    run.prepare(task, {"limits": {}}, None)
    times = {"boot": boot_id(), "moment": moment() - 0.4, "took": 0.3, "ran": 0.3}
    run.declare_end({"exit_code": 0, "stop": None, **times})

    [held] = settle_outcomes(hands.store, [HeldAttempt(task, run)])

    [done] = hands.store.get([held.task.id])
    assert done is not None
    assert done.started_at is not None
    assert done.finished_at is not None
    assert task.updated < done.started_at
    assert 0.2 < done.finished_at - done.started_at < 0.4


@pytest.mark.parametrize("ended_before", [0.0, 0.08, 0.2])
def test_a_very_short_task_shows_how_long_it_ran(hands: Hands, ended_before: float) -> None:
    """Its start and its end are told together, mostly within a moment."""
    hands.store.submit([new_task(queue="default", id="a", command=["true"])])
    [task] = hands.store.reserve(hands.state.worker_id, ["default"], 1, EVERYTHING)
    taken_at = moment()
    until(lambda: moment() > taken_at + 0.3)
    run = hands.state.run_for(task)
    run.prepare(task, {"limits": {}}, None)
    times = {"boot": boot_id(), "moment": moment() - ended_before, "took": 0.037, "ran": 0.037}
    run.declare_end({"exit_code": 0, "stop": None, **times})

    assert settle_outcomes(hands.store, [HeldAttempt(task, run)])

    [done] = hands.store.get(["a"])
    assert done is not None
    assert (done.finished_at or 0) - (done.started_at or 0) == pytest.approx(0.037, abs=1e-3)
    [attempt] = hands.store.attempts("a")
    assert (attempt.finished_at or 0) - (attempt.started_at or 0) == pytest.approx(0.037, abs=1e-3)
