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


@pytest.mark.parametrize(
    "line",
    [
        "CapabilityBoundingSet=",
        "LockPersonality=yes",
        "NoNewPrivileges=yes",
        "RestrictRealtime=yes",
        "RestrictSUIDSGID=yes",
        "StateDirectoryMode=0700",
        "UMask=0077",
        "User=stayer",
    ],
)
def test_the_unit_gives_no_rights_that_tasks_do_not_need(line: str) -> None:
    assert line in UNIT.read_text().splitlines()


def test_the_unit_has_nothing_that_would_part_tasks_from_the_next_worker() -> None:
    settings = re.findall(r"^(\w+)=", UNIT.read_text(), re.MULTILINE)
    # Those that make a namespace at each start, or forbid what keepers do.
    harmful = r"Private\w+|Protect\w+|\w+Paths|RootDirectory|Bind\w+|RestrictNamespaces|RemoveIPC"

    assert "KillMode" in settings
    assert [name for name in settings if re.fullmatch(harmful, name)] == []


def test_the_unit_has_a_place_for_a_password_that_not_everybody_can_read() -> None:
    assert "EnvironmentFile=-/etc/stayer/worker.env" in UNIT.read_text().splitlines()


def test_the_container_is_installed_by_hashes() -> None:
    installs = re.findall(r"^RUN .*\bpip (?:install|wheel) .*$", RECIPE.read_text(), re.MULTILINE)

    assert installs
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    [extra] = re.findall(r"^ARG EXTRA=(.*)$", RECIPE.read_text(), re.MULTILINE)
    assert (ROOT / "requirements" / f"{extra}.txt").exists()


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
