"""The databases that keep the contract of `stayer.store`, chosen by URL, imported when used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import cast

from stayer.core.errors import BadConfig
from stayer.core.extras import how_to_install
from stayer.store import Store

_BUILT_IN = {
    "sqlite": "stayer.stores.sql.sqlite",
    "memory": "stayer.stores.sql.sqlite.memory",
    "postgresql": "stayer.stores.sql.postgres",
    "postgres": "stayer.stores.sql.postgres",
    "mysql": "stayer.stores.sql.mysql",
    "mariadb": "stayer.stores.sql.mysql",
    "redis": "stayer.stores.redis",
    "rediss": "stayer.stores.redis",
    "redis+sentinel": "stayer.stores.redis",
    "rediss+sentinel": "stayer.stores.redis",
    "redis+cluster": "stayer.stores.redis_cluster",
    "rediss+cluster": "stayer.stores.redis_cluster",
    "unix": "stayer.stores.redis",
}
_DRIVERS = {
    "postgres": ("psycopg", "psycopg_binary"),
    "redis": ("redis", "hiredis"),
    "mysql": ("pymysql",),
}
"""Extra → the packages that it brings, without which its stores can't be imported."""
_SERVERS = ("http", "https")
_GROUP = "stayer.stores"

Clock = Callable[[], float]


def open_store(url: str, clock: Clock | None = None, token: str | None = None) -> Store:
    """The store at this URL, not yet connected. `clock` takes the place of the store's, in tests;
    `token` opens a server (`stayer serve`), where the URL is one of http.

    Other packages add a scheme by an entry point of the group `stayer.stores`: a function
    `(url, clock) -> Store` under the scheme's name.
    """
    scheme, separator, _ = url.partition(":")
    if not separator or "/" in scheme:
        shown = repr(url) if "@" not in url else "…"  # with what may be a password
        raise BadConfig(
            f"store {shown} is not a URL: for a SQLite file write sqlite:///relative/path.db or "
            "sqlite:////absolute/path.db, for a PostgreSQL server "
            "postgresql://user@host/database, for MySQL or MariaDB mysql://user@host/database, for "
            "a Redis server redis://host:6379/0, for `stayer serve` http://host:8787, for one in "
            "this process alone memory:"
        )
    if scheme in _BUILT_IN:
        return cast(Store, _built_in(scheme).open_store(url, clock))
    if scheme in _SERVERS:
        from stayer.stores.remote import open_server

        return open_server(url, token)
    return _from_entry_point(scheme, url, clock)


def is_in_memory(url: str) -> bool:
    """Whether only this process can see the store at this URL."""
    return url.startswith("memory:") or url == "sqlite:///:memory:"


def _built_in(scheme: str) -> ModuleType:
    """Import the store of a scheme. Raises BadConfig, naming the extra, if a driver is missing."""
    try:
        return import_module(_BUILT_IN[scheme])
    except ImportError as error:  # psycopg says so itself where its other half is missing
        is_half = "no pq wrapper available" in str(error)
        package = "psycopg_binary" if is_half else (error.name or "").partition(".")[0]
        for extra, packages in _DRIVERS.items():
            if package in packages:
                raise BadConfig(
                    f"store {scheme}:… needs the package {package}: {how_to_install(extra)}"
                ) from None
        raise


def _from_entry_point(scheme: str, url: str, clock: Clock | None) -> Store:
    from importlib.metadata import entry_points  # slow, and rarely needed

    for entry_point in entry_points(group=_GROUP, name=scheme):
        return cast(Store, entry_point.load()(url, clock))
    known = sorted({*_BUILT_IN, *_SERVERS, *(point.name for point in entry_points(group=_GROUP))})
    raise BadConfig(f"store {scheme}:… is of an unknown kind: known are {', '.join(known)}")
