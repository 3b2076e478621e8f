"""The package `clients/js`: its own tests, run by Node against a real server and worker, and its
types.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.contract.builders import PATIENCE
from tests.docs.pages import ROOT
from tests.servers.finding import missing, node_binary
from tests.ui.system import System

PACKAGE = ROOT / "clients" / "js"


def run_node(*arguments: str, system: System, **variables: str) -> str:
    """Run a script of the package's in its folder; what it printed."""
    done = subprocess.run(
        [node_binary(), *arguments],
        cwd=PACKAGE,
        env={
            **os.environ, "STAYER_URL": system.url,
            "STAYER_TOKEN": system.site.tokens["operate"], **variables,
        },
        capture_output=True, text=True, check=False, timeout=2 * PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_client_and_worker_do_what_they_say(system: System) -> None:
    tests = [str(file) for file in sorted(PACKAGE.glob("test/*.test.js"))]
    films = system.site.access.add("films", "submit", queues=("films",))
    work = system.site.access.add("js", "work", queues=("js",))
    tokens = {"STAYER_QUEUE_TOKEN": films, "STAYER_WORK_TOKEN": work}
    printed = run_node("--test", *tests, system=system, **tokens)
    assert "# fail 0" in printed
    assert "# skipped 0" in printed
    written = sum(
        len(re.findall(r"^test\(", Path(file).read_text(), re.MULTILINE)) for file in tests
    )
    assert f"# pass {written}" in printed


@pytest.mark.long
def test_the_types_say_what_it_takes(tmp_path: Path) -> None:
    compiler = tmp_path / "node_modules" / ".bin" / "tsc"
    npm = shutil.which("npm") or missing("npm", "install npm")
    subprocess.run(
        [npm, "install", "--silent", "--no-save", "typescript@5"], cwd=tmp_path, check=True
    )
    done = subprocess.run(
        [
            compiler, "--noEmit", "--strict", "--target", "es2022", "--module", "nodenext",
            "--lib", "es2022,dom,dom.asynciterable", "test/types.ts",
        ],
        cwd=PACKAGE, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
