"""Threads that do not answer, seen by their worker, without either."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from stayer.keeper.kernel import awake
from stayer.worker.threads.process import PoolProcess
from stayer.worker.threads.worker import ThreadsWorker
from stayer.worker.watchdog import Watchdog

LONG = 100.0


@pytest.mark.parametrize("has_lease", [True, False])
def test_who_stands_still_for_want_of_a_lease_is_not_silent(has_lease: bool) -> None:
    pool = PoolProcess.__new__(PoolProcess)
    pool._pings, pool._pongs = 1, 0
    pool._asked_at = pool._ready_at = awake() - LONG
    worker = SimpleNamespace(
        _heartbeat=SimpleNamespace(is_current=lambda: has_lease),
        _watchdog=Watchdog(LONG, 0.0, None),
        _answered_at=0.0,
        _be_stuck_since=lambda answered_at: None,
    )
    worker._watchdog._next_look = awake() + LONG  # nobody is past its time
    pool.at_work_on = set  # type: ignore[method-assign]
    ThreadsWorker._watch(cast(ThreadsWorker, worker), pool)
    assert (pool.silent_for(awake()) >= LONG) is has_lease
