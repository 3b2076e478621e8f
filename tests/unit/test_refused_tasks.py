"""What a worker may not run waits longer each time, however many there are."""

from __future__ import annotations

from stayer.core.model import Task
from stayer.core.refused_tasks import Refusals, list_some


def of(id: str) -> Task:
    return Task(id=id, queue="q", state="reserved", created=0.0, updated=0.0)


def test_each_time_it_waits_twice_as_long_up_to_five_minutes() -> None:
    refusals = Refusals()
    waits = [refusals.snooze(of("a"), "x").delay for _ in range(30)]
    assert waits[:4] == [1, 2, 4, 8]
    assert waits[-1] == 300
    assert refusals.snooze(of("b"), "x").delay == 1


def test_of_very_many_none_is_told_of_again_or_comes_back_soon() -> None:
    refusals = Refusals()
    assert refusals.is_new(of("0"))
    for number in range(10_000):
        refusals.snooze(of(str(number)), "x")
    assert not refusals.is_new(of("0"))
    assert not refusals.is_new(of("another"))
    assert refusals.snooze(of("another"), "x").delay == 3600
    assert len(refusals._times) == 10_000


def test_what_somebody_wrote_is_shown_in_a_line() -> None:
    assert list_some(["A", "B"]) == "A, B"
    assert list_some(["A\nB"]) == r"'A\nB'"
    assert list_some(list("ABCDEFG")) == "A, B, C, D, E and 2 more"
    assert len(list_some(["x" * 10_000])) < 300
