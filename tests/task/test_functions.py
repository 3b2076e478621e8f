"""Functions by name, without an app: only those of what was installed for the task."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stayer.task.load_code import load_installed_function


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment with a checkout that has the package `acme_models`."""
    package = tmp_path / "files" / "acme_models"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "work.py").write_text(
        "import os, subprocess, threading\n"
        "from subprocess import getoutput\n"
        "def fit(): return 1\n"
        "class Fit:\n"
        "    def run(self): return 2\n"
        "fits = []\n"
    )
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.syspath_prepend(str(tmp_path / "files"))
    for name in ("acme_models", "acme_models.work"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("name", ["fit", "Fit"])
def test_what_was_installed_is_found(name: str) -> None:
    assert load_installed_function(f"acme_models.work:{name}").__name__ == name


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    "target",
    [
        "os:system",
        "subprocess:getoutput",
        "builtins:exec",
        "runpy:run_path",
        "__main__:run",
        "stayer.cli.main:main",
        "acme_models.work:os.system",
        "acme_models.work:subprocess.run",
        "acme_models.work:getoutput",
        "acme_models.work:threading.Thread",
        "acme_models.work:fits.append",
        "acme_models.work:__loader__.get_data",
        "acme_models.work:fit.__call__",
        ".work:fit",
        "os",
    ],
)
def test_nothing_else_that_python_has_is_a_function_for_tasks(target: str) -> None:
    with pytest.raises(ImportError, match="installed for the task"):
        load_installed_function(target)
