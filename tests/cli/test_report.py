"""`report`: what a script within a task says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Apart, Here
from tests.cli.test_startup import PROBE, SLOW, TABLES


@pytest.fixture
def run(tmp_path: Path, environment: dict[str, str]) -> Path:
    """A run directory, which the variables lead to."""
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("report", "checkpoint", "result"):
        environment[f"STAYER_{name.upper()}"] = str(folder / name)
    return folder


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["40"], '{"done": 40}'),
        (["40/100"], '{"done": 40, "total": 100}'),
        (["40%"], '{"done": 40, "total": 100}'),
        (["0.5/1"], '{"done": 0.5, "total": 1}'),
        (["--message", "en\ncoding"], '{"message": "en\\ncoding"}'),
        (["4/10", "--message", "x"], '{"done": 4, "total": 10, "message": "x"}'),
        (["--meta", "n=3", "--meta", "team=a b"], '{"meta": {"n": 3, "team": "a b"}}'),
    ],
)
def test_a_report_is_a_line(run: Path, stayer: Here, arguments: list[str], line: str) -> None:
    stayer("report", *arguments).works()
    stayer("report", "1").works()
    assert (run / "report").read_text() == f'{line}\n{{"done": 1}}\n'


def test_metrics_and_steps_are_lines_of_their_own(run: Path, stayer: Here) -> None:
    stayer("report", "--metric", "loss=0.5", "--metric", "n=-3", "--x", "2", "--step", "s").works()
    metric, step = (json.loads(line) for line in (run / "report").read_text().splitlines())
    assert metric.pop("at") <= step.pop("at")
    assert (metric, step) == ({"metric": {"loss": 0.5, "n": -3.0}, "x": 2.0}, {"step": "s"})
    stayer("report", "--metric", "loss").refuses("loss=0.31")


@pytest.mark.parametrize("amount", ["half", "1/2/3", "1e999", "", "1%/2"])
def test_what_is_no_amount_is_refused(run: Path, stayer: Here, amount: str) -> None:
    stayer("report", amount).refuses("is not an amount", "40/100")
    assert not (run / "report").exists()


def test_nothing_to_report_is_refused(run: Path, stayer: Here) -> None:
    stayer("report").refuses("nothing to report", "40/100")


@pytest.mark.parametrize(
    "arguments",
    [["1"], ["--message", "x"], ["--checkpoint", "-"], ["--result", "1"], ["--meta", "a=1"]],
)
def test_outside_of_a_task_it_is_refused(stayer: Here, arguments: list[str]) -> None:
    stayer("report", *arguments).refuses("this is not a task", "STAYER_")


def test_a_checkpoint_is_kept_byte_by_byte(run: Path, stayer: Here, folder: Path) -> None:
    (folder / "state").write_bytes(b"\x00\xff\n")
    stayer("report", "--checkpoint", "state").works()
    assert (run / "checkpoint").read_bytes() == b"\x00\xff\n"
    stayer("report", "--checkpoint", "-", input=b"17\n").works()
    assert (run / "checkpoint").read_bytes() == b"17\n"


def test_a_result_may_be_json_a_file_or_piped(run: Path, stayer: Here, folder: Path) -> None:
    stayer("report", "--result", '{"frames": 100}').works()
    assert (run / "result").read_text() == '{"frames": 100}'
    (folder / "picture.png").write_bytes(b"\x89PNG")
    stayer("report", "--result", "@picture.png").works()
    assert (run / "result").read_bytes() == b"\x89PNG"
    stayer("report", "--result", "-", input=b"[1]").works()
    assert (run / "result").read_bytes() == b"[1]"


def test_what_can_not_be_kept_is_refused(run: Path, stayer: Here, folder: Path) -> None:
    (folder / "large").write_bytes(b"x" * 16_000_001)
    stayer("report", "--checkpoint", "large").refuses("16 MB")
    stayer("report", "--result", "@large").refuses("limit")
    stayer("report", "--result", "no json").refuses("--result: not JSON")
    stayer("report", "--result", "@nowhere").refuses("nowhere can't be read: No such file")
    stayer("report", "--checkpoint", "nowhere").refuses("nowhere can't be read: No such file")
    assert list(run.iterdir()) == []


def test_a_run_directory_that_is_gone_is_told(run: Path, stayer: Here) -> None:
    run.rmdir()
    for arguments in (["1"], ["--checkpoint", "-"], ["--result", "1"]):
        stayer("report", *arguments, input=b"1").refuses("can't be written: No such file")


def test_reporting_progress_imports_next_to_nothing(run: Path, apart: Apart) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, "report", "40/100"],
        env={**apart.environment, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    modules = set(done.stderr.split())
    assert not modules & (SLOW | TABLES | {"msgspec", "sqlite3", "stayer.config", "stayer.store"})
