"""Notices threads that don't answer: one task may keep all of a pool from running, as a long
regular expression does, which never lets go of the interpreter.

That alone is no reason to kill them: it may end. But who is past its time limit, or was cancelled,
and can't hear of it, is killed with its pool, after the grace that it would have had to stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from stayer.core.happenings import Fail, Happening, Stop
from stayer.core.model import RUNNING, Fault, Task

if TYPE_CHECKING:
    from stayer.worker.threads.process import PoolProcess

_LONGEST_PING_PAUSE_S, _PINGS_A_LEASE = 5.0, 8
"""How many pings are sent in a lease, but no longer apart than so many seconds."""
_LONGEST_SILENCE_S, _SILENCES_A_LEASE = 10.0, 2
"""Threads are stuck that have not answered for a lease divided by this, or for so many seconds."""
_OVERDUE_CHECK_S = 1.0
"""How often to look for tasks that are past their time."""


class Watchdog:
    """Asks one pool after the other whether it answers."""

    def __init__(self, lease: float, grace: float, time_limit: float | None) -> None:
        self._pause = min(_LONGEST_PING_PAUSE_S, lease / _PINGS_A_LEASE)
        self._enough = min(_LONGEST_SILENCE_S, lease / _SILENCES_A_LEASE)
        self._grace = grace
        self._time_limit = time_limit
        self._next_question = 0.0
        self._next_look = 0.0
        self._wanted_since: dict[tuple[str, int], float] = {}

    def silence(self, pool: PoolProcess, now: float) -> float | None:
        """Return for how many seconds it has not answered; None if it is well, or has
        only begun.
        """
        if now >= self._next_question:
            self._next_question = now + self._pause
            pool.ask_for_answer(now)
        silence = pool.silent_for(now)
        if silence < self._enough:
            self._wanted_since.clear()
            return None
        return silence

    def is_time_to_look(self, now: float) -> bool:
        """Return whether to look again who is past its time."""
        if now < self._next_look:
            return False
        self._next_look = now + _OVERDUE_CHECK_S
        return True

    def overdue(
        self, tasks: Iterable[Task | None], silence: float, now: float
    ) -> Mapping[tuple[str, int], Happening]:
        """Return those of the tasks it runs that should have ended by now, and what becomes of
        them. What runs has done so for at least as long as nothing could begin.
        """
        found: dict[tuple[str, int], Happening] = {}
        for task in tasks:
            if task is None or task.state not in RUNNING:
                continue
            key, grace = (task.id, task.attempt), self._grace_of(task)
            if task.cancel_wanted:
                since = self._wanted_since.setdefault(key, now)
                if min(silence, now - since) >= grace:
                    found[key] = Stop()
            limit = task.policy.time_limit
            limit = self._time_limit if limit is None else limit
            if limit and silence >= limit + grace:
                found.setdefault(key, _timeout(silence))
        return found

    def _grace_of(self, task: Task) -> float:
        graces = [order.arguments.get("grace") for order in task.orders if order.verb == "cancel"]
        given = next((each for each in graces if isinstance(each, int | float)), task.policy.grace)
        return self._grace if given is None else float(given)


def _timeout(silence: float) -> Fail:
    text = (
        f"it ran longer than its time limit, and was killed with the other threads of its worker, "
        f"which could not run for {silence:.0f} s"
    )
    return Fail(Fault("TimeLimit", text), "timeout")
