"""What a worker was given and may not run: it goes back, and comes again less and less often."""

from __future__ import annotations

from collections.abc import Sequence

from stayer.core.happenings import Snooze
from stayer.core.model import Task

REFUSED = "refused by its worker"
"""How the note begins that it leaves in its history."""
_FIRST, _LONGEST = 1.0, 300.0
"""For how many seconds nobody takes it. Another worker that may run it, perhaps this one with new
options, should not wait for long; one that may not, and is alone, should not be busy with it."""
_REMEMBERED = 10_000
_LONGEST_OF_MANY = 3600.0
"""Somebody sends these on purpose, and they come before what was submitted after them."""
_FEW, _SHOWN = 5, 200


def no_handler(task: Task) -> str:
    """Return why it is refused by who has nothing for such tasks."""
    if task.kind is None:
        return "nothing here runs tasks without name and command"
    return f"nothing here runs {list_some([task.kind])}"


def other_queue(task: Task) -> str:
    """Return why it is refused by who works for other queues."""
    return f"it is of queue {list_some([task.queue])}, which is none of those of its worker"


def list_some(words: Sequence[str]) -> str:
    """List some words for a message, whatever is in them."""
    few = [word if len(word) <= _SHOWN else f"{word[:_SHOWN]}…" for word in words[:_FEW]]
    text = ", ".join(word if word.isprintable() else repr(word) for word in few)
    return text if len(words) <= _FEW else f"{text} and {len(words) - _FEW} more"


class Refusals:
    """How often this worker has refused which task."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def is_new(self, task: Task) -> bool:
        """Return whether it was not refused here before, and there are not too many to log each."""
        return task.id not in self._times and len(self._times) < _REMEMBERED

    def snooze(self, task: Task, why: str) -> Snooze:
        """Let it wait, and charge nothing to it. Of very many, which somebody sends on purpose,
        each waits for long.
        """
        is_one_of_many = task.id not in self._times and len(self._times) >= _REMEMBERED
        times = self._times.pop(task.id, 0)
        self._times[task.id] = times + 1
        if len(self._times) > _REMEMBERED:
            del self._times[next(iter(self._times))]
        delay = (
            _LONGEST_OF_MANY if is_one_of_many else min(_LONGEST, _FIRST * 2.0 ** min(times, 20))
        )
        return Snooze(delay, f"{REFUSED}: {why}")
