"""`make demo`: it tells its story, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.fleet import until

DEMO = Path(__file__).parents[2] / "demo" / "demo.py"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers run on Linux")


def start(folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.Popen(
        [sys.executable, str(DEMO)], env=environment, stdout=subprocess.PIPE, text=True
    )


def leftovers(folder: Path) -> list[str]:
    """What is still in the folder, and whoever works there."""
    found = [path.name for path in folder.iterdir()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "cmdline").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    "ended_by",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGTERM, marks=pytest.mark.long),
        pytest.param(signal.SIGHUP, marks=pytest.mark.long),
    ],
)
def test_a_demo_that_is_killed_leaves_nothing_behind(
    tmp_path: Path, ended_by: signal.Signals
) -> None:
    with start(tmp_path) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "kill -9 of the worker" in line:  # so two tasks run
                break
        assert leftovers(tmp_path)
        demo.send_signal(ended_by)
    until(lambda: not leftovers(tmp_path))


@pytest.mark.long
def test_the_demo_tells_its_story(tmp_path: Path) -> None:
    with start(tmp_path) as demo:
        said, _ = demo.communicate()
    assert demo.returncode == 0
    assert "attempt 2 begins at epoch" in said
    assert "could not convert string to float: 'free'" in said
    assert leftovers(tmp_path) == []
