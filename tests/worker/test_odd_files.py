"""A task may put anything in the place of any file of its run directory: it alone pays for it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from stayer.core.units import format_size
from stayer.service.control import tasks as control
from stayer.worker.run_directory import Run
from tests.faults.fleet import Fleet, until

PUT = {
    "a pipe": 'mkfifo "$1.odd"',
    "a folder": 'mkdir "$1.odd"; echo text > "$1.odd/inside"',
    "a link": 'echo 5 > beside; ln -s beside "$1.odd"',
    "a link to a device": 'ln -s /dev/zero "$1.odd"',
}
WHILE_IT_RUNS = (
    "checkpoint", "report", "log", "running", "running.tmp", "go", "go.new", "task.json", "exit",
    "exit.tmp", "lock",
)  # fmt: skip
AT_ITS_END = ("result", "error")
SCRIPT = """
put() { %s; rm -rf "$1"; mv -T "$1.odd" "$1"; }
cd "$STAYER_DIR"
put %s
cd ..
[ -n "%s" ] || put %s
until [ -e %s ]; do sleep 0.5; done
exit %d
"""
TOO_LARGE = {
    "result": ('truncate -s 700M "$STAYER_RESULT"', "ResultTooLarge"),
    "error": ('truncate -s 700M "$STAYER_DIR/error"; exit 1', "ExitCode"),
}


def _odd(fleet: Fleet, kind: str, name: str, code: int = 0) -> str:
    stop = fleet.folder / "odd.stop"
    words = (PUT[kind], name, fleet.task_user or "", name, stop, code)
    return fleet.submit(f"odd-{name}", "sh", "-c", SCRIPT % words)


def _peak_memory(pid: int) -> int:
    [line] = [
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmHWM")
    ]
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("kind", PUT)
def test_odd_files_harm_no_other_task(fleet: Fleet, kind: str) -> None:
    fleet.worker(slots=20, lease=5)
    names = [_odd(fleet, kind, name) for name in WHILE_IT_RUNS]
    names += [_odd(fleet, kind, name, 1) for name in AT_ITS_END]
    fleet.submit("good", "sh", "-c", 'echo 1/2 >> "$STAYER_REPORT"; sleep 1000')
    for id in (*names, "good"):
        fleet.until_state(id, "started")
    until(lambda: fleet.get("good").progress, "for the news of another task")
    number = fleet.store.workers()[0].number
    until(lambda: fleet.store.workers()[0].number > number + 3, "for more beats")
    control.cancel(fleet.store, "good", grace=0)
    assert fleet.until_ended("good").state == "cancelled"
    for id in ("odd-go", "odd-go.new"):
        control.cancel(fleet.store, id, grace=0)
        fleet.until_state(id, "cancelled")
    (fleet.folder / "odd.stop").touch()
    for id in names:
        expected = "failed" if id in ("odd-result", "odd-error") else "complete"
        expected = "cancelled" if id.startswith("odd-go") else expected
        assert fleet.until_ended(id).state == expected, id


def test_a_result_that_is_no_plain_file_is_a_failure_that_says_so(fleet: Fleet) -> None:
    worker = fleet.worker()
    _odd(fleet, "a pipe", "result")
    (fleet.folder / "odd.stop").touch()
    task = fleet.until_ended("odd-result")
    assert (task.state, task.error and task.error.type) == ("failed", "Unreadable")
    assert "no plain file" in (task.error.message if task.error else "")
    fleet.signal(worker, signal.SIGTERM)
    assert fleet.end_of(worker) == 0


def test_a_small_result_is_what_the_keeper_has_written_to_the_disk(tmp_path: Path) -> None:
    """After a power cut the file of the task itself may be there, and empty."""
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "result").touch()
    (tmp_path / "exit").write_text('{"exit_code": 0, "result": "{\\"x\\": 1}"}')
    assert Run(tmp_path).result() == {"x": 1}

    (tmp_path / "task" / "result").write_text("a line\n")
    (tmp_path / "exit").write_text('{"exit_code": 0}')
    assert Run(tmp_path).result() == "a line"


@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_is_far_too_large_is_not_read(fleet: Fleet, name: str) -> None:
    worker = fleet.worker()
    command, said = TOO_LARGE[name]
    fleet.submit("bad", "sh", "-c", command)
    task = fleet.until_ended("bad")
    assert (task.state, task.error and task.error.type) == ("failed", said)
    assert _peak_memory(worker) < 400_000_000


@pytest.mark.parametrize("ones", [1_500_000, 2_300_000])
def test_a_result_that_is_hard_to_refuse_holds_up_nobody(fleet: Fleet, ones: int) -> None:
    fleet.worker()
    write = f"""import os; print('{{"' + "A" * 3_200_000 + '":[' + "1," * {ones} + "NaN]}}",
        file=open(os.environ["STAYER_RESULT"], "w"))"""
    fleet.submit("bad", sys.executable, "-c", write)
    task = fleet.until_ended("bad")
    assert (task.state, task.error and task.error.type) == ("failed", "ResultTooLarge")
    fleet.submit("good", "true")
    assert fleet.until_ended("good").state == "complete"


def test_of_a_checkpoint_that_is_too_large_its_history_tells(fleet: Fleet) -> None:
    worker = fleet.worker()
    fleet.submit("bad", "sh", "-c", 'truncate -s 900M "$STAYER_CHECKPOINT"; sleep 1000')

    def told() -> list[str]:
        events = fleet.store.events("bad")
        return [event.note or "" for event in events if event.event == "checkpoint not kept"]

    until(told, "for the history to tell of it")
    assert format_size(900 * 1024**2) in told()[0]
    assert fleet.store.checkpoint("bad") is None
    assert _peak_memory(worker) < 400_000_000
    assert "is not kept" in (fleet.folder / "one.log").read_text()
    number = fleet.store.workers()[0].number
    until(lambda: fleet.store.workers()[0].number > number + 3, "for more beats")
    assert len(told()) == 1
