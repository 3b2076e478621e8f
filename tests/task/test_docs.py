"""The code on the pages about Python tasks, progress and checkpoints works."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.task.rig import PATIENCE, Rig

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
BLOCK = re.compile(r'^```(\w+)(?: title="(.*?)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> dict[str, str]:
    """The code of a page, by its title."""
    text = (PAGES / page).read_text(encoding="utf-8")
    return {title: code for kind, title, code in BLOCK.findall(text) if kind == language}


@pytest.fixture
def pages(rig: Rig) -> Rig:
    """All Python code of the pages as files."""
    for page in ("python-tasks.md", "progress-and-checkpoints.md"):
        for title, code in blocks(page, "python").items():
            assert title, code
            rig.write(title, code)
    return rig


@pytest.mark.parametrize(
    ("module", "name", "parameters", "result"),
    [
        ("jobs", "jobs.encode", {"path": "a"}, {"path": "a.webm", "quality": 20}),
        ("jobs", "train", {"epochs": 3}, 3),
        ("jobs", "jobs.fetch", {"url": "four"}, 4),
        ("hooks", "hooks.work", None, None),
        ("training", "training.train", {"epochs": 3}, 0.125),
        ("stages", "stages.report", {"urls": ["http://a/b", "http://a/cd"]}, 15),
    ],
)
def test_the_functions_work(
    pages: Rig, module: str, name: str, parameters: Any, result: Any
) -> None:
    assert pages.run("app", module, parameters, name).result == result


def test_the_class_works(pages: Rig) -> None:
    ended = pages.run("class", str(pages.code / "resize.py"), {"sizes": [100, 200]})
    assert ended.result == "resized"
    assert ended.reports[-1] == {"done": 2, "total": 2}


def test_a_training_goes_on_where_it_was(pages: Rig) -> None:
    pages.run("app", "training", {"epochs": 2}, "training.train")
    ended = pages.run("app", "training", {"epochs": 4}, "training.train")
    assert ended.result == 1 / 16
    assert ended.reports[0] == {"done": 2, "total": 4}


def test_the_script_works_within_a_task_and_by_itself(pages: Rig) -> None:
    command = [sys.executable, str(pages.code / "train.py")]
    environment = pages.prepare()
    (pages.folder / "checkpoint").write_text('{"epoch": 8, "loss": 0.25}')
    subprocess.run(command, env=environment, check=True, timeout=PATIENCE)
    assert json.loads((pages.folder / "result").read_text()) == {"loss": 0.0625}
    environment.pop("STAYER_DIR")
    alone = subprocess.check_output(command, env=environment, text=True, timeout=PATIENCE)
    assert len(alone.splitlines()) == 10


def test_the_polite_one_stops(pages: Rig) -> None:
    code = (
        "import polite; from stayer import Context\n"
        "with Context.for_test() as task:\n"
        "    task.request_stop()\n"
        "    assert polite.poll() == 'stopped'"
    )
    subprocess.run([sys.executable, "-c", code], cwd=pages.code, check=True, timeout=PATIENCE)


def test_the_tests_pass(pages: Rig) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_jobs.py"]
    done = subprocess.run(
        command, cwd=pages.code, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert "3 passed" in done.stdout, done.stdout


def test_the_shell_script_works(rig: Rig) -> None:
    [script] = blocks("progress-and-checkpoints.md", "sh").values()
    program = rig.code / "stayer"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stayer "$@"\n')
    program.chmod(0o755)
    environment = rig.prepare()
    (rig.folder / "checkpoint").write_text("3\n")
    environment["PATH"] = f"{rig.code}:{environment['PATH']}"
    subprocess.run(["sh", "-e", "-c", script], env=environment, check=True, timeout=PATIENCE)
    lines = [json.loads(line) for line in (rig.folder / "report").read_text().splitlines()]
    assert lines == [{"done": n, "total": 5, "message": f"part {n}"} for n in (4, 5)]
    assert (rig.folder / "checkpoint").read_text() == "5\n"
    assert json.loads((rig.folder / "result").read_text()) == {"parts": 5}
