"""MariaDB and MySQL: the database that a team may have already."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from stayer.core.errors import BadConfig
from stayer.core.insight.health import Finding
from stayer.stores.sql.mysql.database import Database
from stayer.stores.sql.mysql.errors import BrokenUp, ConnectionLost
from stayer.stores.sql.mysql.health import check
from stayer.stores.sql.store import SqlStore
from stayer.stores.sql.table_names import DEFAULT_PREFIX, checked_prefix

_TEXTS = (
    "unix_socket", "ssl_ca", "ssl_cert", "ssl_key", "ssl_key_password", "bind_address",
    "read_default_file", "read_default_group",
)  # fmt: skip
_SWITCHES = ("ssl_disabled", "ssl_verify_cert", "ssl_verify_identity")
_SECONDS = ("connect_timeout", "read_timeout", "write_timeout")
_DRIVERS = ("pymysql", "mysqlclient")
_BROKEN_UP_TRIES = 20
_LOST_TRIES = 4
_CONNECT_TIMEOUT, _ANSWER_TIMEOUT = 10, 60


def open_store(url: str, clock: Callable[[], float] | None = None) -> MySqlStore:
    """`mysql://user:password@host:3306/database?ssl_ca=…`, `mariadb://…`."""
    parts = urlsplit(url)
    shown = _shown(url)
    database = unquote(parts.path.lstrip("/"))
    if not database or "/" in database:
        raise BadConfig(f"store {shown!r}: write mysql://user:password@host:3306/database")
    try:
        port = parts.port
    except ValueError:
        raise BadConfig(f"store {shown!r}: the port has to be a number up to 65535") from None
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    prefix = checked_prefix(shown, given.pop("prefix", DEFAULT_PREFIX))
    driver = given.pop("driver", None)
    if driver is not None and driver not in _DRIVERS:
        raise BadConfig(f"store {shown!r}: driver={driver}: there are {' and '.join(_DRIVERS)}")
    options: dict[str, Any] = {
        "connect_timeout": _CONNECT_TIMEOUT,
        "read_timeout": _ANSWER_TIMEOUT,
        "write_timeout": _ANSWER_TIMEOUT,
    }
    options |= {name: _option(shown, name, value) for name, value in given.items()}
    if "unix_socket" not in options:
        options |= {"host": parts.hostname or "localhost", "port": port or 3306}
    options |= {
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": database,
    }
    for name in ("user", "password"):
        if not options[name]:  # from read_default_file, perhaps
            del options[name]
    return MySqlStore(url, Database(shown, options, clock, prefix, driver))


def _option(shown: str, name: str, value: str) -> Any:
    if name in _TEXTS:
        return value
    if name in _SECONDS and value.isdigit():
        return int(value)
    if name in _SWITCHES and value.lower() in ("true", "false", "1", "0"):
        return value.lower() in ("true", "1")
    if name in (*_SECONDS, *_SWITCHES):
        raise BadConfig(f"store {shown!r}: {name}={value}: write seconds, or true or false")
    known = ", ".join(("prefix", "driver", *_TEXTS, *_SWITCHES, *_SECONDS))
    raise BadConfig(f"store {shown!r}: there is no option {name}: known are {known}")


def _shown(url: str) -> str:
    """Without the password, and what else may be secret."""
    parts = urlsplit(url)
    _, at, place = parts.netloc.rpartition("@")
    user = parts.username or ""
    return f"{parts.scheme}://{user}{at}{place}{parts.path}"


class MySqlStore(SqlStore):
    """The contract on a server."""

    _database: Database

    def is_made(self) -> bool:
        """Whether there are tables."""
        from stayer.stores.sql.mysql.schema import version

        with self._database.looking() as tx:
            return version(tx, self.url) > 0

    def check(self) -> list[Finding]:
        """What `stayer doctor` asks."""
        return check(self._database)

    def should_try_again(self, error: Exception, tries: int) -> bool:
        """After a deadlock that was broken up, or if the connection broke before anything was to be
        committed; each time a little later, so that those who were in each other's way are not
        again.
        """
        if super().should_try_again(error, tries):
            return True
        if isinstance(error, BrokenUp) and tries < _BROKEN_UP_TRIES:
            time.sleep(random.uniform(0, min(0.002 * 2**tries, 0.2)))
            return True
        if isinstance(error, ConnectionLost) and not error.unsure and tries < _LOST_TRIES:
            time.sleep(random.uniform(0.02, 0.05) * 2**tries)
            return True
        return False
