"""`stayer top`."""

from __future__ import annotations

import re
import time

from msgspec.structs import replace

from stayer.cli.task_tables import Loads, bar, unsaved
from stayer.core.model import Progress, Report, Task, Usage
from stayer.service.control import tasks as control
from stayer.store import Store
from stayer.stores import open_store
from tests.cli.running import Apart, Here
from tests.cli.terminal import Terminal
from tests.contract.builders import beat, fill, register, started
from tests.contract.builders import worker as record

STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def report(store: Store, number: int, **progress: object) -> None:
    """Let the running task `t` tell how far it is."""
    made = Progress(**progress)  # type: ignore[arg-type]
    beat(store, record(slots=4), number, Report(id="t", attempt=1, progress=made))


def test_running_tasks_queues_and_workers(stayer: Here, store: Store) -> None:
    register(store, slots=4)
    started(store, id="t", name="train")
    fill(store, 2)
    report(store, 2, done=4.0, total=10.0, message="epoch 4", remaining=90.0)

    lines = stayer("top").works().lines

    assert lines[0].split() == [
        "ID", "KIND", "PROGRESS", "LEFT", "RAN", "UNSAVED", "CPU", "MEMORY", "NODE", "TRY",
        "REPORT",
    ]  # fmt: skip
    assert lines[1].startswith("t   train  ████······  40%")
    assert "1m 30s" in lines[1]
    assert lines[1].endswith("epoch 4")
    assert lines[3].split()[:2] == ["QUEUE", "LIMIT"]
    assert lines[4].split()[:2] == ["q", "2"]
    assert lines[-1] == "1 worker; 1 of 4 slots busy"


def test_what_is_unsaved_counts_from_the_checkpoint_else_from_the_start() -> None:
    task = Task("t", "q", state="started", started_at=100.0)
    assert unsaved(task, 160.0) == 60.0
    assert unsaved(replace(task, checkpoint_at=150.0), 160.0) == 10.0
    assert unsaved(replace(task, checkpoint_at=90.0), 160.0) == 60.0  # that of an attempt before
    assert unsaved(replace(task, state="complete"), 160.0) is None


def test_usage_and_pauses(stayer: Here, store: Store) -> None:
    register(store, slots=4)
    started(store, id="t", name="train")
    used = Usage(ran=10.0, cpu=25.0, rss=1_500_000_000)
    beat(store, record(slots=4), 2, Report(id="t", attempt=1, usage=used, paused=True))

    line = stayer("top").works().lines[1]

    assert "250%  1.5 GB" in line
    assert line.endswith("paused")


def test_a_load_is_that_since_the_last_look() -> None:
    loads = Loads()
    looks = [(10.0, 5.0), (10.0, 5.0), (12.0, 9.0), (12.0, 9.0), (14.0, 9.0)]
    tasks = [Task("t", "q", attempt=1, usage=Usage(ran=ran, cpu=cpu)) for ran, cpu in looks]
    assert [loads.of(task) for task in tasks] == ["50%", "50%", "200%", "200%", "0%"]
    assert loads.of(Task("t", "q", attempt=2)) is None


def test_only_of_some_queues(stayer: Here, store: Store, worker: str) -> None:
    started(store, id="t")
    fill(store, 1, queue="other")

    assert "nothing runs" in stayer("top", "-q", "other", "--once").works().lines[0]
    assert "0 workers" in stayer("top", "-q", "other").works().lines[-1]
    assert stayer("top", "-q", "q").works().lines[1].startswith("t ")
    stayer("top", "-q", "nope").refuses("'nope'", "other, q")


def test_an_empty_store(stayer: Here) -> None:
    stayer("init").works()
    assert stayer("top").works().lines == ["nothing runs", "", "0 workers; 0 of 0 slots busy"]


def test_json_has_all_three(stayer: Here, store: Store, worker: str) -> None:
    started(store, id="t")
    fill(store, 1)

    found = stayer("top", "--json").works().json

    assert [task["id"] for task in found["tasks"]] == ["t"]
    assert [queue["name"] for queue in found["queues"]] == ["q"]
    assert [entry["id"] for entry in found["workers"]] == [worker]


def test_it_is_drawn_again_when_something_happens(apart: Apart, store: Store) -> None:
    register(store, slots=4)
    started(store, id="t")
    with Terminal(apart, "top", width=120) as terminal:
        terminal.until("1 worker")
        control.cancel(store, "t")
        terminal.until("stopping")
        assert terminal.interrupt() == 130
        assert all(len(line) <= 120 for line in STYLE.sub("", terminal.text).splitlines())


def test_progress_without_an_event_is_seen_too(apart: Apart, store: Store) -> None:
    register(store, slots=4)
    started(store, id="t")
    with Terminal(apart, "top", width=120) as terminal:
        terminal.until("1 worker")
        report(store, 2, done=1.0, total=2.0)
        terminal.until("50%")
        assert terminal.interrupt() == 130


def test_a_bar_has_room_for_anything() -> None:
    assert bar(Progress()).plain == ""
    assert bar(Progress(done=7)).plain == "7"
    assert bar(Progress(done=7, total=0)).plain == "7"
    assert bar(Progress(done=30, total=10)).plain == "██████████ 100%"
    assert bar(Progress(done=-1, total=10)).plain == "··········   0%"
    assert bar(Progress(done=float("nan"), total=10)).plain == "nan"


def test_q_ends_it_and_leaves_the_terminal_as_it_was(apart: Apart, store: Store) -> None:
    with Terminal(apart, "top", width=120) as terminal:
        terminal.until("q quits")
        terminal.type("q")
        assert terminal.end() == 0
        assert terminal.echoes()


def test_a_task_whose_worker_is_silent_does_not_look_well(stayer: Here, url: str) -> None:
    earlier = open_store(url, clock=lambda: time.time() - 500)
    earlier.setup()
    register(earlier, slots=4)
    started(earlier, id="t")
    report(earlier, 2, done=1.0, total=2.0, remaining=90.0)
    earlier.close()

    for command in ("top", "ls"):
        row = stayer(command).works().lines[1]
        assert "worker silent for 8m 2" in row
        assert "1m 30s" not in row  # what was left then


def test_how_long_it_ran_ends_everywhere_when_it_was_last_heard_of(stayer: Here, url: str) -> None:
    began = time.time() - 500
    earlier = open_store(url, clock=lambda: began)
    earlier.setup()
    register(earlier, slots=4)
    started(earlier, id="t")
    began += 30
    report(earlier, 2, done=1.0, total=2.0)
    earlier.close()

    assert stayer("ls").works().lines[1].split().count("30s") == 1
    facts, _, attempts = stayer("show", "t").works().out.partition("Attempts")
    assert [line.split() for line in facts.splitlines() if line.startswith("ran")] == [
        ["ran", "30s"]
    ]
    assert attempts.split().count("30s") == 1
