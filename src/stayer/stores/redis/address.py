"""What a URL says: which server, with which prefix, and how to make a connection."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from msgspec import Struct

from stayer.core.errors import BadConfig

SCHEMES = ("redis", "rediss", "unix")
DEFAULT_PREFIX = "stayer"
CONNECTING = 5.0
ANSWERING = 10.0
"""How long a server may take to be reached, and to answer, in seconds."""
_PREFIX = re.compile(r"[A-Za-z0-9_.-]+")


class Address(Struct, frozen=True):
    """A server that can be connected to."""

    url: str
    """With any password left out."""
    prefix: str
    database: int
    connect: Callable[[], Any]
    """A connection of redis-py, not yet open."""


def parse(url: str) -> Address:
    """`redis://[[user]:password@]host[:port][/database][?prefix=…]`, `rediss://`, `unix://path`."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    prefix = options.pop("prefix", DEFAULT_PREFIX)
    if not _PREFIX.fullmatch(prefix):
        raise BadConfig(
            f"store {_safe(url)}: the prefix {prefix!r} may have letters, digits, and -_. only"
        )
    plain = f"{url.partition('?')[0]}?{urlencode(options)}"
    connection_class, arguments = _arguments(url, plain)
    return Address(
        url=_safe(url),
        prefix=prefix,
        database=int(arguments.get("db") or 0),
        connect=lambda: connection_class(**arguments),
    )


def _arguments(url: str, plain: str) -> tuple[Any, dict[str, Any]]:
    """redis-py's reading of the URL, but for what is ours."""
    try:
        from redis.backoff import NoBackoff
        from redis.connection import Connection, UnixDomainSocketConnection, parse_url
        from redis.retry import Retry
    except ImportError as error:
        raise BadConfig(
            f"store {_safe(url)} needs the package redis: pip install 'stayer[redis]'"
        ) from error
    try:
        given = dict(parse_url(plain))
        connection_class = given.pop("connection_class", Connection)
        arguments: dict[str, Any] = {
            "socket_connect_timeout": CONNECTING,
            "socket_timeout": ANSWERING,
            **given,
            # Trying again is for who called: he knows whether it may be done twice.
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            "driver_info": None,
        }
        if connection_class is UnixDomainSocketConnection:
            if not given.get("path"):
                raise BadConfig(f"store {_safe(url)}: write unix:///path/of/the/socket")
        else:
            arguments.setdefault("socket_keepalive", True)
        connection_class(**arguments)  # says if one of them is unknown
    except (TypeError, ValueError) as error:
        raise BadConfig(f"store {_safe(url)}: {error}") from error
    return connection_class, arguments


def _safe(url: str) -> str:
    """The URL without its password."""
    parts = urlsplit(url)
    options = [(name, value) for name, value in parse_qsl(parts.query) if name != "password"]
    query = urlencode(options, safe="/:")
    netloc = parts.netloc
    if "@" in netloc:
        user, _, host = netloc.rpartition("@")
        name = user.partition(":")[0]
        netloc = f"{name}@{host}" if name else host
    path = f"//{netloc}{parts.path}"
    return f"{parts.scheme}:{path}{f'?{query}' if query else ''}"
