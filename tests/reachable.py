"""Stayer where other users can reach it: the checkout and its Python may be in somebody's home."""

from __future__ import annotations

import atexit
import functools
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path

import pytest

import stayer

_CODE = "import os, stayer.task.__main__ as it; os.listdir(os.path.dirname(it.__file__))"


@functools.cache
def stayer_for(user: str) -> tuple[str, dict[str, str]]:
    """A Python that this user may run, and the environment in which it finds Stayer."""
    usual = dict(os.environ)
    if _can_run(user, sys.executable, usual):
        return sys.executable, usual
    environment = {**usual, "PYTHONPATH": str(_copy())}
    name = f"python3.{sys.version_info.minor}"  # compiled modules are for just this version
    for folder in ("/usr/bin", "/usr/local/bin"):
        if _can_run(user, f"{folder}/{name}", environment):
            return f"{folder}/{name}", environment
    pytest.skip(f"user {user} can run neither {sys.executable} nor another {name}")


def _can_run(user: str, python: str, environment: dict[str, str]) -> bool:
    known = pwd.getpwnam(user)
    try:
        done = subprocess.run(
            [python, "-P", "-c", _CODE],
            env=environment,
            cwd="/",
            user=known.pw_uid,
            group=known.pw_gid,
            extra_groups=[],
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0


@functools.cache
def _copy() -> Path:
    """A folder with Stayer and what it needs, drivers of its stores too."""
    folder = Path(tempfile.mkdtemp(prefix="stayer-reachable-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # With compiled modules, and the times of their sources, by which they are known to be good: who
    # can't write here would compile all of them at each start.
    shutil.copytree(Path(stayer.__file__).parent, folder / "stayer")
    for name in _needed("stayer", set()) - {"stayer"}:
        found = metadata.distribution(name)
        for file in found.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                _copy_file(Path(str(found.locate_file(file))), folder / file)
    # Needed before 3.11.3, but not installed for the version that runs the tests.
    (folder / "async_timeout.py").write_text("from asyncio import timeout\n")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def _copy_file(source: Path, target: Path) -> None:
    """With its compiled module, if it has one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
    if source.suffix == ".py" and (compiled := Path(cache_from_source(str(source)))).exists():
        (target.parent / "__pycache__").mkdir(exist_ok=True)
        shutil.copy2(compiled, target.parent / "__pycache__")


def _needed(name: str, known: set[str]) -> set[str]:
    """With what those need in turn, as far as it is installed."""
    try:
        wanted = metadata.distribution(name).requires or []
    except metadata.PackageNotFoundError:
        return known
    known.add(name)
    for line in wanted:
        words = re.findall(r"[A-Za-z0-9._-]+", re.split(r"[;<>=!~ ]", line)[0])
        is_development = re.search(r"extra == ['\"](?!redis|web|postgres|mysql|binary)", line)
        for word in words:  # also `hiredis` of `redis[hiredis]`
            if not is_development and word not in known:
                _needed(word, known)
    return known
