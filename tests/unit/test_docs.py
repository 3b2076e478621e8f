"""What the documentation repeats of the code is what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_state_diagram_is_that_of_the_table():
    done = subprocess.run(
        [sys.executable, "docs/diagram.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
