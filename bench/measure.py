"""Measuring in rounds: what is compared takes turns, so that a noisy machine is noisy for both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

ROUNDS = 7

Work = Callable[[], int]
"""Does some work and says how many tasks that was."""


def rates(contestants: Mapping[str, Work], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Tasks per second of each contestant in each round."""
    found: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, work in contestants.items():
            begin = time.perf_counter()
            tasks = work()
            found[name].append(tasks / (time.perf_counter() - begin))
    return found


def ratio(rates: Mapping[str, list[float]], ours: str, theirs: str) -> float:
    """The median of the rounds' ratios."""
    pairs = zip(rates[ours], rates[theirs], strict=True)
    return statistics.median(our / their for our, their in pairs)


def say(what: str, value: str, aim: str = "", good: bool | None = None) -> None:
    """A line of the report."""
    mark = {None: " ", True: "✓", False: "✗"}[good]
    print(f"  {mark} {what:<58} {value:>22}   {aim}", flush=True)


def say_ratio(what: str, found: Mapping[str, list[float]], aim: float) -> None:
    """Ours against the floor."""
    value = ratio(found, "stayer", "floor")
    ours, floor = (statistics.median(found[name]) for name in ("stayer", "floor"))
    shown = f"{value:.2f} × floor"
    say(f"{what} ({ours:,.0f}/s; floor {floor:,.0f}/s)", shown, f"aim ≥ {aim}", value >= aim)
