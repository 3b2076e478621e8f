"""What tasks have in common."""

from __future__ import annotations

import pytest

from stayer.core.insight.kind import kind_of, runner_of

KINDS = [
    (["ffmpeg", "-i", "a.mov"], "ffmpeg"),
    (["/usr/bin/ffmpeg"], "ffmpeg"),
    (["make", "report"], "make"),
    (["python3", "train.py", "--lr", "3"], "python3 train.py"),
    (
        ["/bin/python3.11", "-u", "-W", "ignore", "/srv/train.py"],
        "python3.11 train.py",
    ),
    (["python", "-m", "jobs.train", "a"], "python -m jobs.train"),
    (["python", "-c", "import this"], "python -c import this"),
    (["python"], "python"),
    (["bash", "build.sh"], "bash build.sh"),
    (["bash", "-lc", "make\n  all"], "bash -lc make all"),
    (["sh", "-c"], "sh -c"),
    (["sh", "-c", "x" * 41], "sh -c " + "x" * 39 + "…"),
    (["sh", "-c", "é" * 40], "sh -c " + "é" * 40),
    (["java", "-Xmx4g", "-jar", "lib/app.jar"], "java -jar app.jar"),
    (["node", "dir/"], "node dir"),
    ([""], ""),
]


@pytest.mark.parametrize(("command", "kind"), KINDS)
def test_a_command_is_of_the_kind_of_what_it_runs(command: list[str], kind: str) -> None:
    assert kind_of(None, command) == kind


def test_a_name_says_it_all() -> None:
    assert kind_of("jobs.train", ["sh", "-c", "true"]) == "jobs.train"
    assert kind_of(None, None) == ""


def test_the_code_can_be_left_away() -> None:
    for kind, runner in (
        ("bash -c for i in 1 2", "bash -c"),
        ("python train.py", "python train.py"),
        ("python -m jobs.train", "python -m jobs.train"),
        ("jobs.train", "jobs.train"),
    ):
        assert runner_of(kind) == runner
