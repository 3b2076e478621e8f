"""Who goes first, who has to wait, who holds a unique word: the rules once more, in plain sums."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from stayer.core.model import FINISHED, QUEUED, Task
from stayer.core.queue_model import Fair, QueueSettings, Rate

DAY = 86400.0


class Settings(Struct):
    """What a queue was told, and what is left of its rate."""

    paused: bool = False
    limit: int | None = None
    key_limit: int | None = None
    key_limits: dict[str, int] = {}
    rate: Rate | None = None
    fair: Fair | None = None
    left: float = 0.0
    left_at: float | None = None

    def change(self, settings: QueueSettings) -> None:
        if "rate" in settings:
            if self.rate is None or settings["rate"] is None:
                self.left_at = None
            else:
                self.left = min(self.left, settings["rate"].count)
        for name, value in settings.items():
            if name != "key_limits":
                setattr(self, name, value)
        for key, limit in settings.get("key_limits", {}).items():
            if limit is None:
                self.key_limits.pop(key, None)
            else:
                self.key_limits[key] = limit

    def has_place(self, key: str | None, running: Sequence[Task]) -> bool:
        limit = None if key is None else self.key_limits.get(key, self.key_limit)
        return limit is None or sum(task.key == key for task in running) < limit

    def tokens(self, now: float) -> float:
        if self.rate is None:
            return math.inf
        if self.left_at is None:
            return self.rate.count
        grown = (now - self.left_at) * self.rate.count / self.rate.per
        return min(self.rate.count, self.left + grown)

    def take_token(self, now: float) -> None:
        if self.rate is not None:
            self.left, self.left_at = self.tokens(now) - 1, now

    def next_token(self, now: float) -> float | None:
        tokens = self.tokens(now)
        if self.rate is None or tokens >= 1 - 1e-6:
            return None
        return now + (1 - tokens) * self.rate.per / self.rate.count


class Run(Struct):
    """A time in which a task held a place; `share` is whose it was, if that counted."""

    id: str
    queue: str
    begin: float
    end: float | None = None
    share: str | None = None
    ran: float = 0.0


def holds(task: Task, now: float) -> bool:
    """Whether it holds its unique word."""
    if task.state in QUEUED:
        return True
    if task.state in FINISHED:
        return task.unique_for > 0 and (task.finished_at or 0) + task.unique_for > now
    return task.unique_while == "alive"


def share_of(fair: Fair, task: Task) -> str:
    return (task.owner if fair == "owner" else task.key) or ""


def usage_of_shares(
    fair: Fair, runs: Sequence[Run], tasks: Mapping[str, Task], fit: Sequence[Task], now: float
) -> dict[str, int]:
    """How much each share has used, in milliseconds."""
    queue = fit[0].queue
    mine = [run for run in runs if run.queue == queue]
    ended = [run for run in mine if run.end is not None and run.share is not None]
    used = {share_of(fair, task): 0.0 for task in fit}
    total = number = 0.0
    for share in {run.share or "" for run in ended}:
        ends = [(run.end or 0.0, run.ran) for run in ended if run.share == share]
        seconds, runs_of_share = _left(ends, now)
        used[share] = seconds
        total, number = total + seconds, number + runs_of_share
    usual = total / number if total > 0 else 60.0
    for run in mine:
        if run.end is None:
            share = share_of(fair, tasks[run.id])
            used[share] = used.get(share, 0.0) + max(now - run.begin, usual)
    return {share: math.floor(seconds * 1000 + 0.5) for share, seconds in used.items()}


def _left(runs: Sequence[tuple[float, float]], now: float) -> tuple[float, float]:
    """Seconds and number of somebody's runs: half of it forgotten a day, all in 30 idle days."""
    seconds = number = 0.0
    for index, (end, ran) in enumerate(runs):
        until = runs[index + 1][0] if index + 1 < len(runs) else now
        weight = 0.5 ** ((until - end) / DAY) if until - end < 30 * DAY else 0.0
        seconds, number = (seconds + ran) * weight, (number + 1) * weight
    return seconds, number
