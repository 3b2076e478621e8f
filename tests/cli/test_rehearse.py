"""`stayer rehearse`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Here

JOBS = """
from stayer import Context

def good(task: Context, number: int) -> int:
    for each in range(task.restore(0), number):
        task.checkpoint(each + 1)
    return number

def bad(task: Context) -> int:
    total = task.restore(0) + 1
    task.checkpoint(total)
    return total
"""


def test_a_function_is_rehearsed(
    stayer: Here, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    (folder / "rehearsed_jobs.py").write_text(JOBS)
    done = stayer("rehearse", "rehearsed_jobs:good", "-p", "number=2", "--random", "0")
    assert done.code == 0, done
    assert "killed after checkpoint 2: the same result (2 attempts)" in done.out

    done = stayer("rehearse", "rehearsed_jobs:bad", "--random", "0", "--json")
    assert done.code == 1
    found = json.loads(done.out)
    assert found["checkpoints"] == 1
    assert "the result is 2, not 1" in found["runs"][1]["problem"]


def test_a_function_is_found_in_this_folder(folder: Path) -> None:
    (folder / "here_jobs.py").write_text(JOBS)
    # -P: as the program `stayer` does, whose own folder is another one.
    command = [sys.executable, "-P", "-m", "stayer", "rehearse", "here_jobs:good"]
    done = subprocess.run(
        [*command, "-p", "number=1", "--random", "0"], cwd=folder, capture_output=True, check=False
    )
    assert done.returncode == 0, done


def test_a_command_is_rehearsed(stayer: Here) -> None:
    done = stayer("rehearse", "--random", "0", "--", "sh", "-c", 'echo 7 > "$STAYER_RESULT"')
    assert done.code == 0, done
    assert "it saved no checkpoint" in done.err


def test_what_can_not_be_rehearsed_is_refused(stayer: Here) -> None:
    stayer("rehearse").refuses("say what to rehearse")
    stayer("rehearse", "no_such_module:f").refuses("no_such_module")
    stayer("rehearse", "--", "false").refuses("fails even if nobody disturbs it: exit code 1")
