"""Much to tell at once: each beat carries what a store takes in a moment, and all of it arrives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stayer.core import codec
from stayer.core.model import Report
from stayer.worker.attempt import HeldAttempt
from stayer.worker.beat_size import BEAT_LIMIT_BYTES, weight
from stayer.worker.threads.protocol import News
from stayer.worker.threads.worker import _as_many_as_fit
from tests.worker.test_attempts import Hands, hands

__all__ = ("hands",)

LARGE = codec.CHECKPOINT_LIMIT


def write(held: HeldAttempt, name: str, size: int) -> None:
    with open(held.run.task_folder / name, "wb") as file:
        os.truncate(file.fileno(), size)


def size(reports: list[Report]) -> int:
    return sum(map(weight, reports))


def beat(hands: Hands) -> list[Report]:
    reports = hands.holdings.gather()
    hands.holdings.mark_delivered()
    assert size(reports) <= BEAT_LIMIT_BYTES
    return reports


def test_large_checkpoints_go_one_after_the_other(hands: Hands) -> None:
    tasks = [hands.take(id) for id in ("a", "b", "c")]
    for held in tasks:
        write(held, "checkpoint", LARGE)
    carried = [report.id for _ in tasks for report in beat(hands) if report.checkpoint is not None]
    assert sorted(carried) == ["a", "b", "c"]
    assert not any(held.has_urgent_news() for held in tasks)


def test_one_beat_is_for_the_first_news_of_all(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred tasks that began together would cost a hundred beats, else."""
    monkeypatch.setattr(HeldAttempt, "age", lambda held: 60.0)
    tasks = [hands.take(id) for id in ("a", "b", "c")]
    beat(hands)
    for held in tasks:
        write(held, "log", 10)
    assert hands.holdings.have_urgent_news()
    assert {report.id for report in beat(hands)} == {"a", "b", "c"}
    assert not hands.holdings.have_urgent_news()


def test_who_always_has_much_to_tell_keeps_nobody_waiting(hands: Hands) -> None:
    first, large, last = (hands.take(id) for id in ("a", "b", "c"))
    write(large, "checkpoint", LARGE)
    write(large, "log", 10)
    for turn in range(1, 4):
        for held in (first, last):
            write(held, "log", turn * 1000)
        if any(report.checkpoint for report in beat(hands)):
            return
    raise AssertionError("its checkpoint was never carried")


def test_what_has_ended_goes_first(hands: Hands) -> None:
    runs, ended = hands.take("a"), hands.take("b")
    for held in (runs, ended):
        write(held, "checkpoint", LARGE)
    ended.run.declare_end({"exit_code": 0, "stop": None})
    [report] = [report for report in beat(hands) if report.checkpoint is not None]
    assert report.id == "b"
    assert ended.count_unsent_bytes() == 0
    assert runs.count_unsent_bytes() == LARGE


def test_many_long_logs_arrive_whole(hands: Hands, tmp_path: Path) -> None:
    tasks = [hands.take(f"task-{number}") for number in range(20)]
    for held in tasks:
        write(held, "log", 1_500_000)
    while any(held.count_unsent_bytes() for held in tasks):
        assert size(beat(hands)) > 0


def test_what_did_not_arrive_is_told_again(hands: Hands) -> None:
    held = hands.take("a")
    (held.run.task_folder / "log").write_text("a line\n")
    (held.run.task_folder / "report").write_text("1/2 half\n")
    (held.run.task_folder / "checkpoint").write_text("state")
    first = hands.holdings.gather()  # and the beat fails
    [told] = again = hands.holdings.gather()
    assert again == first
    assert told.checkpoint == b"state"
    assert b"".join(piece.data for piece in told.log) == b"a line\n"
    assert told.progress is not None
    hands.holdings.mark_delivered()
    assert hands.holdings.gather() == []


def test_half_a_line_of_a_report_is_left_for_later(hands: Hands) -> None:
    held = hands.take("a")
    report = held.run.task_folder / "report"
    report.write_text("1/10 one\n2/1")
    [told] = beat(hands)
    assert told.progress is not None
    assert told.progress.done == 1
    report.write_text("1/10 one\n2/10 two\n")
    [told] = beat(hands)
    assert told.progress is not None
    assert (told.progress.done, told.progress.total) == (2, 10)


def test_news_of_threads_go_by_as_many_beats_as_they_need() -> None:
    sizes = (10, LARGE - 10, 1, LARGE + 1, 1)
    news = [
        News(Report(id="a", attempt=1, checkpoint=bytes(size)), number)
        for number, size in enumerate(sizes)
    ]
    beats = []
    while news:
        fit = _as_many_as_fit(news)
        beats.append([each.number for each in fit])
        news = news[len(fit) :]
    assert beats == [[0, 1], [2], [3], [4]]
