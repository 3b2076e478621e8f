"""Whoever lacks an extra is told in one line what to install; never by a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
NEEDED: dict[str, tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]] = {
    "code": (
        ("uv",),
        (
            ("worker", "--allow-commands", "--allow-code", "*"),
            ("add", "--with", "numpy", "--resolve", "--", "python3"),
        ),
    ),
    "mysql": (("pymysql",), (("ls", "--store", "mysql://localhost/x"),)),
    "otel": ((), ()),  # used by a program that has imported it, never asked for
    "postgres": (("psycopg",), (("ls", "--store", "postgresql://localhost/x"),)),
    "redis": (
        ("redis", "hiredis"),
        (
            ("ls", "--store", "redis://localhost/0"),
            ("worker", "--allow-commands", "--store", "redis+cluster://localhost/0"),
        ),
    ),
    "web": (("httptools", "starlette", "uvicorn"), (("serve",),)),
}
"""An extra → the packages it brings, and commands that need it."""


# In a process of its own: modules that are imported twice in one process are not the same.
WITHOUT = """
import sys
sys.modules[sys.argv.pop(1)] = None
sys.executable = "/nowhere/python"
from stayer.cli import main
main()
"""


def stayer_without(package: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Call the command as if this had not been installed."""
    environment = {
        **os.environ, "PATH": str(folder), "HOME": str(folder),
        "STAYER_STORE": f"sqlite:///{folder}/stayer.db",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, package, *words],
        capture_output=True, text=True, check=False, cwd=folder, env=environment,
    )  # fmt: skip


def test_every_extra_is_tried() -> None:
    assert list(NEEDED) == sorted(EXTRAS)


@pytest.mark.parametrize(
    ("extra", "package"), [(extra, package) for extra in NEEDED for package in NEEDED[extra][0]]
)
def test_what_is_missing_is_named_in_one_line(tmp_path: Path, extra: str, package: str) -> None:
    for words in NEEDED[extra][1]:
        done = stayer_without(package, tmp_path, *words)
        assert done.returncode == 2, done
        assert done.stderr.count("\n") == 1, done.stderr
        assert f"pip install '.[{extra}]' in a checkout of Stayer" in done.stderr


def test_the_doctor_names_it_too(tmp_path: Path) -> None:
    done = stayer_without("hiredis", tmp_path, "doctor", "--store", "redis://localhost/0")
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "pip install '.[redis]' in a checkout of Stayer" in said
