"""What the documentation repeats of the code is what the code says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


SCRIPTS = sorted(
    script.name for script in (ROOT / "docs").glob("*.py") if "--check" in script.read_text()
)


def test_make_writes_all_that_is_made_of_the_code() -> None:
    [named] = re.findall(r"for script in (.*?);", (ROOT / "Makefile").read_text())
    assert sorted(f"{name}.py" for name in named.split()) == SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_is_made_of_the_code_is_up_to_date(script: str) -> None:
    done = subprocess.run(
        [sys.executable, f"docs/{script}", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"run make reference: {done.stderr}"


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


WALK = ROOT / "docs" / "explanation" / "architecture.md"
LINK = re.compile(r"\[`([\w/.]+)`\]\(\.\./\.\./src/stayer/([\w/.]+)\)(?: `([\w.]+)`)?")


@pytest.mark.parametrize(("said", "path", "name"), sorted(set(LINK.findall(WALK.read_text()))))
def test_the_way_through_the_code_leads_to_what_is_there(said: str, path: str, name: str) -> None:
    file = ROOT / "src" / "stayer" / path
    assert file.exists(), "it was moved: mend the walk in architecture.md"
    assert said == path
    assert name in defined(file), f"{path} has no {name}: mend the walk in architecture.md"


def test_each_step_of_the_way_leads_somewhere() -> None:
    """Also if the links are written in another way than the test above understands."""
    text = WALK.read_text()
    steps = re.findall(r"^\d+\. \*\*(\w+)\.\*\*(.*(?:\n   .*)*)", text, re.MULTILINE)
    assert len(steps) >= 9
    assert [name for name, step in steps if not LINK.search(step)] == []
    assert text.count("](../../src/") == len(LINK.findall(text))


def defined(file: Path) -> set[str]:
    """Functions and classes of a module, and methods behind the name of their class."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            found |= {f"{node.name}.{each.name}" for each in methods}
    return found
