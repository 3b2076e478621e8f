"""`stayer show`."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from stayer.core import ids
from stayer.core.happenings import Done, Fail, Interrupt
from stayer.core.insight.statistics import Recorder
from stayer.core.lifecycle import decide
from stayer.core.model import Fault, Policy, Progress, Report, Task
from stayer.core.queue_model import Rate
from stayer.core.units import format_duration
from stayer.core.worker_model import EVERYTHING
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import apply, beat, get, new, started, submit, take, take_one, taken


def test_the_page_says_all_there_is_to_know(stayer: Here, store: Store, worker: str) -> None:
    # Given a task that was interrupted once, then failed
    fault = Fault("ValueError", "bad input", "Traceback:\n  File x\nValueError", exit_code=3)
    first = started(
        store, id="t", command=("train", "a b"), cwd="/data", env={"SEED": "1"}, priority=7,
        owner="ann", tags=("night", "gpu"), parameters={"rate": 0.5}, policy=Policy(retries=0),
    )  # fmt: skip
    apply(store, first, Interrupt("drained"))
    again = take_one(store)
    apply(store, again, Fail(fault))

    # When it is shown
    page = stayer("show", "t").works().out

    # Then everything is there
    for said in (
        "t  failed", "train 'a b'", "/data", "SEED=1", "priority     7", "night, gpu", "ann",
        '"rate": 0.5', "ValueError: bad input", "exit code 3", "File x", "interrupted", "drained",
        "node-of-w", "interruptions 1", "failures 1, retries 0", time.strftime("%Z"),
    ):  # fmt: skip
        assert said in page, (said, page)
    assert all(line == line.rstrip() for line in page.splitlines())


def test_a_running_task_shows_how_far_it_is(stayer: Here, store: Store, worker: str) -> None:
    task = started(store, id="t")
    progress = Progress(done=1, total=4, message="halfway", remaining=90)
    beat(store, worker, 2, Report(id="t", attempt=task.attempt, progress=progress))

    page = stayer("show", "t").works().out

    assert "25%  1m 30s left  halfway" in page
    assert "goes on" in page
    assert "since it started: it has saved nothing" in page

    beat(store, worker, 3, Report(id="t", attempt=task.attempt, checkpoint=b"x"))
    assert "since its last checkpoint" in stayer("show", "t").works().out


def test_metrics_and_steps_are_shown(stayer: Here, store: Store, worker: str) -> None:
    task = started(store, id="t")
    recorder = Recorder()
    for epoch in range(100):
        recorder.add("loss", 1.0 - epoch / 100, float(epoch), float(epoch))
    recorder.add("speed", None, 100.0)
    recorder.begin("load", 1.0)
    recorder.begin("train", 5.5)
    beat(store, worker, 2, Report(id=task.id, attempt=1, statistics=recorder.result()))
    page = stayer("show", "t").works().out
    [loss] = [line.split() for line in page.splitlines() if line.split()[:1] == ["loss"]]
    assert loss[:6] == ["loss", "0.01", "0.01", "1", "100", "99"]
    assert (loss[6][0], loss[6][-1], len(loss[6])) == ("█", "▁", 32)
    assert ["speed", "nan", "nan", "nan", "1"] in [line.split() for line in page.splitlines()]
    [load] = [line.split() for line in page.splitlines() if line.split()[:1] == ["load"]]
    assert load == ["load", f"+{format_duration(1.0)}", format_duration(4.5)]
    shown = stayer("show", "t", "--json").json
    assert shown["metrics"]["loss"]["last"] == pytest.approx(0.01)
    assert len(shown["statistics"]["metrics"]["loss"]["points"]) == 100
    assert [step["name"] for step in shown["statistics"]["steps"]] == ["load", "train"]


def test_results_and_bytes_are_shown(stayer: Here, store: Store, worker: str) -> None:
    apply(store, started(store, id="json"), Done({"loss": 0.1}))
    apply(store, started(store, id="text", parameters="line one\nline two"), Done("done\n"))
    apply(store, started(store, id="bytes", parameters=b"\0" * 2000), Done())

    assert '"loss": 0.1' in stayer("show", "json").works().out
    assert "  line one\n  line two\n" in stayer("show", "text").works().out
    assert "2 kB of bytes" in stayer("show", "bytes").works().out


def test_what_is_long_is_cut_and_says_so(stayer: Here, store: Store, worker: str) -> None:
    long = "\n".join(f"frame {number}" for number in range(100))
    task = started(store, id="t", parameters=list(range(1000)))
    apply(store, task, Fail(Fault("E", "m", long)))

    page = stayer("show", "t").works().out

    assert "962 more lines: --json shows all" in page
    assert "frame 99" in page
    assert "frame 0\n" not in page
    assert len(page.splitlines()) < 120


def test_of_very_much_that_happened_the_first_and_the_last_are_shown(
    stayer: Here, store: Store, worker: str
) -> None:
    # Given a task that was handed back some 50 times, then some 700 times
    def hand_back(times: int, task: Task) -> Task:
        for _ in range(times):
            change = decide(task, Interrupt())
            _, [task] = store.turn(worker, [change], ["q"], 1, EVERYTHING)
        return task

    task = hand_back(49, taken(store, id="t"))
    page = stayer("show", "t").works().out
    assert "20 more: --json shows them" in page
    assert "70 earlier ones: --json shows all" in page
    hand_back(700, task)

    # When it is shown
    page = stayer("show", "t").works().out

    # Then the page is short, and says what it leaves out and what is gone
    numbers = [attempt.attempt for attempt in store.attempts("t")]
    [before] = [one for one, other in pairwise(numbers) if other > one + 1]
    after = numbers[numbers.index(before) + 1]
    kept = len(store.events("t")) - 1
    assert f"{before + 1} to {after - 1} are no longer kept" in page
    assert f"{len(numbers) - 30} more: --json shows them" in page
    assert f"{kept - 30:,} earlier ones: --json shows them, and how many are gone" in page
    assert len(page.splitlines()) < 90
    events = stayer("show", "t", "--json").works().json["events"]
    [dropped] = [event for event in events if event["event"] == "dropped"]
    assert dropped["note"].startswith(f"{1500 - kept:,} events were here")
    gone = f"attempt {before + 1} of task t is no longer kept"
    assert not stayer("log", "t", "--attempt", str(before + 1)).works(note=gone).out


def test_json_is_the_record_with_attempts_and_events(
    stayer: Here, store: Store, worker: str
) -> None:
    apply(store, started(store, id="t"), Done([1]))

    shown = stayer("show", "t", "--json").works().json

    assert (shown["id"], shown["state"], shown["result"]) == ("t", "complete", [1])
    assert [attempt["ending"] for attempt in shown["attempts"]] == ["done"]
    assert [event["event"] for event in shown["events"]] == [
        "pending", "reserved", "started", "complete",
    ]  # fmt: skip


def test_the_beginning_of_an_id_is_enough_if_it_is_only_one(stayer: Here, store: Store) -> None:
    one, two, other = "abcd" + 12 * "e", "abcd" + 12 * "f", "xyz" + 13 * "g"
    submit(store, new(one), new(two), new("abc"), new(other))

    assert stayer("show", "xy", "--json").works().json["id"] == other
    assert stayer("show", "abc", "--json").works().json["id"] == "abc"
    stayer("show", "abcd").refuses("several ids", one, two)


def test_an_id_that_somebody_chose_is_never_meant_by_less(stayer: Here, store: Store) -> None:
    submit(store, new("job-12"))

    stayer("cancel", "job-1").refuses("no task 'job-1'")
    assert get(store, "job-12").state == "pending"


def test_an_unknown_id_is_one_line(stayer: Here) -> None:
    stayer("init").works()
    stayer("show", ids.generate()).refuses("no task", "stayer ls")
    stayer("show", "").refuses("no task")
    stayer("show", "%").refuses("no task")
    stayer("show").refuses("missing argument", "stayer show --help")
    stayer("show", "a", "b").refuses("stayer show --help")


def test_it_says_why_a_task_waits(stayer: Here, store: Store) -> None:
    submit(store, new("t"))
    assert "waits: no worker listens to queue q" in stayer("show", "t").works().out
    store.set_queue("q", paused=True)
    assert "waits: queue q is paused" in stayer("show", "t").works().out


def test_it_says_which_limit_a_task_waits_for(stayer: Here, store: Store, worker: str) -> None:
    submit(store, new("a", key="k"), new("b", key="k"), new("t", key="k"))
    take(store, limit=2)

    def why() -> str:
        return stayer("show", "t").works().out

    store.set_queue("q", limit=2)
    assert "waits: queue q is limited to 2 at once (b, a)" in why()
    store.set_queue("q", limit=None, key_limit=2)
    assert "waits: key k is limited to 2 at once in queue q (b, a)" in why()
    store.set_queue("q", key_limit=None, rate=Rate(1, 3600.0))
    submit(store, new("next", priority=1))
    take(store)
    assert "waits: queue q is limited to 1/1h: the next task may begin in 1h 00m" in why()
