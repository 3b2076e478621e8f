"""A process that the tests fork is what a new interpreter would be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.fleet import until
from tests.quick_popen import QuickPopen

STAYER = [sys.executable, "-m", "stayer"]


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (["config"], ""),
        (["ls", "--no-such-option"], ""),
        (["no-such-command"], ""),
        (["add", "--jsonl", "-"], '{"id": "a", "command": ["true"]}\n'),
        (["show", "none"], ""),
    ],
)
def test_it_says_and_does_the_same(
    tmp_path: Path, environment: dict[str, str], arguments: list[str], given: str
) -> None:
    """With settings from the environment, and from a file in the folder where it begins."""
    said = []
    for start in (QuickPopen, subprocess.Popen):
        folder = tmp_path / start.__name__ / "here"
        folder.mkdir(parents=True)
        (folder / "stayer.toml").write_text(
            f'queue = "of-the-file"\nstore = "sqlite:///{tmp_path}/{start.__name__}/s.db"\n'
        )
        process = start(
            [*STAYER, *arguments], cwd=folder, text=True, encoding="utf-8",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **environment, "STAYER_STORE": "", "TZ": "Asia/Kathmandu"},
        )  # fmt: skip
        out, err = process.communicate(given)
        alike = [each.replace(start.__name__, "X") for each in (out, err)]
        words = [each.replace(f"[{process.pid}]", "[pid]").split() for each in alike]
        said.append((process.returncode, *words))
    assert said[0] == said[1]


def test_it_is_a_child_of_the_test_with_nothing_open_that_is_not_its_own(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    umask = os.umask(0o027)
    try:
        with open(tmp_path / "not-its-own", "w"):
            process = QuickPopen(
                [*STAYER, "add", "--jsonl", "-"], cwd=tmp_path, env={**os.environ, **environment},
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
    finally:
        os.umask(umask)
    about = Path(f"/proc/{process.pid}")
    status = dict(line.split(":\t", 1) for line in (about / "status").read_text().splitlines())
    assert int(status["PPid"]) == os.getpid()
    assert status["Umask"] == "0027"
    assert os.readlink(about / "cwd") == str(tmp_path)
    assert "not-its-own" not in "".join(os.readlink(each) for each in (about / "fd").iterdir())
    process.kill()
    process.communicate()
    assert process.returncode == -9


def test_a_folder_that_is_gone_is_an_error_here(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        QuickPopen([*STAYER, "ls"], cwd=tmp_path / "gone")


@pytest.mark.parametrize("name", ["PYTHONPATH", "LC_ALL", "PYTHONWARNINGS"])
def test_what_only_a_new_interpreter_looks_at_gets_one(tmp_path: Path, name: str) -> None:
    command = [*STAYER, "add", "--jsonl", "-"]
    with QuickPopen(
        command, env={**os.environ, name: "C"}, cwd=tmp_path, stdin=subprocess.PIPE
    ) as process:
        about = Path(f"/proc/{process.pid}/cmdline")
        until(about.read_bytes, "for the new program to be there")
        started = about.read_bytes()
        process.kill()
    assert started.split(b"\0")[:-1] == [*map(os.fsencode, command)]
