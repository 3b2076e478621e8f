"""What workers of the version before start is still there, and is what has taken its place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def run(folder: Path, module: str, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-P", "-m", module, *arguments],
        cwd=folder, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_an_app_is_asked_for_its_names(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(
        "import stayer\napp = stayer.App()\n\n@app.task\ndef work() -> None: ...\n"
    )
    before, now = (
        run(tmp_path, name, "names", "made") for name in ("stayer.runners", "stayer.task")
    )
    assert before == now
    assert before[0] == 0, before
    assert "made.work" in before[1] or '"work"' in before[1]


@pytest.mark.parametrize(
    ("before", "now"),
    [("stayer.runners", "stayer.task"), ("stayer.runners.pool", "stayer.worker.threads")],
)
def test_bad_use_is_told_in_the_same_way(tmp_path: Path, before: str, now: str) -> None:
    told = [run(tmp_path, name, "nonsense") for name in (before, now)]
    assert told[0][0] == told[1][0] != 0
    assert told[0][2].splitlines()[-1:] == told[1][2].splitlines()[-1:] != []
