"""What an attempt reports of itself, kept short however long it runs. Pure, but for `Recorder`,
which collects.

Of a metric every point is kept at first. When there are over `POINTS`, every second one goes, then
every second one of what comes, and so on: between half of that and all of it is left, evenly spread
over the values that came, and the newest is always among them. Least, most and count are of all
values. A step that is begun again under the same name is one with a higher count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stayer.core.model import Metric, Series, Statistics, Step

METRICS = 50
"""How many names of metrics an attempt may have; values of further ones are left out."""
POINTS = 256
"""How many points of one are kept at most …"""
ALL_POINTS = 5000
"""… and of all of them together: with over 19 names, each has fewer."""
STEPS = 100
"""How many steps are kept: the first half of them, and the newest."""
NAME_LENGTH = 100
POINT_BYTES = 30
"""About how much a point takes as JSON: 150 kB for all of them."""

MOST_BYTES = POINT_BYTES * ALL_POINTS + 200 * (METRICS + STEPS)
"""What `weight` says of the largest."""


class _Curve(Struct):
    """A metric, as it is collected."""

    last: float | None = None
    least: float | None = None
    most: float | None = None
    count: int = 0
    x: float | None = None
    entries: int = 0
    """How many points there were."""
    width: int = 1
    """Of so many points one is kept."""
    points: list[tuple[int, float, float | None, float | None]] = []
    """The number of the point among all, then as in a Series."""

    def add(self, at: float, x: float | None, value: _Value, room: int) -> None:
        """Take a point, and keep no more than there is room for."""
        self.last, self.x = value.last, x
        self.least = _chosen(min, self.least, value.least)
        self.most = _chosen(max, self.most, value.most)
        self.count += value.count
        if self.points and self.points[-1][0] % self.width:
            self.points.pop()  # it was only there as the newest
        self.points.append((self.entries, at, x, value.last))
        self.entries += 1
        self.thin(room)

    def thin(self, room: int) -> None:
        while len(self.points) > room:
            self.width *= 2
            newest = self.points[-1]
            self.points = [point for point in self.points if point[0] % self.width == 0]
            if not self.points or self.points[-1] is not newest:
                self.points.append(newest)


class _Step(Struct):
    start: float
    since: float | None
    end: float | None = None
    elapsed: float = 0.0
    count: int = 1


class _Value(Struct):
    """One value, or what several have come to."""

    last: float | None
    least: float | None
    most: float | None
    count: int = 1


class Recorder(Struct):
    """Collects what an attempt reports. It can be written down as JSON, and read back."""

    curves: dict[str, _Curve] = {}
    steps: dict[str, _Step] = {}
    phase: str | None = None
    """The step that ends when the next one begins."""
    left_out: int = 0
    latest: float = 0.0
    """When the newest report was made: none is older than one before it."""

    def take(self, content: Mapping[str, Any], now: float, wall: float) -> bool:
        """Take a report as it is written to a file; whether there was something in it. `now` is in
        seconds since the attempt began, and `wall` the same moment by the node's clock.
        """
        written = _finite(content.get("at"))
        at = now if written is None else now - (wall - written)
        self.latest = at = round(min(max(at, self.latest), max(now, self.latest)), 3)
        metric, step, is_news = content.get("metric"), content.get("step"), False
        if isinstance(metric, dict):
            x = _finite(content.get("x"))
            for name, value in metric.items():
                is_news |= self.add(name, value, at, x)
        if isinstance(step, str):
            took, count = _finite(content.get("elapsed")), content.get("count")
            if isinstance(count, int) and count > 0 and took is not None:
                return self.add_rounds(step, at, took, count)
            if content.get("end"):
                return self.end(step, at, took) or is_news
            return self.begin(step, at, nested=bool(content.get("nested"))) or is_news
        return is_news

    def add(self, name: str, value: object, at: float, x: float | None = None) -> bool:
        """Take a value of a metric: a number, or an object with what several have come to; whether
        it has a place.
        """
        found = _value(value)
        if found is None:
            return False
        name = short_name(name)
        curve = self.curves.get(name)
        if curve is None:
            if len(self.curves) >= METRICS or not name:
                self.left_out += 1
                return True
            curve = self.curves[name] = _Curve(points=[])
            for each in self.curves.values():
                each.thin(self._room())
        curve.add(at, x, found, self._room())
        return True

    def _room(self) -> int:
        return min(POINTS, ALL_POINTS // len(self.curves))

    def begin(self, name: str, at: float, *, nested: bool = False) -> bool:
        """Note that a step begins, and unless it is nested in the one before, that this ends."""
        name = short_name(name)
        if not name:
            return False
        if not nested:
            if self.phase is not None:
                self.end(self.phase, at)
            self.phase = name
        known = self.steps.get(name)
        if known is None:
            self.steps[name] = _Step(at, at)
            self._drop_middle()
            return True
        self.end(name, at)
        known.since, known.end = at, None
        known.count += 1
        return True

    def end(self, name: str, at: float, elapsed: float | None = None) -> bool:
        """Note that a step has ended, after so many seconds if somebody has measured that."""
        name = short_name(name)
        known = self.steps.get(name)
        if known is None or known.since is None:
            return False
        took = at - known.since if elapsed is None else elapsed
        known.elapsed += max(0.0, took)
        known.end, known.since = max(at, known.start), None
        if self.phase == name:
            self.phase = None
        return True

    def add_rounds(self, name: str, at: float, elapsed: float, count: int) -> bool:
        """Note that a step has been begun and ended so many times."""
        name = short_name(name)
        known = self.steps.get(name)
        if known is None:
            if not name:
                return False
            start = max(0.0, round(at - elapsed, 3))
            known = self.steps[name] = _Step(start, None, count=0)
            self._drop_middle()
        known.count += count
        known.elapsed += max(0.0, elapsed)
        if known.since is None:
            known.end = at
        return True

    def _drop_middle(self) -> None:
        if len(self.steps) <= STEPS:
            return
        ended = [name for name, step in self.steps.items() if step.since is None]
        names = [name for name in list(self.steps)[STEPS // 2 : -1] if name in ended]
        self.steps.pop(names[0] if names else list(self.steps)[STEPS // 2])
        self.left_out += 1

    def result(self) -> Statistics:
        """Return all of it, as it is kept and shown."""
        metrics = {
            name: Series(
                last=curve.last, min=curve.least, max=curve.most, count=curve.count, x=curve.x,
                points=tuple(point[1:] for point in curve.points),
            )
            for name, curve in self.curves.items()
        }  # fmt: skip
        steps = tuple(
            Step(
                name=name, start=step.start, end=step.end, elapsed=round(step.elapsed, 3),
                count=step.count, since=step.since,
            )
            for name, step in self.steps.items()
        )  # fmt: skip
        return Statistics(metrics, steps, self.left_out)


def short_name(name: str) -> str:
    """Return the name as it is kept."""
    printable = "".join(each if each.isprintable() else " " for each in name)
    return printable.strip()[:NAME_LENGTH].encode("utf-8", "backslashreplace").decode()


def latest_values(statistics: Statistics) -> dict[str, Metric] | None:
    """Return what of it is a part of the task's record."""
    return {
        name: Metric(each.last, each.min, each.max, each.count, each.x)
        for name, each in statistics.metrics.items()
    } or None


def fitted(statistics: Statistics) -> Statistics:
    """Return what a worker in another language has collected with no more and no longer names than
    a `Recorder` keeps: every list of tasks carries them.
    """
    metrics = {short_name(name): each for name, each in [*statistics.metrics.items()][:METRICS]}
    steps = [replace(each, name=short_name(each.name)) for each in statistics.steps[:STEPS]]
    left_out = len(statistics.metrics) - len(metrics) + len(statistics.steps) - len(steps)
    return replace(
        statistics,
        metrics=metrics, steps=tuple(steps), left_out=statistics.left_out + left_out,
    )  # fmt: skip


def weight(statistics: Statistics) -> int:
    """Return about how many bytes it has as JSON."""
    points = sum(len(each.points) for each in statistics.metrics.values())
    return POINT_BYTES * points + 200 * (len(statistics.metrics) + len(statistics.steps))


def step_elapsed(step: Step, ran: float | None) -> float:
    """Return how long a step took in an attempt that has run for so many seconds, or did."""
    going = 0.0 if step.since is None or ran is None else max(0.0, ran - step.since)
    return step.elapsed + going


def _value(value: object) -> _Value | None:
    if value is None:
        return _Value(None, None, None)  # not a number, as JSON has it
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, int | float):
        number = _finite(value)
        return _Value(number, number, number)
    if not isinstance(value, dict) or "last" not in value:
        return None
    last, least, most, count = (value.get(name) for name in ("last", "min", "max", "count"))
    return _Value(
        _finite(last), _finite(least), _finite(most),
        count if isinstance(count, int) and count > 0 else 1,
    )  # fmt: skip


def _finite(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _chosen(choose: Any, known: float | None, new: float | None) -> float | None:
    if known is None or new is None:
        return new if known is None else known
    found: float = choose(known, new)
    return found
