"""What is shipped beside the package: units of systemd and the recipe of a container."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from stayer.cli.main import cli

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "contrib" / "systemd").rglob("*.service"))
UNIT = ROOT / "contrib" / "systemd" / "stayer-worker.service"
USER_UNIT = ROOT / "contrib" / "systemd" / "user" / "stayer-worker.service"
SERVER = ROOT / "contrib" / "systemd" / "stayer-serve.service"
COMPOSE = ROOT / "contrib" / "container" / "compose.yml"
RECIPE = ROOT / "contrib" / "container" / "Dockerfile"


def known_options(verb: str) -> set[str]:
    command = cli.get_command(None, verb)  # type: ignore[arg-type]
    assert command is not None
    shared = {"--config"}
    return shared | {option for parameter in command.params for option in parameter.opts}


def is_users(unit: Path) -> bool:
    return unit.parent.name == "user"


def named(unit: Path) -> str:
    return f"{unit.parent.name}/{unit.name}"


def systemd_analyze(*words: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NOT CHECKED: there is no systemd-analyze here to verify the units with")
    words = ("systemd-analyze", *words)
    # Units of a user are verified by a manager that wants a folder for its sockets.
    environment = {"XDG_RUNTIME_DIR": tempfile.gettempdir(), **os.environ}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("unit", UNITS, ids=named)
def test_a_unit_is_well_formed(tmp_path: Path, unit: Path) -> None:
    program = tmp_path / "stayer"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / unit.name
    text = unit.read_text().replace("/opt/stayer/bin/stayer", str(program))
    copy.write_text(text.replace("%h/.local/bin/stayer", str(program)))

    whose = ["--user"] if is_users(unit) else []
    done = systemd_analyze("verify", *whose, "--man=no", str(copy))

    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, complaints) == (0, []), done.stderr


def test_the_server_can_do_little_harm() -> None:
    """By a rating of systemd's own, out of 100."""
    done = systemd_analyze("security", "--offline=yes", "--threshold=20", str(SERVER))
    if "unrecognized option" in done.stderr:
        pytest.skip("NOT CHECKED: systemd-analyze is too old to rate a file")
    assert done.returncode == 0, done.stdout + done.stderr


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
def test_the_units_of_workers_leave_tasks_alone(line: str) -> None:
    for unit in (UNIT, USER_UNIT):
        assert line in unit.read_text().splitlines()


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


def test_a_users_unit_asks_for_nothing_that_only_root_may_give() -> None:
    for unit in filter(is_users, UNITS):
        settings = re.findall(r"^(\w+)=", unit.read_text(), re.MULTILINE)
        of_root = r"User|Group|CapabilityBoundingSet|StateDirectory|Private\w+|Protect\w+"
        assert [name for name in settings if re.fullmatch(of_root, name)] == []
        assert "WantedBy=default.target" in unit.read_text().splitlines()


def test_the_unit_has_nothing_that_would_part_tasks_from_the_next_worker() -> None:
    texts = UNIT.read_text() + USER_UNIT.read_text()
    settings = re.findall(r"^(\w+)=", texts, re.MULTILINE)
    # Those that make a namespace at each start, or forbid what keepers do.
    harmful = r"Private\w+|Protect\w+|\w+Paths|RootDirectory|Bind\w+|RestrictNamespaces|RemoveIPC"

    assert "KillMode" in settings
    assert [name for name in settings if re.fullmatch(harmful, name)] == []


@pytest.mark.parametrize("unit", UNITS, ids=named)
def test_a_unit_has_a_place_for_a_password_that_not_everybody_can_read(unit: Path) -> None:
    place = "%E" if is_users(unit) else "/etc"
    assert re.search(rf"^EnvironmentFile=-{place}/stayer/\w+\.env$", unit.read_text(), re.MULTILINE)


def test_the_container_is_installed_by_hashes() -> None:
    installs = re.findall(r"^RUN .*\bpip (?:install|wheel) .*$", RECIPE.read_text(), re.MULTILINE)

    assert installs
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    [extra] = re.findall(r"^ARG EXTRA=(.*)$", RECIPE.read_text(), re.MULTILINE)
    assert (ROOT / "requirements" / f"{extra}.txt").exists()


@pytest.mark.parametrize("unit", UNITS, ids=named)
def test_a_unit_calls_its_command_as_it_is(unit: Path) -> None:
    [line] = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    _, verb, *words = shlex.split(line)

    assert unit.name == f"stayer-{verb}.service"
    assert {word for word in words if word.startswith("-")} <= known_options(verb)


def test_the_container_calls_the_worker_as_it_is() -> None:
    [line] = re.findall(r"^CMD (.*)$", RECIPE.read_text(), re.MULTILINE)
    verb, *words = json.loads(line)

    assert verb == "worker"
    assert {word for word in words if word.startswith("-")} <= known_options(verb)
    assert "Not tested" in RECIPE.read_text()


def test_the_services_of_the_compose_file_call_commands_as_they_are() -> None:
    lines = re.findall(r"^    command: (\[.*\])$", COMPOSE.read_text(), re.MULTILINE)
    assert len(lines) == 2
    for verb, *words in map(json.loads, lines):
        assert {word for word in words if word.startswith("-")} <= known_options(verb)
    assert "Not tested" in COMPOSE.read_text()
    assert re.search(r"stop_grace_period: 60s", COMPOSE.read_text())
