"""What the documentation repeats of the code is what the code says."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("script", ["diagram.py", "field_tables.py", "layers.py"])
def test_what_is_made_of_the_code_is_up_to_date(script: str) -> None:
    done = subprocess.run(
        [sys.executable, f"docs/{script}", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_layer_has_at_most_two_names() -> None:
    """So that a row says which of its names may import which."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [rows] = [
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["id"] == "layers"
    ]
    assert len(rows) == 9
    assert all(len(row.replace("|", ":").split(":")) <= 2 for row in rows)
