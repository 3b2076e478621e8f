"""`stayer pause`, `resume`, `signal`, `stack`, `set`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stayer.core.happenings import Done
from stayer.core.submit.checks import new_task
from stayer.service.control import logs
from stayer.store import Store
from tests.cli.running import Here
from tests.cli.working import Site
from tests.contract.builders import apply, get, new, started, submit
from tests.faults.fleet import until

ASKING = """
import signal, sys, time
def answer(number, frame):
    open(sys.argv[1], "a").write(signal.Signals(number).name)
signal.signal(signal.SIGUSR1, answer)
open(sys.argv[1], "a").write("ready ")
while True:
    time.sleep(0.01)
"""
STUCK = """
import time
class Stuck:
    def __init__(self, task):
        pass
    def run(self):
        self.sit_there()
    def sit_there(self):
        print("sitting", flush=True)
        while True:
            time.sleep(0.01)
"""


@pytest.fixture
def tasks(store: Store, worker: str) -> None:
    """One that runs, one that waits, one that has ended, and one elsewhere."""
    apply(store, started(store, id="complete"), Done())
    started(store, id="started")
    submit(store, new("pending"), new("elsewhere", queue="other"))


def orders(store: Store, id: str) -> list[tuple[str, dict[str, object]]]:
    return [(order.verb, dict(order.arguments)) for order in get(store, id).orders]


@pytest.mark.parametrize("verb", ["pause", "resume"])
@pytest.mark.usefixtures("tasks")
def test_a_running_task_is_asked_once(stayer: Here, store: Store, verb: str) -> None:
    assert stayer(verb, "started").works().out == f"started asked to {verb}\n"
    assert stayer(verb, "started", "--json").works().json[0]["id"] == "started"

    assert orders(store, "started") == [(verb, {})]


@pytest.mark.usefixtures("tasks")
def test_pausing_after_resuming_asks_again(stayer: Here, store: Store) -> None:
    for verb in ("pause", "resume", "pause"):
        stayer(verb, "started").works()

    assert [verb for verb, _ in orders(store, "started")] == ["pause", "resume", "pause"]


@pytest.mark.parametrize(
    "arguments",
    [["pause"], ["resume"], ["signal", "USR1"], ["stack"]],
)
@pytest.mark.usefixtures("tasks")
def test_what_does_not_run_can_be_asked_nothing(stayer: Here, arguments: list[str]) -> None:
    verb, *rest = arguments
    for state in ("pending", "complete"):
        stayer(verb, state, *rest).refuses(f"task {state} is {state}", "only a running task")


@pytest.mark.usefixtures("tasks")
def test_pause_wants_tasks_or_queues_not_both(stayer: Here, store: Store) -> None:
    stayer("pause", "started", "-q", "q").refuses("either ids or a filter such as -q QUEUE")
    stayer("pause").refuses("ids", "-q QUEUE")

    assert orders(store, "started") == []
    assert not any(queue.paused for queue in store.queues())


@pytest.mark.parametrize("name", ["USR1", "sigusr1", "10"])
@pytest.mark.usefixtures("tasks")
def test_a_signal_has_several_names(stayer: Here, store: Store, name: str) -> None:
    assert stayer("signal", "started", name).works().out == "started SIGUSR1 is on its way\n"

    assert orders(store, "started") == [("signal", {"signal": "SIGUSR1"})]


@pytest.mark.parametrize(
    ("name", "word"), [("HELLO", "not a signal"), ("99", "not a signal"), ("STOP", "pause")]
)
@pytest.mark.usefixtures("tasks")
def test_what_is_no_signal_is_refused(stayer: Here, store: Store, name: str, word: str) -> None:
    stayer("signal", "started", name).refuses(word)

    assert orders(store, "started") == []


@pytest.mark.usefixtures("tasks")
def test_limits_are_set_in_seconds_and_bytes(stayer: Here, store: Store) -> None:
    done = stayer(
        "set", "started", "--time-limit", "12h", "--silence-limit", "none", "--memory-limit", "8G"
    ).works()

    assert done.out == "started time limit 12h 00m, silence limit none, memory limit 8 GB\n"
    assert orders(store, "started") == [
        ("set", {"time": 43200.0, "silence": 0.0, "memory": 8 * 1000**3})
    ]


@pytest.mark.usefixtures("tasks")
def test_more_time_is_added_to_what_it_has(stayer: Here, store: Store) -> None:
    assert stayer("set", "started", "--time-limit", "+2h").works().out == (
        "started time limit 2h 00m more, if its worker set one\n"
    )
    assert orders(store, "started") == [("set", {"more_time": 7200.0})]
    assert get(store, "started").policy.time_limit is None, "its worker's limit grows, once"

    stayer("set", "started", "--time-limit", "1h").works()
    stayer("set", "started", "--time-limit", "+2h").works()
    assert get(store, "started").policy.time_limit == 3 * 3600


@pytest.mark.usefixtures("tasks")
def test_what_waits_can_be_set_too(stayer: Here, store: Store) -> None:
    done = stayer("set", "pending", "--priority", "7", "--time-limit", "1h").works()

    assert done.out == "pending priority 7, time limit 1h 00m\n"
    task = get(store, "pending")
    assert (task.priority, task.policy.time_limit, task.orders) == (7, 3600.0, ())
    stayer("set", "pending", "--time-limit", "+1h").works()
    assert get(store, "pending").policy.time_limit == 7200.0


@pytest.mark.usefixtures("tasks")
def test_what_has_no_limit_can_not_get_more(stayer: Here) -> None:
    stayer("set", "pending", "--time-limit", "+1h").refuses("no time limit of its own", "set one")


@pytest.mark.usefixtures("tasks")
def test_what_has_ended_can_not_be_set(stayer: Here) -> None:
    stayer("set", "complete", "--priority", "7").refuses("task complete is complete", "ended")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["--priority", "--time-limit", "--silence-limit", "--memory-limit"]),
        (["--time-limit", "soon"], ["--time-limit", "not a duration"]),
        (["--time-limit", "+soon"], ["--time-limit", "not a duration"]),
        (["--silence-limit", "0"], ["--silence-limit", "none"]),
        (["--memory-limit", "much"], ["--memory-limit", "not a size"]),
    ],
)
@pytest.mark.usefixtures("tasks")
def test_absurd_limits_are_refused(
    stayer: Here, store: Store, arguments: list[str], words: list[str]
) -> None:
    stayer("set", "started", *arguments).refuses(*words)

    assert orders(store, "started") == []


def test_a_command_shows_no_stack(stayer: Here, store: Store, worker: str) -> None:
    started(store, id="command", command=("sleep", "9"))

    stayer("stack", "command").refuses("runs a command", "--run")


@pytest.mark.usefixtures("tasks")
def test_a_stack_that_does_not_come_says_where_to_look(stayer: Here, store: Store) -> None:
    done = stayer("stack", "started", "--wait", "0s")

    assert (done.code, done.out) == (1, "")
    assert "`stayer log -f started`" in done.err
    assert orders(store, "started") == [("stack", {})]


def test_a_task_stands_still_until_it_is_resumed(stayer: Here, fleet: Site) -> None:
    fleet.worker()
    fleet.stamper("t")
    fleet.until_stamped("t")

    stayer("pause", "t").works()
    until(lambda: "pause" in stopped(fleet), "for it to stand still")
    frozen = len(fleet.read_stamps("t")[1])
    assert len(fleet.read_stamps("t")[1]) == frozen
    stayer("resume", "t").works()

    fleet.until_stamped("t", more_than=frozen)
    fleet.finish("t")
    assert fleet.until_ended("t").state == "complete"


def stopped(fleet: Site) -> str:
    """What the keeper says about the task that it stopped."""
    return "".join(path.read_text() for path in fleet.folder.glob("one/run/*/running"))


def test_a_signal_reaches_the_process(stayer: Here, fleet: Site, tmp_path: Path) -> None:
    fleet.worker()
    fleet.submit("t", sys.executable, "-c", ASKING, str(tmp_path / "heard"))
    until(lambda: (tmp_path / "heard").exists() and (tmp_path / "heard").read_text())

    stayer("signal", "t", "USR1").works()

    until(lambda: (tmp_path / "heard").read_text() == "ready SIGUSR1", "for the signal")


def test_a_new_time_limit_ends_the_task(stayer: Here, fleet: Site) -> None:
    fleet.worker()
    fleet.submit("t", "sleep", "1000")
    fleet.until_state("t", "started")

    stayer("set", "t", "--time-limit", "100ms").works()

    assert fleet.until_ended("t").ending == "timeout"


def test_the_stack_of_a_python_task_is_shown(stayer: Here, fleet: Site) -> None:
    (fleet.folder / "stuck.py").write_text(STUCK)
    fleet.start("--run", f"{fleet.folder}/stuck.py:Stuck")
    fleet.store.submit([new_task(queue="default", id="t")])
    until(lambda: list(logs.read(fleet.store, "t", 1)), "for its first line")

    done = stayer("stack", "t", "--wait", "60s").works()

    assert "in sit_there" in done.out
    assert "sitting" not in done.out


@pytest.mark.usefixtures("tasks")
def test_pause_and_resume_queues(stayer: Here, store: Store) -> None:
    assert stayer("pause", "-q", "q", "-q", "other").works().lines == ["q paused", "other paused"]
    assert [queue.paused for queue in store.queues()] == [True, True]
    assert stayer("resume", "-q", "q").works().lines == ["q resumed"]
    resumed = stayer("resume", "-q", "q", "--json").works().json
    assert [(queue["name"], queue["paused"]) for queue in resumed] == [("q", False)]


@pytest.mark.usefixtures("tasks")
def test_an_unknown_queue_is_not_resumed(stayer: Here, store: Store) -> None:
    stayer("resume", "-q", "q", "-q", "qq").refuses("'qq'", "other, q")
    for verb in ("pause", "resume"):
        stayer(verb).refuses("-q")

    assert [(queue.name, queue.paused) for queue in store.queues()] == [
        ("other", False), ("q", False),
    ]  # fmt: skip
