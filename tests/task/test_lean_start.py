"""The process of a task imports what it needs to run, and nothing of what submits tasks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MODULE = """
import stayer

app = stayer.App()

@app.task(retries=2)
def double(x: int) -> int:
    return 2 * x
"""
HEAVY = (
    "stayer.client.client", "stayer.client.handle", "stayer.stores", "stayer.store",
    "stayer.service.control", "stayer.core.lifecycle", "stayer.core.code",
    "stayer.core.schedules.parse", "sqlite3", "asyncio", "socket", "_hashlib",
)  # fmt: skip


def test_an_app_in_a_task_brings_in_nothing_that_submits(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(MODULE)
    asked = (
        "import sys, stayer.task.main, jobs\n"
        "print(jobs.double(4), [name for name in sys.argv[1:] if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked, *HEAVY], cwd=tmp_path, check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.stdout == "8 []\n"
