"""The attempts that this worker holds, by task and number."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeVar

from stayer.core.model import Report, Task
from stayer.core.units import format_duration
from stayer.service.lease.heartbeat import moment
from stayer.worker.attempt import HeldAttempt
from stayer.worker.beat_size import BEAT_LIMIT_BYTES, weight
from stayer.worker.orphans import sweep_strays
from stayer.worker.run_directory import Run
from stayer.worker.state_directory import StateDirectory
from stayer.worker.wakeup import Bell

logger = logging.getLogger("stayer.worker")

T = TypeVar("T")

_WATCHED_FOR_S = 30.0
"""How long keepers look every second after somebody has watched a task."""
_DEATH_TIMEOUT_S = 30.0
"""How long to wait at most for what was taken from this worker to end."""


class HeldAttempts:
    """All of them; the thread of the heartbeat reads them, too."""

    def __init__(self, state: StateDirectory, bell: Bell) -> None:
        self._state = state
        self._bell = bell
        self._held: dict[tuple[str, int], HeldAttempt] = {}
        self._next_in_turn: tuple[str, int] | None = None

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[HeldAttempt]:
        return iter(list(self._held.values()))

    def __contains__(self, key: tuple[str, int]) -> bool:
        return key in self._held

    def get(self, key: tuple[str, int]) -> HeldAttempt | None:
        return self._held.get(key)

    def add(self, held: HeldAttempt) -> None:
        self._held[held.key] = held

    def await_start(self, held: HeldAttempt) -> None:
        """Add one whose keeper is about to be asked for."""
        self.add(held)
        held.is_heard = self._bell.ring_when_written(held.run.folder, ("running", "exit"))

    def await_end(self, held: HeldAttempt) -> None:
        """Note that its keeper is at work, which says the same again now and then: what counts from
        now on is its end.
        """
        self._bell.ring_when(held.run.pidfd())
        if held.is_heard:
            self._bell.ring_when_written(held.run.folder, ("exit",))

    def take_up(self, held: HeldAttempt) -> None:
        """Add one that was found at work, or at its end."""
        self.add(held)
        self._bell.ring_when(held.run.pidfd())

    def remove(self, held: HeldAttempt) -> None:
        """Remove it: nothing is left to say of it, and nothing is left of it here."""
        if self._held.pop(held.key, None) is not None:
            self._bell.forget(held.run.pidfd())

    def ours(self) -> list[HeldAttempt]:
        """List what is held under the name that this worker has now."""
        return [held for held in self if held.task.worker == self._state.worker_id]

    def queues(self) -> set[str]:
        """Return the queues of what is held under that name."""
        return {held.task.queue for held in self.ours()}

    def list_fenced(self) -> list[HeldAttempt]:
        """List what its keepers have frozen, for want of a lease."""
        return [held for held in self if held.is_fenced()]

    def stop(self, grace: float) -> None:
        """Have all of them end within this time."""
        for held in self:
            shorter = held.stop_grace is None or grace < held.stop_grace
            if shorter and held.ask(stop={"why": "interrupt", "grace": grace}):
                held.stop_grace = grace

    def what_stops(self, grace: float) -> str:
        """Say what is being stopped; there must be something."""
        number = len(self)
        longest = format_duration(max(held.age() for held in self))
        what = f"1 task ({longest})" if number == 1 else f"{number} tasks (longest {longest})"
        if not grace:
            return f"killing {what}"
        return (
            f"stopping {what}, killed after {format_duration(grace)} at most, to be begun again by "
            "the next worker. Ctrl-C again kills at once; `kill -HUP` instead of Ctrl-C or TERM "
            "leaves tasks running"
        )

    def describe_number(self, what: str) -> str:
        """Say how many there are."""
        return f"{len(self)} {what}" + ("" if len(self) == 1 else "s")

    def give_up(self) -> None:
        """Give up all of it: the lease is void, and the keepers are to see that now."""
        for held in self:
            if not held.lost:
                held.end_as_lost()

    def has_dying(self) -> bool:
        """Something that was taken from us has not ended, and may still move.

        What is not gone after a while hangs in the kernel, and dies when it comes out of there.
        """
        dead_by = time.monotonic() - _DEATH_TIMEOUT_S  # it does not die while the machine sleeps
        return any(
            held.lost and held.lost_at > dead_by and not held.run.has_ended() for held in self
        )

    def have_urgent_news(self) -> bool:
        """Return whether one of them has something that must not wait for the next beat. Each is
        asked: the first news of a task count once, and one beat is for those of all.
        """
        urgent = [held for held in self if held.has_urgent_news()]
        return bool(urgent)

    def show(self) -> None:
        """Somebody watches: let the keepers look every second."""
        now = moment()
        for held in self:
            if (
                held.watched_until < now + _WATCHED_FOR_S / 3
                and held.run.process_status is not None
            ):
                held.watched_until = now + _WATCHED_FOR_S
                held.ask(watched=held.watched_until)

    def gather(self) -> list[Report]:
        """Gather the news for a beat. What has ended goes first, for its end waits; the others take
        turns where there is too much.
        """
        reports: list[Report] = []
        room = BEAT_LIMIT_BYTES
        in_turn = self._in_turn()
        for held in in_turn:
            report = held.gather(room)
            if report is not None:
                room -= weight(report)
                reports.append(report)
        self._next_in_turn = next((held.key for held in in_turn if held.was_cut_short), None)
        return reports

    def _in_turn(self) -> list[HeldAttempt]:
        """Beginning with the first for whom the last beat had no room."""
        ours = self.ours()
        first = next((i for i, held in enumerate(ours) if held.key == self._next_in_turn), 0)
        return sorted(ours[first:] + ours[:first], key=lambda held: not held.run.has_ended())

    def mark_delivered(self, undelivered: Collection[str] = ()) -> None:
        """Note that the beat got through, but for the news of these tasks."""
        for held in self:
            if held.task.id not in undelivered:
                held.mark_delivered()

    def adopt(self, run: Run) -> HeldAttempt | None:
        """Adopt a run directory from before: take up what lives or has ended; None if it is
        neither.
        """
        try:
            about = run.description
            task = Task(
                about["task"]["id"],
                about["task"]["queue"],
                state="reserved",
                worker=about["worker"],
                attempt=about["attempt"],
            )
        except (OSError, ValueError, KeyError, TypeError):
            logger.error("%s is no run directory that can be read: left alone", run.folder)
            return None
        ours = task.worker == self._state.worker_id
        kept = run.has_keeper() or (ours and run.keeper_lives())
        if not run.has_ended() and not kept:
            # Of another identity (before a reboot, or copied from elsewhere) only an outcome that a
            # keeper wrote is believed: the original may be running. The rest comes when it is lost.
            if not ours or not run.void() or not sweep_strays(run.folder):
                return None
            never = {"not_started": "its worker died before it could begin", "node": True}
            note: dict[str, Any] = {"keeper_died": None} if run.process_status else never
            run.declare_end(note)
        held = HeldAttempt(task, run)
        held.known = False
        self.take_up(held)
        if kept and not ours:
            # Whoever we were was declared lost: the store may have given it away, even to us.
            held.end_as_lost()
        logger.info("adopted task %s, attempt %d", task.id, task.attempt)
        return held


def by_queue(items: Iterable[T], held: Callable[[T], HeldAttempt]) -> dict[str, list[T]]:
    """Group them by queue: one queue may be away while others are not."""
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(held(item).task.queue, []).append(item)
    return groups
