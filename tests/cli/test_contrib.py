"""What is shipped beside the package: the unit of systemd and the recipe of a container."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from stayer.cli.worker import worker

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "contrib" / "systemd" / "stayer-worker.service"
RECIPE = ROOT / "contrib" / "container" / "Dockerfile"


def known_options() -> set[str]:
    return {option for parameter in worker.params for option in parameter.opts}


def test_the_unit_is_well_formed(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NOT CHECKED: there is no systemd-analyze here to verify the unit with")
    program = tmp_path / "stayer"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/stayer/bin/stayer", str(program)))

    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )

    complaints = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, complaints) == (0, []), done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "KillMode=process",
        "Delegate=yes",
        "OOMPolicy=continue",
        "Restart=always",
        "TasksMax=infinity",
        "ExecReload=/bin/kill -HUP $MAINPID",
    ],
)
def test_the_unit_leaves_tasks_alone(line: str) -> None:
    assert line in UNIT.read_text().splitlines()


def test_the_unit_calls_the_worker_as_it_is() -> None:
    [line] = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    _, verb, *words = shlex.split(line)

    assert verb == "worker"
    assert {word for word in words if word.startswith("-")} <= known_options()


def test_the_container_calls_the_worker_as_it_is() -> None:
    [line] = re.findall(r"^CMD (.*)$", RECIPE.read_text(), re.MULTILINE)
    verb, *words = json.loads(line)

    assert verb == "worker"
    assert {word for word in words if word.startswith("-")} <= known_options()
    assert "Not tested" in RECIPE.read_text()
