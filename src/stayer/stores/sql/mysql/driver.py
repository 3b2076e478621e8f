"""Connections: mysqlclient, which is faster, where it is installed; else PyMySQL."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any

from stayer.core.errors import BadConfig, BadInput
from stayer.core.extras import how_to_install
from stayer.stores.sql.mysql.dialect import MODE
from stayer.stores.sql.transaction import fitted_number

_DRIVERS = ("MySQLdb", "pymysql")
_PACKAGES = {"mysqlclient": "MySQLdb", "pymysql": "pymysql"}
_MULTI_STATEMENTS, _FOUND_ROWS = 1 << 16, 1 << 1
_IN_TRANSACTION = 1
_NOT_THERE = 2002
_DOUBLE = 5
"""The number of the type of columns that have fractions."""
_LOCK_WAIT = 20
_CHECK_IDLE_AFTER_S = 2.0
"""A connection that was idle for so long is asked whether it still is one, if it can't be seen."""

Result = tuple[Sequence[tuple[Any, ...]], int]
"""The rows of a statement, and how many it has changed."""


def _number(text: str | bytes) -> float:
    return fitted_number(float(text))


def load(name: str | None) -> ModuleType:
    """The driver that is asked for, or the best there is."""
    for module in (_PACKAGES[name],) if name else _DRIVERS:
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
    raise BadConfig(
        f"store mysql:… needs the package {name or 'PyMySQL'}: {how_to_install('mysql')}"
    )


class Connection:
    """A connection of our own: many statements go in one packet."""

    def __init__(
        self, driver: ModuleType, options: Mapping[str, Any], collation: str | None
    ) -> None:
        self.driver = driver
        self.errors: tuple[type[Exception], ...] = (driver.Error, OSError)
        flags = _MULTI_STATEMENTS | _FOUND_ROWS
        read = import_module(f"{driver.__name__}.converters").conversions
        given = {**options, "charset": "utf8mb4", "autocommit": True, "client_flag": flags,
                 "conv": {**read, _DOUBLE: _number}}  # fmt: skip
        self._raw = _by_socket(driver, given) if "unix_socket" in given else driver.connect(**given)
        self._cursor = self._raw.cursor()
        self._used = time.monotonic()
        self.is_mariadb = "mariadb" in str(self._raw.get_server_info()).lower()
        self.collation = collation or (
            "utf8mb4_nopad_bin" if self.is_mariadb else "utf8mb4_0900_bin"
        )
        self.run([
            f"SET SESSION sql_mode = '{MODE}', time_zone = '+00:00', "
            f"innodb_lock_wait_timeout = {_LOCK_WAIT}".encode(),
            f"SET NAMES utf8mb4 COLLATE {self.collation}".encode(),
            b"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        ])  # fmt: skip

    def run(self, texts: Sequence[bytes]) -> list[Result]:
        """What the statements answer, sent as one packet. One that fails is the last one that was
        run."""
        cursor = self._cursor
        self._used = time.monotonic()
        cursor.execute(b";\n".join(texts))
        found: list[Result] = [(cursor.fetchall() if cursor.description else (), cursor.rowcount)]
        while len(found) < len(texts):
            cursor.nextset()
            found.append((cursor.fetchall() if cursor.description else (), cursor.rowcount))
        return found

    def is_alive(self) -> bool:
        """Whether it seems to be: one that the server has closed has something to read."""
        sock = getattr(self._raw, "_sock", None)
        if sock is not None:
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            return not poll.poll(0)
        if time.monotonic() - self._used < _CHECK_IDLE_AFTER_S:
            return True
        try:
            self._raw.ping()
        except self.errors:
            return False
        return True

    def close(self) -> None:
        with suppress(*self.errors):
            self._raw.close()


def _by_socket(driver: ModuleType, options: Mapping[str, Any]) -> Any:
    """PyMySQL forgets to close the socket of a server that is not there. And it reads all
    certificates of the machine for TLS, which nobody needs there: 33 ms for each connection.
    """
    if driver.__name__ != "pymysql":
        return driver.connect(**options)
    if not any(name.startswith("ssl") for name in options):
        options = {**options, "ssl_disabled": True}
    path = options["unix_socket"]
    here = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        here.settimeout(options["connect_timeout"])
        here.connect(path)
    except OSError as error:
        here.close()
        raise driver.OperationalError(_NOT_THERE, f"{path}: {error.strerror or error}") from error
    raw = driver.connect(**options, defer_connect=True)
    raw._secure = True  # as it has it for a socket that it makes itself
    raw.connect(here)
    return raw


class Joined:
    """The caller's connection, inside the caller's transaction: one statement at a time, and how it
    was set is how it is left.
    """

    def __init__(self, raw: Any) -> None:
        self._raw = _driver_connection(raw)
        name = type(self._raw).__module__.partition(".")[0]
        if name not in _DRIVERS:
            raise BadInput(
                f"a {type(raw).__name__} is no connection to this store: give the connection of "
                "PyMySQL or "
                "mysqlclient whose transaction the task should belong to"
            )
        self.driver = import_module(name)
        self.errors: tuple[type[Exception], ...] = (self.driver.Error, OSError)
        self._cursor = self._raw.cursor(import_module(f"{name}.cursors").Cursor)

    def begin(self, collation: str) -> None:
        """Read our statements as they are meant; the first one may begin the transaction."""
        [(rows, _)] = self.run(
            [b"SELECT @@sql_mode, @@collation_connection, @@autocommit, @@character_set_client"]
        )
        mode, sorting, autocommit, charset = rows[0]
        if not str(charset).startswith("utf8"):
            raise BadInput(
                f"the connection's character set is {charset}: connect with charset='utf8mb4'"
            )
        self._before = mode, sorting
        self.run(
            [f"SET SESSION sql_mode = '{MODE}', collation_connection = '{collation}'".encode()]
        )
        if autocommit:
            self._begin_if_none()

    def _begin_if_none(self) -> None:
        """START TRANSACTION would commit one that is open, so that has to be known."""
        status = getattr(self._raw, "server_status", None)
        if status is None and "mariadb" in str(self._raw.get_server_info()).lower():
            [(rows, _)] = self.run([b"SELECT @@in_transaction"])
            status = rows[0][0]
        if status is None:
            raise BadInput(
                "the connection commits by itself: begin a transaction with autocommit(False)"
            )
        if not status & _IN_TRANSACTION:
            self.run([b"START TRANSACTION"])

    def end(self) -> None:
        mode, sorting = self._before
        self.run([f"SET SESSION sql_mode = '{mode}', collation_connection = '{sorting}'".encode()])

    def run(self, texts: Sequence[bytes]) -> list[Result]:
        """What the statements answer."""
        found: list[Result] = []
        for text in texts:
            self._cursor.execute(text)
            found.append(
                (self._cursor.fetchall() if self._cursor.description else (), self._cursor.rowcount)
            )
        return found


def _driver_connection(connection: Any) -> Any:
    """The driver's own connection under those of SQLAlchemy and Django."""
    for name in ("connection", "driver_connection", "dbapi_connection", "connection"):
        module = type(connection).__module__.partition(".")[0]
        if module in _DRIVERS:
            break
        connection = getattr(connection, name, connection)
    return connection
