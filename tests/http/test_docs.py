"""The pages about HTTP: up to date, and the programs on them run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer import config
from stayer.store import Store
from tests.contract.builders import PATIENCE, get
from tests.docs.pages import section, text
from tests.http.serving import Site

PROGRAMS = {
    "submit.sh": ("bash",),
    "submit.py": (sys.executable,),
    "submit.mjs": ("node",),
    "submit.php": ("php",),
    "submit.rb": ("ruby",),
    "submit.pl": ("perl",),
    "submit.go": ("go", "run"),
    "follow.sh": ("bash",),
}
PAGE = "how-to/submit-over-http.md"
EXAMPLE = re.compile(r'^( *)```\w+ title="([\w.]+)"\n(.*?)^ *```', re.MULTILINE | re.DOTALL)


def examples() -> Iterator[tuple[str, str]]:
    for _, name, code in EXAMPLE.findall(text(PAGE)):
        yield name, textwrap.dedent(code)


def run(name: str, code: str, folder: Path, site: Site) -> str:
    program = PROGRAMS[name]
    found = shutil.which(program[0])
    if found is None:
        pytest.skip(f"NOT TESTED: {name} on {PAGE}, there is no {program[0]} here")
    (folder / name).write_text(code)
    done = subprocess.run(
        [found, *program[1:], name],
        cwd=folder,
        env={
            "STAYER_URL": site.url, "STAYER_TOKEN": site.tokens["submit"], "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
        },
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done
    return done.stdout


def test_every_example_is_known() -> None:
    assert [name for name, _ in examples()] == list(PROGRAMS)


@pytest.mark.parametrize(("name", "code"), [entry for entry in examples() if "submit" in entry[0]])
def test_any_language_submits_and_may_do_so_again(
    site: Site, store: Store, tmp_path: Path, name: str, code: str
) -> None:
    [id] = re.findall(r"film-\w+", code)
    assert id in run(name, code, tmp_path, site)
    assert id in run(name, code, tmp_path, site)
    task = get(store, id)
    assert (task.queue, task.parameters, task.owner) == (
        "encode", {"file": "a.mov"}, "the submit token",
    )  # fmt: skip


def test_a_task_is_followed_as_the_page_says(site: Site, tmp_path: Path) -> None:
    [code] = [code for name, code in examples() if name == "follow.sh"]
    site("POST", "/v1/tasks", {"id": "film-sh"})
    printed = run("follow.sh", code, tmp_path, site)
    assert printed.count('"id":"film-sh"') >= 1
    assert '{"tasks":[],"next":null}' in printed
    assert "urn:stayer:problem:refused" in printed


def test_every_setting_of_the_server_is_documented() -> None:
    said = section("reference/configuration.md", "### The table `[serve]`")
    assert {*re.findall(r"`(\w+)`", said)} >= {*config.SERVE}


def test_the_settings_for_a_proxy_are_ones(tmp_path: Path) -> None:
    [toml] = re.findall(r"```toml\n(.*?)```", text("how-to/serve-over-http.md"), re.DOTALL)
    (tmp_path / "stayer.toml").write_text(toml)
    found = config.load({}, {"HOME": str(tmp_path)}, tmp_path)
    assert found.serve["root_path"] == "/stayer"
    assert found.serve["audit_log"] == str(tmp_path / "audit.log")
