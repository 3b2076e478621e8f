"""The record of a task as its process reads it: whole, and without much ado."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec

from stayer.core import codec
from stayer.core.model import Code, Pinned, SentFile, Task
from stayer.task import record

WHOLE = Task(
    id="a",
    queue="q",
    name="f",
    command=("python", "train.py"),
    env={"A": "b"},
    parameters={"x": [1, None]},
    state="started",
    attempt=2,
    tags=("red", "blue"),
    created=1700000000.5,
    started_at=1700000001.0,
    code=Code(("numpy",), "3.12", None, (SentFile("a", "0" * 64, 3),)),
    pinned=Pinned("3.12", "1" * 64),
    meta={"team": ["vision"]},
)

COUNT = """
import sys
from stayer.task import record
data = open(sys.argv[1], "rb").read()
if sys.argv[2:]:
    record.get_ready()
compiled = []
sys.addaudithook(lambda event, about: compiled.append(about) if event == "compile" else None)
record.read(data)
print(len(compiled))
"""


def written(task: Task) -> bytes:
    return json.dumps({"task": codec.record(task)}).encode()


def test_all_of_it_is_what_it_was() -> None:
    read = record.read(written(WHOLE))
    assert msgspec.structs.asdict(read) == msgspec.structs.asdict(WHOLE)
    plain = Task(id="b", queue="q")
    assert record.read(written(plain)) == plain


def test_types_that_nobody_needs_are_not_worked_out(tmp_path: Path) -> None:
    """Those of all fields are over a hundred annotations to compile."""
    (tmp_path / "task.json").write_bytes(written(Task(id="b", queue="q", name="f", tags=("x",))))
    counts = []
    for words in ((), ("ready",)):
        done = subprocess.run(
            [sys.executable, "-c", COUNT, str(tmp_path / "task.json"), *words],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        counts.append(int(done.stdout))
    fresh, ready = counts
    assert fresh < 40
    assert ready == 0
