"""`stayer run`."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from stayer.core.model import Filter, Task
from stayer.core.worker_model import Handles
from stayer.service.control import queues as queue_control
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.cli.running import Apart, Here
from tests.cli.terminal import Terminal
from tests.cli.working import Site
from tests.contract.builders import get, register
from tests.faults.fleet import until

WAITS_FOR_FILE = 'echo begun; while [ ! -e "$1" ]; do sleep 0.01; done; echo over'
LASTS = ("sh", "-c", "echo begun; sleep 1000")


def the_task(store: Store) -> Task:
    [task] = control.find_all(store, Filter())
    return task


@pytest.mark.parametrize(
    ("script", "code", "word"),
    [
        ("exit 0", 0, ""),
        ("exit 7", 7, "exit code 7"),
        ("kill -9 $$", 137, "SIGKILL"),
        ("exec no-such-program", 127, "exit code 127"),
    ],
)
def test_it_prints_and_ends_as_the_command_does(
    apart: Apart, fleet: Site, script: str, code: int, word: str
) -> None:
    fleet.worker()

    done = apart("run", "--", "sh", "-c", f"echo hello; {script}")

    assert done.code == code
    assert done.out.startswith("hello\n")
    assert word in done.err
    assert done.err.count("\n") == bool(code)


def test_it_takes_the_options_of_a_task(apart: Apart, fleet: Site, tmp_path: Path) -> None:
    fleet.start("-q", "some", "--allow-commands")

    done = apart(
        "run", "-q", "some", "--id", "mine", "--env", "WORD=hello", "--cwd", str(tmp_path),
        "--tag", "a", "--", "sh", "-c", "echo $WORD; pwd",
    ).works()  # fmt: skip

    assert done.lines == ["hello", str(tmp_path)]
    assert get(fleet.store, "mine").tags == ("a",)


def test_a_program_that_is_not_there(apart: Apart, fleet: Site) -> None:
    fleet.worker()

    done = apart("run", "--", "no-such-program-anywhere")

    assert (done.code, done.out) == (127, "")
    assert "NotStarted" in done.err


def test_a_cancelled_task_is_3(apart: Apart, fleet: Site) -> None:
    fleet.worker()
    process = apart.start("run", "--id", "t", "--", "sleep", "1000")
    until(lambda: fleet.store.get(["t"])[0] is not None)
    fleet.until_state("t", "started")

    control.cancel(fleet.store, "t")

    assert process.communicate() == ("", "stayer: task t was cancelled\n")
    assert process.returncode == 3


def test_the_same_id_again_shows_the_same_task(apart: Apart, fleet: Site) -> None:
    fleet.worker()
    first = apart("run", "--id", "t", "--", "sh", "-c", "echo once; exit 5")

    again = apart("run", "--id", "t", "--", "sh", "-c", "echo once; exit 5")

    assert (first.out, first.code) == (again.out, again.code) == ("once\n", 5)
    assert "already there (failed)" in again.err
    assert get(fleet.store, "t").attempt == 1


def test_detached_it_prints_the_id(stayer: Here, store: Store) -> None:
    id = stayer("run", "--detach", "--", "true").works().out.strip()

    assert get(store, id).command == ("true",)


def test_a_command_is_needed(stayer: Here) -> None:
    stayer("run").refuses("COMMAND")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_without_a_terminal_a_signal_leaves_the_task_alone(
    apart: Apart, fleet: Site, tmp_path: Path, number: int
) -> None:
    fleet.worker()
    process = apart.start(
        "run", "--id", "t", "--", "sh", "-c", WAITS_FOR_FILE, "sh", f"{tmp_path}/go"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"

    process.send_signal(number)

    _, err = process.communicate()
    assert process.returncode == 128 + number
    assert err == "stayer: task t goes on without you: `stayer log -f t` shows it\n"
    (tmp_path / "go").touch()
    assert fleet.until_ended("t").state == "complete"
    assert apart("log", "t").works().out == "begun\nover\n"


@pytest.mark.parametrize("answer", ["d\n", "\n", "\x03"])
def test_ctrl_c_asks_and_may_leave_the_task_running(apart: Apart, fleet: Site, answer: str) -> None:
    fleet.worker()
    with Terminal(
        apart, "run", "--id", "t", "--", "sh", "-c", "echo begun; sleep 1000"
    ) as terminal:
        terminal.until("begun")
        terminal.type("\x03")
        terminal.until("[c]ancel it, or [d]etach and let it run?")
        terminal.press_until(answer, "`stayer log -f t` shows it")
        assert terminal.end() == 130
    assert get(fleet.store, "t").state == "started"
    assert not get(fleet.store, "t").cancel_wanted


def test_ctrl_c_may_cancel_the_task(apart: Apart, fleet: Site) -> None:
    fleet.worker()
    with Terminal(
        apart, "run", "--id", "t", "--", "sh", "-c", "echo begun; sleep 1000"
    ) as terminal:
        terminal.until("begun")
        terminal.type("\x03")
        terminal.until("let it run?")
        terminal.type("c\n")
        terminal.until("task t is asked to stop")
        terminal.until("task t was cancelled")
        assert terminal.end() == 3
    assert get(fleet.store, "t").state == "cancelled"


def test_at_a_terminal_it_says_why_it_waits(apart: Apart, store: Store) -> None:
    with Terminal(apart, "run", "--id", "t", "-q", "q", "--", "true") as terminal:
        terminal.until("task t waits: no worker listens to queue q")
        queue_control.pause_queue(store, "q")
        terminal.until("queue q is paused")
        queue_control.resume_queue(store, "q")
        store.set_queue("q", limit=0)
        terminal.until("queue q is limited to 0")
        store.set_queue("q", limit=None)
        control.hold(store, "t")
        terminal.until("it is held")
        control.release(store, "t")
        register(store, handles=Handles(names=("other",)))
        terminal.until("no worker of queue q can run 'true'")
        control.cancel(store, "t")
        terminal.until("was cancelled")
        assert terminal.end() == 3


def test_without_a_terminal_it_says_once_what_somebody_must_do(apart: Apart, store: Store) -> None:
    process = apart.start("run", "--id", "t", "-q", "q", "--", "true")
    assert process.stderr is not None
    assert "task t waits: no worker listens to queue q" in process.stderr.readline()
    control.cancel(store, "t")
    assert process.communicate()[1].count("\n") == 1  # that it was cancelled
    assert process.returncode == 3


def test_at_a_terminal_it_does_not_count_down(apart: Apart, store: Store) -> None:
    with Terminal(apart, "run", "--id", "t", "--delay", "40s", "--", "true") as terminal:
        terminal.until("task t waits: it is due in")
        time.sleep(2.5)
        control.cancel(store, "t")
        terminal.until("was cancelled")
        assert terminal.text.count("it is due in") == 1
        assert terminal.end() == 3


def test_a_line_for_a_shell_fails_with_a_hint(apart: Apart, fleet: Site) -> None:
    fleet.worker()
    done = apart("run", "echo hi | wc -c")
    assert done.code == 127
    assert "NotStarted: it could not be started: can't run echo hi | wc -c" in done.err
    assert "sh -c '…'" in done.err.splitlines()[-1]


def test_a_task_that_ends_while_it_is_asked_ends_the_question(
    apart: Apart, fleet: Site, tmp_path: Path
) -> None:
    fleet.worker()
    with Terminal(
        apart, "run", "--id", "t", "--", "sh", "-c", WAITS_FOR_FILE, "sh", f"{tmp_path}/go"
    ) as terminal:
        terminal.until("begun")
        terminal.type("\x03")
        terminal.until("let it run?")
        (tmp_path / "go").touch()
        terminal.until("over")
        assert terminal.end() == 0


def test_term_is_heard_while_it_is_asked(apart: Apart, fleet: Site) -> None:
    fleet.worker()
    with Terminal(apart, "run", "--id", "t", "--", *LASTS) as terminal:
        terminal.until("begun")
        terminal.type("\x03")
        terminal.until("let it run?")
        terminal.process.terminate()
        terminal.until("`stayer log -f t` shows it")
        assert terminal.end() == 128 + signal.SIGTERM
