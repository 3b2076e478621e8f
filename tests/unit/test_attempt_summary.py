"""What the log of a worker says of the end of an attempt."""

from __future__ import annotations

import pytest

from stayer.core.attempt_summary import account
from stayer.core.happenings import Done, Fail, Happening, Interrupt, Stop
from stayer.core.lifecycle import decide
from stayer.core.model import Fault, Policy, Task

POLICIES = (Policy(), Policy(retries=1, retry_wait=60.0))


@pytest.mark.parametrize(
    ("happening", "retries", "said"),
    [
        (Done(), 0, "task t (f) is complete after 5m 03s"),
        (Stop(), 0, "task t (f) is cancelled after 5m 03s"),
        (Interrupt("its worker stopped"), 0, "was handed back after 5m 03s (interrupted, its work"),
        (Fail(Fault("E", "no")), 0, "task t (f) failed after 5m 03s (error, E: no)"),
        (Fail(Fault("E", "no")), 1, "ended after 5m 03s (error, E: no): the next try is due in "),
        (Fail(Fault("E", "a\nfake INFO line")), 0, "(error, E: a fake INFO line)"),
        (Fail(Fault("E", "x" * 1000)), 0, "xx…)"),
    ],
)
def test_how_it_ended_is_one_line(happening: Happening, retries: int, said: str) -> None:
    task = Task(
        "t", "q", name="f", state="started", worker="w", attempt=1, policy=POLICIES[retries]
    )
    line = account(task, decide(task, happening), 303.0)
    assert said in line
    assert "\n" not in line


def test_what_stood_still_is_said() -> None:
    task = Task("t", "q", state="started", worker="w", attempt=1)
    change = decide(task, Done())
    assert account(task, change, 303.0, 60.0).endswith(
        "after 5m 03s, of which it stood still for 1m 00s"
    )
    assert account(task, change, 303.0, 0.4).endswith("after 5m 03s")
