"""One try at telling a command."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stayer.core.notify.hooks import Hook
from stayer.core.notify.notices import SAID_LIMIT, Notice, payload
from stayer.service.notify.command import run
from stayer.service.notify.webhook import Answered
from tests.notify.receiver import eventually


def told(notice: Notice, script: str, *arguments: str, time_limit: float = 30.0) -> Answered:
    command = ("sh", "-c", script, "hook", *arguments)
    return run(Hook(name="h", command=command, time_limit=time_limit), notice)


def test_gets_the_notice_on_stdin_and_its_gist_as_variables(
    notice: Notice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAYER_STORE", "redis://:password@host")
    monkeypatch.setenv("OTHER", "kept")
    answered = told(notice, 'cat > "$1"; env > "$2"', str(tmp_path / "in"), str(tmp_path / "env"))
    assert answered == Answered(True, "exit code 0")
    assert json.loads((tmp_path / "in").read_text()) == payload(notice)
    found = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert found["STAYER_NOTICE_ID"] == notice.id
    assert (found["STAYER_TASK_ID"], found["STAYER_QUEUE"]) == ("t", "q")
    assert (found["STAYER_EVENT"], found["STAYER_ATTEMPT"]) == ("failed", "2")
    assert found["STAYER_MESSAGE"] == "t (train) failed [queue q, attempt 2]"
    assert found["OTHER"] == "kept"
    assert "STAYER_STORE" not in found


def test_need_not_read_it(notice: Notice) -> None:
    assert told(notice, "echo fine").summary == "exit code 0: fine"


def test_another_code_than_0_is_no_success(notice: Notice) -> None:
    answered = told(notice, "echo no mail today >&2; exit 3")
    assert answered == Answered(False, "exit code 3: no mail today")


def test_a_signal_is_no_success(notice: Notice) -> None:
    assert told(notice, "kill -9 $$") == Answered(False, "killed by signal 9")


def test_a_program_that_is_not_there_is_tried_again(notice: Notice) -> None:
    answered = run(Hook(name="h", command=("/no/such/program",)), notice)
    assert (answered.delivered, answered.final) == (False, False)
    assert "/no/such/program" in answered.summary


def test_little_is_kept_of_much_output(notice: Notice) -> None:
    answered = told(notice, "head -c 3000000 /dev/zero | tr '\\0' x; exit 1")
    assert SAID_LIMIT <= len(answered.summary) < SAID_LIMIT + 100


def test_patience_ends_for_all_that_it_started(notice: Notice, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = 'sleep 600 & echo $! >> "$1"; echo $$ >> "$1"; echo begun; wait'
    answered = told(notice, script, str(pids), time_limit=0.5)
    assert answered == Answered(False, "killed after 0.5s. begun")
    for pid in map(int, pids.read_text().split()):
        eventually(lambda pid=pid: not _runs(pid))  # type: ignore[misc]


def test_what_it_leaves_behind_holds_nobody_up(notice: Notice, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    answered = told(notice, 'sleep 600 & echo $! > "$1"; echo done', str(pid_file))
    assert answered == Answered(True, "exit code 0: done")
    os.kill(int(pid_file.read_text()), 9)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
