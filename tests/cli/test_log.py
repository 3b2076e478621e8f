"""`stayer log`."""

from __future__ import annotations

from pathlib import Path

import pytest

from stayer.cli.follow import Printer, follow
from stayer.cli.terminal_safe import SafeOutput
from stayer.core.errors import StoreUnreachable
from stayer.core.happenings import Done, Interrupt, Start
from stayer.core.model import LogPiece, Report, Task
from stayer.core.worker_model import EVERYTHING
from stayer.service.control import logs
from stayer.store import LOG_HEAD, LOG_TAIL, Store
from tests.cli.running import Apart, Here
from tests.cli.terminal import Terminal
from tests.cli.working import Site
from tests.contract.builders import apply, beat, get, new, started, submit
from tests.contract.builders import worker as record


class Writer:
    """A task that runs, and what it prints."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.task: Task = started(store, id="t")
        self._number = 1
        self._offset = 0

    def prints(self, *pieces: bytes) -> None:
        for data in pieces:
            self._number += 1
            report = Report(id="t", attempt=self.task.attempt, log=(LogPiece(self._offset, data),))
            beat(self.store, record(), self._number, report)
            self._offset += len(data)

    def ends(self) -> None:
        apply(self.store, get(self.store, "t"), Done())

    def begins_again(self) -> None:
        apply(self.store, get(self.store, "t"), Interrupt())
        self.task = started_again(self.store)
        self._offset = 0


def started_again(store: Store) -> Task:

    [task] = store.reserve("w", ["q"], 1, EVERYTHING)
    return apply(store, task, Start())


@pytest.fixture
def writer(store: Store, worker: str) -> Writer:
    return Writer(store)


def test_since_begins_with_what_came_lately(stayer: Here, writer: Writer) -> None:
    writer.prints(b"one\n", b"two\n")

    assert stayer("log", "t", "--since", "1h").works().out == "one\ntwo\n"
    assert stayer("log", "t", "--since", "0s").works().out == ""
    stayer("log", "t", "--since", "1h", "--tail", "1").refuses("only one of them")


def test_the_log_is_printed_as_it_was_written(apart: Apart, writer: Writer, tmp_path: Path) -> None:
    writer.prints(b"one\n", b"\xff\x00\x1b[2J", b"two")
    writer.ends()

    with open(tmp_path / "out", "wb") as file:
        apart("log", "t", stdout=file).works()

    assert (tmp_path / "out").read_bytes() == b"one\n\xff\x00\x1b[2Jtwo"


@pytest.mark.parametrize(
    ("lines", "said"),
    [("0", ""), ("1", "three\n"), ("2", "two\nthree\n"), ("9", "one\ntwo\nthree\n")],
)
def test_the_last_lines(stayer: Here, writer: Writer, lines: str, said: str) -> None:
    writer.prints(b"one\ntw", b"o\nthr", b"ee\n")

    assert stayer("log", "t", "--tail", lines).works().out == said


def test_a_tail_may_end_without_a_newline() -> None:
    pieces = [LogPiece(5, b"a\nb"), LogPiece(8, b"\nc")]

    assert [logs.beginning_of_tail(pieces, number) for number in range(5)] == [10, 9, 7, 5, 5]
    assert logs.beginning_of_tail([], 3) == 0


def test_an_offset_counts_bytes(stayer: Here, writer: Writer) -> None:
    writer.prints(b"one\ntwo\n")

    assert stayer("log", "t", "--offset", "4").works().out == "two\n"
    stayer("log", "t", "--offset", "4", "--tail", "1").refuses("only one of them")


def test_each_attempt_has_its_own_log(stayer: Here, writer: Writer) -> None:
    writer.prints(b"first\n")
    writer.begins_again()
    writer.prints(b"second\n")

    assert stayer("log", "t").works().out == "second\n"
    assert stayer("log", "t", "--attempt", "1").works().out == "first\n"
    assert stayer("log", "t", "--attempt", "1", "-f").works().out == "first\n"
    stayer("log", "t", "--attempt", "3").refuses("no attempt 3", "1 to 2")


def test_what_is_left_out_is_said(stayer: Here, writer: Writer) -> None:
    line = b"x" * 99_999 + b"\n"
    writer.prints(*[line] * ((LOG_HEAD + 2 * LOG_TAIL) // len(line)))
    writer.ends()

    done = stayer("log", "t")

    assert done.code == 0
    left_out = LOG_HEAD + 2 * LOG_TAIL - len(done.out)
    assert left_out >= LOG_TAIL
    assert done.err == f"… {left_out:,} bytes left out …\n"


def test_nothing_printed_says_why(stayer: Here, store: Store, writer: Writer) -> None:
    submit(store, new("waits", queue="other"))

    assert "has not run" in stayer("log", "waits").err
    assert "-f waits for it" in stayer("log", "t").err
    writer.ends()
    assert stayer("log", "t").err == "stayer: task t is complete: it printed nothing\n"


def test_a_terminal_obeys_colours_and_nothing_else(apart: Apart, writer: Writer) -> None:
    writer.prints(b"\x1b[31mred\x1b[0m \x1b[2J\x1b]0;title\x07 \xff\n")
    writer.ends()

    with Terminal(apart, "log", "t") as terminal:
        assert terminal.end() == 0
        assert terminal.text == "\x1b[31mred\x1b[0m \\x1b[2J\\x1b]0;title\\x07 \\xff\r\n"
    with Terminal(apart, "log", "t", "--no-color") as terminal:
        assert terminal.end() == 0
        assert terminal.text.startswith("red \\x1b[2J")


def test_letters_and_colours_may_be_cut_anywhere() -> None:
    whole = "ä\x1b[1;31mé\x1b[0m\rü €\n".encode()
    for cut in range(len(whole) + 1):
        harmless = SafeOutput()
        shown = harmless.feed(whole[:cut]) + harmless.feed(whole[cut:]) + harmless.end()
        assert shown == whole.replace(b"\r", b"\n")


def test_a_carriage_return_covers_nothing_on_a_terminal() -> None:
    """Where it belongs to the end of a line, it is that; also if it is cut off from it."""
    whole = b"\r10%\r\r20%\r\nrm -rf /\rls\n\r"
    for cut in range(len(whole) + 1):
        harmless = SafeOutput()
        shown = harmless.feed(whole[:cut]) + harmless.feed(whole[cut:]) + harmless.end()
        assert shown == b"\n10%\n20%\nrm -rf /\nls\n\n"


def test_colours_end_with_the_log() -> None:
    harmless = SafeOutput()

    assert harmless.feed(b"\x1b[31mred\x1b[") == b"\x1b[31mred"
    assert harmless.end() == b"\\x1b[\x1b[0m"


def test_following_goes_on_with_the_next_attempt(
    apart: Apart, writer: Writer, store: Store
) -> None:
    writer.prints(b"first\n")
    process = apart.start("log", "-f", "t")
    assert process.stdout is not None
    assert process.stdout.readline() == "first\n"
    writer.prints(b"more\n")
    assert process.stdout.readline() == "more\n"

    writer.begins_again()
    writer.prints(b"second\n")
    assert process.stdout.readline() == "second\n"
    writer.prints(b"end")
    writer.ends()

    out, err = process.communicate()
    assert (process.returncode, out) == (0, "end")
    assert err == "stayer: attempt 2 of task t begins on node-of-w\n"


def test_ctrl_c_ends_the_following_not_the_task(apart: Apart, writer: Writer, store: Store) -> None:
    writer.prints(b"first\n")
    with Terminal(apart, "log", "-f", "t") as terminal:
        terminal.until("first")
        assert terminal.interrupt() == 130
    assert get(store, "t").state == "started"


def test_a_real_task_is_followed_to_its_end(apart: Apart, fleet: Site) -> None:
    fleet.worker()
    fleet.stamper("t")
    fleet.until_stamped("t")
    process = apart.start("log", "-f", "t")
    fleet.finish("t")

    assert process.communicate() == ("", "")
    assert process.returncode == 0


def test_a_store_out_of_reach_is_waited_for(
    store: Store, writer: Writer, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch
) -> None:
    writer.prints(b"first\n")
    writer.ends()
    answer, times = store.last_event, iter(range(3))

    def unreliable() -> int:
        if next(times) < 2:
            raise StoreUnreachable("the store is out of reach")
        return answer()

    monkeypatch.setattr(store, "last_event", unreliable)

    assert follow(store, "t", Printer()).state == "complete"
    out, err = capfdbinary.readouterr()
    assert out == b"first\n"
    assert err.count(b"out of reach; trying again") == 1
    assert err.endswith(b"the store answers again\n")
