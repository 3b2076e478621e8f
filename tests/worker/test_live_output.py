"""What a command prints is in its log at once, also if it is Python."""

from __future__ import annotations

import sys

import pytest

from tests.faults.fleet import Fleet, until

TALKS = """
import os, sys, time
print("hello")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""


@pytest.fixture(autouse=True)
def buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


def test_a_line_of_a_python_command_is_there_while_it_runs(fleet: Fleet) -> None:
    fleet.worker()
    stop = f"{fleet.folder}/a.stop"
    fleet.submit("a", sys.executable, "-c", TALKS, stop)
    until(lambda: fleet.store.log("a", 1, 0, 100), "for what it said")
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"


def test_a_task_may_want_it_otherwise(fleet: Fleet) -> None:
    command = 'printf "\\"$PYTHONUNBUFFERED\\"" > $STAYER_RESULT'
    fleet.submit("a", "sh", "-c", command)
    fleet.submit("b", "sh", "-c", command, env={"PYTHONUNBUFFERED": ""})
    fleet.worker()
    assert fleet.until_ended("a").result == "1"
    assert not fleet.until_ended("b").result
