"""Progress: many reports, few lines."""

from __future__ import annotations

import decimal
import json
import threading
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stayer import Context
from stayer.task import reports


class Clock:
    """A clock that stands, and timers that go off when told."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[Any] = []

    def monotonic(self) -> float:
        return self.now

    def timer(self, pause: float, function: Any) -> Any:
        class Timer:
            daemon = False

            @staticmethod
            def start() -> None:
                self.timers.append(function)

        assert pause <= 1.0
        return Timer()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(reports, "time", made)
    threads = SimpleNamespace(RLock=threading.RLock, Timer=made.timer)
    monkeypatch.setattr(reports, "threading", threads)
    return made


@pytest.fixture
def task(tmp_path: Path) -> Context:
    return Context.for_test(folder=tmp_path)


def lines(task: Context) -> list[dict[str, Any]]:
    path = task.folder / "report"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_a_report_is_written_at_once(clock: Clock, task: Context) -> None:
    task.progress(40, 100, "encoding")
    assert lines(task) == [{"done": 40, "total": 100, "message": "encoding"}]


def test_of_many_reports_the_last_is_written_a_little_later(clock: Clock, task: Context) -> None:
    for number in range(10_000):
        task.progress(number)
    assert lines(task) == [{"done": 0}]
    [later] = clock.timers
    clock.now += 0.1
    later()
    assert lines(task) == [{"done": 0}, {"done": 9999}]


def test_a_task_of_weeks_writes_a_line_a_second(clock: Clock, task: Context) -> None:
    for number in range(20_000):
        clock.now += 0.1001
        task.progress(number)
    assert 1000 + 1900 <= len(lines(task)) <= 1000 + 1901


def test_the_last_report_is_written_at_the_end(clock: Clock, task: Context) -> None:
    with task:
        task.progress(1)
        task.progress(2)
    assert lines(task) == [{"done": 1}, {"done": 2}]


def test_a_message_alone_leaves_the_numbers_as_they_are(clock: Clock, task: Context) -> None:
    with task:
        task.progress(3, 4)
        task.progress(message="saving")
    assert lines(task)[-1] == {"done": 3, "total": 4, "message": "saving"}


def test_whatever_is_a_number_will_do(clock: Clock, task: Context) -> None:
    class Index:
        def __index__(self) -> int:
            return 3

    for number in (Index(), Fraction(1, 2), decimal.Decimal("0.5"), float("nan"), float("inf")):
        clock.now += 10
        task.progress(number, 4)
    assert [line.get("done") for line in lines(task)] == [3, 0.5, 0.5, None, None]


def test_long_messages_are_cut(clock: Clock, task: Context) -> None:
    task.progress(message="x" * 5000 + "\n")
    assert len(lines(task)[0]["message"]) == 1000


def test_items_are_tracked(clock: Clock, task: Context) -> None:
    seen = []
    for item in task.track(["a", "b"], message="reading"):
        clock.now += 1
        seen.append(item)
    assert seen == ["a", "b"]
    assert [(line["done"], line["total"]) for line in lines(task)] == [(0, 2), (1, 2), (2, 2)]


def test_tracking_may_begin_where_the_last_attempt_ended(clock: Clock, task: Context) -> None:
    for _ in task.track(iter("cd"), start=2, total=4):
        clock.now += 1
    assert [(line["done"], line["total"]) for line in lines(task)] == [(2, 4), (3, 4), (4, 4)]
    for _ in task.track(letter for letter in "ab"):
        clock.now += 1
    assert lines(task)[-1] == {"done": 2}


def test_a_report_that_can_not_be_written_does_no_harm(tmp_path: Path) -> None:
    task = Context.for_test(folder=tmp_path / "gone")
    task.progress(1, 2)


def test_lines_of_many_threads_are_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "report")

    def write() -> None:
        for number in range(200):
            reports.write(path, [reports.progress_line(number, 200, "x" * 100)])

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = Path(path).read_text().splitlines()
    assert len([json.loads(line) for line in written]) == 1600
