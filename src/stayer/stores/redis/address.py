"""What a URL says: which server, with which prefix, and how to get a connection to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlencode

from msgspec import Struct
from redis.backoff import NoBackoff
from redis.connection import Connection, UnixDomainSocketConnection, parse_url
from redis.retry import Retry

from stayer.core.errors import BadConfig, BadInput
from stayer.core.units import duration

DEFAULT_PREFIX = "stayer"
CONNECTING = 5.0
ANSWERING = 10.0
"""How long a server may take to be reached, and to answer, in seconds."""
CONFIRMING = 5.0
"""How long replicas may take to confirm a change, in seconds, where that is asked for."""
_PREFIX = re.compile(r"[A-Za-z0-9_.-]+")
_HOSTS = re.compile(r"((\[[^]]*\]|[^:,]*)(:\d+)?(,|$))*")
_SECRET = ("password", "sentinel_password")


class Address(Struct, frozen=True):
    """A server that can be connected to."""

    url: str
    """With any password left out."""
    prefix: str
    database: int
    open: Callable[[], Any]
    """A connection of redis-py that is open. Another server may answer at the next call."""
    moves: bool = False
    """Another server may take over: then this address leads there."""
    replicas: int = 0
    """How many have to confirm what must not get lost."""
    confirming: float = CONFIRMING
    """How long they may take."""
    user: str | None = None
    """Who has rights of his own there."""


class Options(Struct):
    """What the query of a URL says, and what of it is left for redis-py."""

    prefix: str
    replicas: int
    confirming: float
    left: dict[str, str]


def parse(url: str) -> Address:
    """`redis://[[user]:password@]host[:port][/database][?prefix=…]`, `rediss://`, `unix://path`."""
    options = read_options(url)
    parts = split(url)
    if parts.scheme != "unix" and not parts.path.strip("/").isdecimal() and parts.path.strip("/"):
        raise bad(url, f"a database has a number: write {parts.scheme}://host:6379/0")
    plain = f"{url.partition('?')[0]}?{urlencode(options.left)}"
    connection_class, arguments = arguments_of(url, plain, options)

    def open_connection() -> Any:
        connection = connection_class(**arguments)
        connection.connect()
        return connection

    return Address(
        url=without_secrets(url),
        prefix=options.prefix,
        database=int(arguments.get("db") or 0),
        open=open_connection,
        replicas=options.replicas,
        confirming=options.confirming,
        user=arguments.get("username"),
    )


def read_options(url: str) -> Options:
    """The options that are Stayer's own, checked."""
    _check_login(url)
    given = dict(parse_qsl(split(url).query, keep_blank_values=True))
    prefix = given.pop("prefix", DEFAULT_PREFIX)
    if not _PREFIX.fullmatch(prefix):
        raise bad(url, f"the prefix {prefix!r} may have letters, digits, and -_. only")
    wait = given.pop("wait", "0")
    if not wait.isdecimal():
        raise bad(url, f"wait={wait} should be how many replicas have to confirm, such as wait=1")
    if "wait_timeout" in given and wait == "0":
        raise bad(url, "wait_timeout needs wait: how many replicas have to confirm, such as wait=1")
    try:
        confirming = duration(given.pop("wait_timeout", CONFIRMING))
    except BadInput as error:
        raise bad(url, f"wait_timeout: {error}") from error
    if confirming == 0:
        raise bad(url, "wait_timeout should be more than 0: how long replicas may take, as in 2s")
    return Options(prefix, int(wait), confirming, given)


def arguments_of(url: str, plain: str, options: Options) -> tuple[Any, dict[str, Any]]:
    """redis-py's reading of the URL, but for what is ours."""
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
            "decode_responses": False,
        }
        if connection_class is UnixDomainSocketConnection:
            if not given.get("path"):
                raise bad(url, "write unix:///path/of/the/socket")
        else:
            arguments.setdefault("socket_keepalive", True)
        if options.replicas and options.confirming >= (arguments["socket_timeout"] or ANSWERING):
            raise bad(url, "wait_timeout should be less than socket_timeout: raise that one too")
        connection_class(**arguments)  # says if one of them is unknown
    except TypeError as error:
        unknown = re.search("unexpected keyword argument '(.*)'", str(error))
        raise bad(url, f"no option is called {unknown[1]!r}" if unknown else str(error)) from error
    except ValueError as error:
        raise bad(url, str(error)) from error
    return connection_class, arguments


def hosts_of(url: str, text: str, port: int, form: str) -> list[tuple[str, int]]:
    """`host:port,host`: the hosts, with the usual port where none is given."""
    found = []
    for each in text.split(","):
        host, colon, given = each.rpartition(":")
        if not colon or given.endswith("]"):
            host, given = each, str(port)
        if not host or not given.isdecimal():
            raise bad(url, f"{each!r} is no host: write {form}")
        found.append((host.strip("[]"), int(given)))
    return found


def split(url: str) -> SplitResult:
    """As urlsplit does, but with any number of hosts: some versions of Python take brackets only
    around a single one.
    """
    scheme, _, rest = url.partition("#")[0].partition("://")
    place, _, query = rest.partition("?")
    hosts, slash, path = place.partition("/")
    return SplitResult(scheme, hosts, slash + path, query, "")


def _check_login(url: str) -> None:
    if (ends := _what_cuts_the_login(url)) is not None:
        code = f"%{ord(ends):02X}"
        raise bad(url, f"before the @ of a URL, {ends} is written {code}, also in a password")


def _what_cuts_the_login(url: str) -> str | None:
    """What a user or password has that ends the part of a URL that they are in."""
    scheme, _, rest = url.partition("://")
    end = re.search("[/?#]", rest)
    if scheme == "unix" or end is None or "@" in rest[: end.start()] or "@" not in rest:
        return None
    is_in_query = "@" not in rest.partition("?")[0] and "#" not in rest
    return None if is_in_query and _HOSTS.fullmatch(rest[: end.start()]) else end[0]


def bad(url: str, why: str) -> BadConfig:
    """What is wrong with a URL."""
    return BadConfig(f"store {without_secrets(url)}: {why}")


def without_secrets(url: str) -> str:
    """The URL without its passwords."""
    if _what_cuts_the_login(url) is not None:
        return f"{url.partition(':')[0]}://…@{url.rpartition('@')[2]}"
    parts = split(url)
    options = [(name, value) for name, value in parse_qsl(parts.query) if name not in _SECRET]
    query = urlencode(options, safe="/:")
    netloc = parts.netloc
    if "@" in netloc:
        user, _, host = netloc.rpartition("@")
        name = user.partition(":")[0]
        netloc = f"{name}@{host}" if name else host
    path = f"//{netloc}{parts.path}"
    return f"{parts.scheme}:{path}{f'?{query}' if query else ''}"
