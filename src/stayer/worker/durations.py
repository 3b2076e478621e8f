"""How long ago an attempt began and ended, whoever was there to see it.

By the machine's own clock, which nobody can set, while it is up; by the wall clock after a reboot,
and where the end was written by another than the task's keeper. The store takes neither for more
than it can be (see `Store.commit`).
"""

from __future__ import annotations

import time
from typing import Any

from stayer.keeper.kernel import boot_id
from stayer.service.lease.heartbeat import moment
from stayer.worker.attempt import HeldAttempt
from stayer.worker.run_directory import Run

_LONGEST_DURATION_S = 1e12
"""A longer duration is not believed: a task can write what it likes."""


def started_ago(held: HeldAttempt) -> float:
    """Return how many seconds ago it started; 0 if it is not known."""
    took = total_seconds(held.run)
    return (
        held.age() - min(held.age(), held.run.prepared_for)
        if took is None
        else seconds_since_end(held.run) + took
    )


def seconds_since_end(run: Run) -> float:
    """Return how many seconds ago it ended; 0 if it is not known, or goes on."""
    exit = run.exit or {}
    by_machine, by_wall = _number(exit, "moment"), _number(exit, "ended")
    if by_machine is not None and exit.get("boot") == boot_id():
        return max(0.0, moment() - by_machine)
    ended = run.end_recorded_at() if by_wall is None else by_wall
    return 0.0 if ended is None else max(0.0, time.time() - ended)


def total_seconds(run: Run) -> float | None:
    """Seconds from its start to its end, without those in which its code was prepared."""
    took = _number(run.exit or {}, "took")
    return None if took is None else took - min(took, run.prepared_for)


def idle_seconds(run: Run) -> float:
    """Return for how many seconds of its run it was paused or frozen, or its machine
    was suspended.
    """
    took, ran = _number(run.exit or {}, "took"), _number(run.exit or {}, "ran")
    return 0.0 if took is None or ran is None else max(0.0, took - ran)


def _number(fields: dict[str, Any], name: str) -> float | None:
    """Read a number, with care: a task can write what it likes where its keeper does."""
    found = fields.get(name)
    if (
        not isinstance(found, int | float)
        or isinstance(found, bool)
        or not abs(found) < _LONGEST_DURATION_S
    ):
        return None
    return float(found)
