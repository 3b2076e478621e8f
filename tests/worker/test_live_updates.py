"""What the store learns of a running task: usage, pauses, and more often while somebody looks."""

from __future__ import annotations

import sys

import pytest

from stayer.service.control import logs as log_control
from stayer.service.control import tasks as control
from stayer.service.live_updates import Attention
from tests.faults.fleet import Fleet, until

BUSY = """
import os, sys, time
data = bytearray(80_000_000)
with open(sys.argv[1], "wb") as file:
    file.write(bytes(3_000_000))
while not os.path.exists(sys.argv[2]):
    sum(range(100_000))
"""
SELDOM = 7200.0
"""A lease whose beats are further apart than any test's patience."""


def test_usage_is_sampled_and_kept_with_the_attempt(fleet: Fleet) -> None:
    fleet.worker()
    fleet.submit("a", sys.executable, "-c", BUSY, f"{fleet.folder}/out", f"{fleet.folder}/a.stop")
    until(lambda: (used := fleet.get("a").usage) and used.cpu > 0.2 and used.rss > 80_000_000)
    running = fleet.get("a").usage
    assert running is not None
    assert running.processes == 1
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"
    [attempt] = fleet.store.attempts("a")
    used = attempt.usage
    assert used is not None
    assert used == fleet.get("a").usage == fleet.store.usage("a", 1)[-1]
    assert used.cpu >= running.cpu
    assert used.peak > 80_000_000
    assert used.written >= 3_000_000
    assert used.ran > 0.2


def test_a_pause_is_seen_by_everybody(fleet: Fleet) -> None:
    fleet.worker(lease=SELDOM)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    control.pause(fleet.store, "a")
    until(lambda: fleet.get("a").paused, "to be paused")
    control.resume(fleet.store, "a")
    until(lambda: not fleet.get("a").paused, "to be resumed")
    fleet.finish("a")
    assert fleet.until_ended("a").paused is False


def test_a_pause_survives_its_worker(fleet: Fleet) -> None:
    one = fleet.worker()
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    control.pause(fleet.store, "a")
    until(lambda: fleet.get("a").paused)
    fleet.signal(one, 9)
    control.resume(fleet.store, "a")
    fleet.worker()
    until(lambda: not fleet.get("a").paused, "to be resumed")
    fleet.finish("a")
    assert fleet.until_ended("a").attempt == 1


def test_news_come_at_once_while_somebody_looks(fleet: Fleet) -> None:
    fleet.worker(lease=SELDOM)
    fleet.submit("a", "sh", "-c", 'echo hello; echo 3/4 >> "$STAYER_REPORT"; sleep 1000')
    fleet.until_state("a", "started")
    assert fleet.get("a").progress is None
    attention = Attention(fleet.store)

    def seen() -> bool:
        attention.pay([fleet.get("a")])
        task, log = fleet.get("a"), fleet.store.log("a", 1, 0, 100)
        return bool(task.progress and task.usage and [piece.data for piece in log] == [b"hello\n"])

    until(seen, "for news")
    control.cancel(fleet.store, "a", grace=0)
    fleet.until_ended("a")


@pytest.mark.parametrize("id", ["a", "長/" * 90])
def test_a_log_too_long_for_the_store_stays_on_the_node_until_its_task_is_purged(
    fleet: Fleet, id: str
) -> None:
    one = fleet.worker()
    fleet.submit(id, "sh", "-c", "yes 0123456789 | head -c 7000000")
    assert fleet.until_ended(id).state == "complete"
    logs = fleet.folder / "one" / "logs"
    until(lambda: list(logs.glob("*.log")))
    [kept] = logs.glob("*.log")
    assert kept.stat().st_size == 7_000_000
    assert sum(len(piece.data) for piece in log_control.read(fleet.store, id, 1)) < 7_000_000
    fleet.signal(one, 9)
    two = fleet.worker()
    fleet.submit("b", "true")
    fleet.until_ended("b")
    assert kept.exists()
    fleet.store.purge([id], ("complete",), float("inf"), 1)
    fleet.signal(two, 9)
    fleet.worker()
    until(lambda: not list(logs.iterdir()), "for the log to go with its task")


def test_all_of_a_long_log_is_there_when_the_task_has_ended(fleet: Fleet) -> None:
    """More than a beat carries, written in the last moment."""
    fleet.worker(lease=SELDOM)
    write = "import sys; sys.stdout.write('x' * 3_500_000 + 'the end')"
    fleet.submit("a", sys.executable, "-c", write)
    fleet.until_ended("a")
    pieces = fleet.store.log("a", 1, 0, 10_000_000)
    log = b"".join(piece.data for piece in pieces)
    assert len(log) == 3_500_007
    assert log.endswith(b"the end")


def test_the_first_news_of_a_task_do_not_wait_for_a_beat(fleet: Fleet) -> None:
    fleet.worker(lease=SELDOM)
    fleet.submit("a", "sh", "-c", "echo hello; echo 1/4 > $STAYER_REPORT; exec sleep 1000")

    until(lambda: fleet.get("a").progress, "for its progress")
    until(lambda: fleet.store.log("a", 1, 0, 100), "for its log")
    until(lambda: fleet.get("a").usage, "for its usage")
    assert fleet.get("a").state == "started"


REPORTER = """
for number in 1 2 3; do
    echo '{"metric": {"loss": '$number'}}' >> "$STAYER_REPORT"
done
echo '{"step": "wait"}' >> "$STAYER_REPORT"
while [ ! -e "$1" ]; do sleep 0.05; done
echo '{"metric": {"loss": 0.5}, "x": 4}' >> "$STAYER_REPORT"
echo '{"step": "end"}' >> "$STAYER_REPORT"
echo '3/4 nearly' >> "$STAYER_REPORT"
"""


def test_metrics_and_steps_go_on_under_the_next_worker(fleet: Fleet) -> None:
    one = fleet.worker()
    fleet.submit("a", "sh", "-c", REPORTER, "sh", f"{fleet.folder}/a.stop")
    until(lambda: (found := fleet.get("a").metrics) and found["loss"].count == 3, "for metrics")
    before = fleet.store.statistics("a", 1)
    assert before is not None
    fleet.signal(one, 9)
    fleet.worker()
    fleet.finish("a")
    ended = fleet.until_ended("a")
    assert ended.state == "complete"
    assert ended.progress is not None
    assert ended.progress.message == "nearly"
    after = fleet.store.statistics("a", 1)
    assert after is not None
    found = after.metrics["loss"]
    assert (found.last, found.min, found.max, found.count, found.x) == (0.5, 0.5, 3.0, 4, 4.0)
    assert found.points[:3] == before.metrics["loss"].points
    assert [step.name for step in after.steps] == ["wait", "end"]
    assert after.steps[0].start == before.steps[0].start
    assert after.steps[0].end is not None
