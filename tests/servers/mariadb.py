"""A private MariaDB server for the tests: own folder, own socket, stopped by its pid.

Making its system tables takes seconds, so that is done once and kept in `.tools`; a server gets a
copy.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymysql

from tests.servers.finding import TOOLS, mariadb_binary

PATIENCE = 60.0
_FORM = ("--innodb-data-file-path=ibdata1:4M:autoextend", "--innodb-log-file-size=8M")
QUICK = (
    "--innodb-flush-log-at-trx-commit=0", "--skip-innodb-doublewrite",
    "--innodb-flush-method=nosync", "--innodb-fast-shutdown=2",
)  # fmt: skip
"""Nothing has to outlive the machine: for all tests but those that kill the server."""
_RING = 6
"""How many databases a server has. No test has so many stores at a time: then the oldest is emptied
and used again, which is ten times as quick as making its tables."""


class MariaDbServer:
    """A server that can be started, stopped and killed; what it wrote stays in its folder."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self._folder = folder
        self._options = list(options)
        self._process: subprocess.Popen[bytes] | None = None
        self._made: list[str] = []
        self._given = 0

    @property
    def socket(self) -> str:
        """Where it can be reached."""
        return str(self._folder / "socket")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def url(self, database: str | None = None, user: str = "root", **options: object) -> str:
        """The URL of a database that nobody uses, or of the one named."""
        given = {"unix_socket": self.socket, **options}
        query = "&".join(f"{name}={quote(str(value), safe='/')}" for name, value in given.items())
        return f"mariadb://{user}@localhost/{database or self._fresh()}?{query}"

    def connect(self, database: str | None = None, **options: Any) -> Any:
        """A connection of the driver's, for what a test does by hand."""
        # TLS would read all certificates of the machine for each connection.
        usual = {"user": "root", "autocommit": True, "charset": "utf8mb4", "ssl_disabled": True}
        given = {**usual, **options}
        return pymysql.connect(unix_socket=self.socket, database=database, **given)

    def sql(self, text: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """What the server answers to one statement."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall())

    def start(self, *options: str) -> None:
        """Start it, and wait until it answers."""
        user = ["--user=root"] if os.geteuid() == 0 else []
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    mariadb_binary(), "--no-defaults", *user, f"--datadir={self._folder / 'data'}",
                    f"--socket={self.socket}", f"--pid-file={self._folder / 'pid'}",
                    "--skip-networking", f"--tmpdir={self._folder}",
                    "--innodb-buffer-pool-size=64M", "--performance-schema=OFF", "--skip-log-bin",
                    *_FORM, *self._options, *options,
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self._await_answer()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, politely or not, and wait until it is gone."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(PATIENCE)

    def _await_answer(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + PATIENCE
        while True:
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(self.socket) == 0:
                    break
            said = (self._folder / "log").read_text(errors="replace")
            assert self._process.poll() is None, f"the server has ended: {said}"
            assert time.monotonic() < deadline, f"the server does not answer: {said}"
            time.sleep(0.01)
        self.sql("SELECT 1")

    def _fresh(self) -> str:
        """The name of a database; the tables of one that was used before are empty."""
        self._given += 1
        if len(self._made) < _RING:
            name = f"t{len(self._made)}"
            self.sql(f"CREATE DATABASE {name}")
        else:
            name = self._made.pop(0)
            self._empty(name)
        self._made.append(name)
        return name

    def _empty(self, database: str) -> None:
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW FULL TABLES WHERE table_type = 'BASE TABLE'")
            tables = [name for name, _ in cursor.fetchall()]
            # The mark of a move first, or nothing else may go; what deleting tasks leaves last.
            for table in sorted(tables, key=lambda name: not name.endswith(("_meta", "_tasks"))):
                kept = (
                    " WHERE `key` NOT IN ('schema', 'numbered', 'identity')"
                    if table.endswith("_meta")
                    else ""
                )
                cursor.execute(f"DELETE FROM {table}{kept}")
            for table in tables:
                if table.endswith("_meta"):
                    cursor.execute(f"UPDATE {table} SET value = '0' WHERE `key` = 'numbered'")
                    cursor.execute(
                        f"UPDATE {table} SET value = md5(uuid()) WHERE `key` = 'identity'"
                    )


@contextmanager
def serving(*options: str) -> Iterator[MariaDbServer]:
    """A server that runs until the end."""
    made = _data_folder()
    # Not pytest's folder: the path of a socket has at most about a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="stayer-mariadb-", dir=os.environ.get("XDG_RUNTIME_DIR")))
    server = MariaDbServer(folder, options)
    try:
        shutil.copytree(made, folder / "data")
        server.start()
        yield server
    finally:
        server.stop(signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def _data_folder() -> Path:
    """A folder with the tables of the server itself, made by the first who asks."""
    version = subprocess.run(
        [mariadb_binary(), "--version"], capture_output=True, text=True, check=True
    ).stdout
    number = version.split("Ver ")[1].split()[0]
    folder = TOOLS / f"mariadb-{number}-data"
    TOOLS.mkdir(exist_ok=True)
    with open(TOOLS / "mariadb.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=TOOLS) as temporary:
                made = Path(temporary) / "data"
                user = ["--user=root"] if os.geteuid() == 0 else []
                subprocess.run(
                    ["mariadb-install-db", "--no-defaults",
                     "--auth-root-authentication-method=normal", "--skip-test-db",
                     f"--datadir={made}", *user, *_FORM],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    check=True,
                )  # fmt: skip
                made.rename(folder)
    return folder
