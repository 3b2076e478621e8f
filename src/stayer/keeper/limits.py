"""How long a task may run, be silent, and how much memory it may use: nothing unless asked for."""

from __future__ import annotations

import time

from .folder import RunDirectory
from .kernel import moment
from .lean import Content

_SIGNS_OF_LIFE = ("log", "report", "checkpoint", "result")
_SHORTEST = 0.01


class Limits:
    """With the clocks that they go by, which stand still while the task, or the machine, does."""

    def __init__(self, folder: RunDirectory, wanted: dict[str, float | None]) -> None:
        self._folder = folder
        self._wanted = wanted
        self._activity: tuple[object, ...] = ()
        self._ticked = time.monotonic()
        self._silent = 0.0
        self.ran = 0.0

    def change(self, wanted: dict[str, float | None]) -> None:
        """Replace those that are named; None lifts one."""
        self._wanted.update(wanted)

    @property
    def memory(self) -> float | None:
        return self._wanted.get("memory")

    def tick(self, stands_still: bool) -> None:
        """Some time has gone by."""
        now = time.monotonic()
        if not stands_still:
            self.ran += now - self._ticked
            self._silent += now - self._ticked
        self._ticked = now

    def exceeded(self, rss: float) -> tuple[str, float] | None:
        """Why the task must stop, if one is, and what the limit was."""
        seen = map(self._folder.task.seen, _SIGNS_OF_LIFE)
        activity = tuple(
            found and (found.st_ino, found.st_size, found.st_mtime_ns) for found in seen
        )
        if activity != self._activity:
            self._activity, self._silent = activity, 0.0
        for why, name, have in (
            ("timeout", "time", self.ran),
            ("silent", "silence", self._silent),
            ("memory", "memory", rss),
        ):
            limit = self._wanted.get(name)
            if limit and have > limit:
                return why, limit
        return None

    def is_deadline_over(self) -> bool:
        """Whether it has to have ended by now, also if it stands still."""
        deadline = self._wanted.get("deadline")
        return deadline is not None and deadline <= moment()

    def rest(self) -> float | None:
        """How long none of the clocks can strike."""
        left = [
            max(_SHORTEST, limit - used)
            for limit, used in (
                (self._wanted.get("time"), self.ran),
                (self._wanted.get("silence"), self._silent),
                (self._wanted.get("deadline"), moment()),
            )
            if limit
        ]
        return min(left, default=None)


def as_limits(said: Content | None) -> dict[str, float | None]:
    """As they stand in a file."""
    return {
        str(name): None if value is None else float(value) for name, value in (said or {}).items()
    }
