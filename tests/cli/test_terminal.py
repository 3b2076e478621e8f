"""What somebody at a terminal sees, and is asked."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from stayer.service.control import tasks as control
from stayer.store import Store
from tests.cli.running import Apart
from tests.cli.terminal import Terminal
from tests.contract.builders import fill, get, new, submit

COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]")
STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def test_states_are_coloured(apart: Apart, store: Store) -> None:
    [task] = fill(store, 1)
    control.cancel(store, task)

    with Terminal(apart, "ls") as terminal:
        assert terminal.end() == 0
        assert COLOUR.search(terminal.text)


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--no-color", "ls"], {}),
        (["ls", "--no-color"], {}),
        (["ls"], {"NO_COLOR": "1"}),
        (["ls"], {"TERM": "dumb"}),
        (["--no-color", "--help"], {}),
    ],
)
def test_there_are_no_colours_if_none_are_wanted(
    apart: Apart, store: Store, arguments: list[str], environment: dict[str, str]
) -> None:
    [task] = fill(store, 1)
    control.cancel(store, task)

    with Terminal(apart, *arguments, environment=environment) as terminal:
        assert terminal.end() == 0
        assert not COLOUR.search(terminal.text)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_row_stays_on_one_line_and_the_id_whole(apart: Apart, store: Store, width: int) -> None:
    submit(store, new("task-number-one", queue="a-rather-long-queue", name="some.module.function"))

    with Terminal(apart, "ls", width=width) as terminal:
        assert terminal.end() == 0
        lines = STYLE.sub("", terminal.text).splitlines()
        assert len(lines) == 2
        assert lines[1].startswith("task-number-one  pending")
        assert all(len(line) <= width for line in lines)


def test_a_filter_asks_and_says_how_many(apart: Apart, store: Store) -> None:
    tasks = fill(store, 3)

    with Terminal(apart, "cancel", "-q", "q") as terminal:
        terminal.until("Cancel 3 tasks? [y/N]")
        assert get(store, tasks[0]).state == "pending"
        terminal.type("y\n")
        terminal.until("3 tasks cancelled")
        assert terminal.end() == 0
    assert get(store, tasks[0]).state == "cancelled"


@pytest.mark.parametrize("answer", ["n\n", "\n"])
def test_who_does_not_say_yes_changes_nothing(apart: Apart, store: Store, answer: str) -> None:
    [task] = fill(store, 1)

    with Terminal(apart, "cancel", "-q", "q") as terminal:
        terminal.until("Cancel 1 task? [y/N]")
        terminal.type(answer)
        assert terminal.end() == 1
        assert "nothing was done" in terminal.text
    assert get(store, task).state == "pending"


def test_control_c_is_no_yes(apart: Apart, store: Store) -> None:
    [task] = fill(store, 1)

    with Terminal(apart, "cancel", "-q", "q") as terminal:
        terminal.until("Cancel 1 task? [y/N]")
        assert terminal.interrupt() == 130
        assert "Traceback" not in terminal.text
    assert get(store, task).state == "pending"


def test_dropping_a_queue_asks(apart: Apart, store: Store) -> None:
    fill(store, 2)

    with Terminal(apart, "queues", "rm", "q", "--force") as terminal:
        terminal.until("Delete queue q with 2 tasks? [y/N]")
        terminal.type("y\n")
        terminal.until("q removed with 2 tasks")
        assert terminal.end() == 0
    assert store.queues() == []


def test_watching_draws_what_changes_until_control_c(apart: Apart, store: Store) -> None:
    submit(store, new("first"))

    with Terminal(apart, "ls", "-w") as terminal:
        terminal.until("first")
        submit(store, new("second"))
        terminal.until("second")
        control.cancel(store, "first")
        terminal.until("cancelled")
        assert terminal.interrupt() == 130
        assert "Traceback" not in terminal.text
        assert terminal.text.rstrip().endswith("\x1b[?25h"), "the cursor is hidden"


def test_watching_keeps_to_the_screen(apart: Apart, store: Store) -> None:
    fill(store, 100)

    with Terminal(apart, "ls", "-w", "-n", "0", height=10) as terminal:
        terminal.until("… and more")
        assert terminal.interrupt() == 130
        first = STYLE.sub("", terminal.text.partition("… and more")[0])
        assert len(first.splitlines()) <= 10


def test_many_lines_show_a_bar_and_the_ids_stay_clean(
    apart: Apart, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "many.jsonl").write_text('{"queue": "q"}\n' * 2500)

    with (
        (tmp_path / "ids").open("w") as ids,
        Terminal(apart, "add", "--jsonl", str(tmp_path / "many.jsonl"), stdout=ids) as terminal,
    ):
        assert terminal.end() == 0
        assert "2,500 tasks" in terminal.text
    listed = (tmp_path / "ids").read_text().split()
    assert len(set(listed)) == 2500
    assert all(re.fullmatch("[a-z2-7]{16}", id) for id in listed)


def test_help_is_the_answer_to_nothing(apart: Apart) -> None:
    plain = apart().works()
    asked = apart("--help").works()
    short = apart("-h").works()

    assert plain.out == asked.out == short.out
    assert "Usage: stayer" in plain.out


def test_the_version_is_printed(apart: Apart) -> None:
    from stayer import __version__

    assert apart("--version").works().out == f"stayer, version {__version__}\n"


def test_control_c_at_any_moment_is_quiet(apart: Apart, store: Store) -> None:
    # Given a command that reads what nobody writes
    process = apart.start("add", "--jsonl", "-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write('{"id": "t"}\n')
    process.stdin.flush()

    # When it is interrupted as soon as its process is there, or later
    process.send_signal(2)

    # Then it says nothing but, at worst, what Python says before it is ready
    out, err = process.communicate()
    assert process.returncode in (130, -2)
    assert out == ""
    assert "stayer" not in err or "KeyboardInterrupt" in err
