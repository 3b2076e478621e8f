"""What a URL says: which server, with which prefix, and how to get a connection to it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode

from msgspec import Struct
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection, parse_url
from redis.exceptions import RedisError
from redis.retry import Retry

from stayer.config.trust import distrust
from stayer.core.errors import BadConfig, BadInput
from stayer.core.insight.health import Finding
from stayer.core.units import duration

DEFAULT_PREFIX = "stayer"
CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 10.0
"""How long a server may take to be reached, and to answer, in seconds."""
CONFIRM_TIMEOUT_S = 5.0
"""How long replicas may take to confirm a change, in seconds, where that is asked for."""
_PREFIX = re.compile(r"[A-Za-z0-9_.-]+")
_HOSTS = re.compile(r"((\[[^]]*\]|[^:,]*)(:\d+)?(,|$))*")
_PORTS = range(1, 65536)
_SECRET = ("password", "sentinel_password", "ssl_password")
_LONGEST_PASSWORD = 10_000
_MAY_HAVE_AT = (
    *_SECRET,
    "password_file",
    "sentinel_password_file",
    "username",
    "sentinel_username",
    "client_name",
)


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
    confirming: float = CONFIRM_TIMEOUT_S
    """How long they may take."""
    user: str | None = None
    """Who has rights of his own there."""
    is_part: bool = False
    """One node of a cluster: what is asked of it may be one step of several."""
    check: Callable[[], list[Finding]] = list
    """What `stayer doctor` is to know of those who lead there."""


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
    login, hosts = login_and_hosts(parts)
    if parts.scheme != "unix":
        if not parts.path.strip("/").isdecimal() and parts.path.strip("/"):
            raise bad_url(url, f"a database has a number: write {parts.scheme}://host:6379/0")
        _check_host(url, hosts, parts.scheme)
    elif hosts:
        raise bad_url(url, f"write a path with three slashes: unix:///{hosts}{parts.path}")
    plain = f"{parts.scheme}://{login}{hosts}{parts.path}?{urlencode(options.left)}"
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
    if not _has_two_slashes(url):
        raise bad_url(url, "write two slashes behind the colon, such as redis://host:6379/0")
    if _is_cut(url):
        raise bad_url(url, "write @ / ? # in a user or password as %40 %2F %3F %23")
    given = dict(parse_qsl(split(url).query, keep_blank_values=True))
    for name in ("password", "sentinel_password"):
        if (file := given.pop(f"{name}_file", None)) is not None:
            if name in given or (
                name == "password" and ":" in split(url).netloc.rpartition("@")[0]
            ):
                raise bad_url(url, f"give either a {name} or a {name}_file, not both")
            given[name] = _password_in(url, file)
    prefix = given.pop("prefix", DEFAULT_PREFIX)
    if not _PREFIX.fullmatch(prefix):
        raise bad_url(url, f"the prefix {prefix!r} may have letters, digits, and -_. only")
    wait = given.pop("wait", "0")
    if not wait.isdecimal():
        raise bad_url(
            url, f"wait={wait} should be how many replicas have to confirm, such as wait=1"
        )
    if "wait_timeout" in given and wait == "0":
        raise bad_url(
            url, "wait_timeout needs wait: how many replicas have to confirm, such as wait=1"
        )
    try:
        confirming = duration(given.pop("wait_timeout", CONFIRM_TIMEOUT_S))
    except BadInput as error:
        raise bad_url(url, f"wait_timeout: {error}") from error
    if confirming == 0:
        raise bad_url(
            url, "wait_timeout should be more than 0: how long replicas may take, as in 2s"
        )
    return Options(prefix, int(wait), confirming, given)


def _password_in(url: str, file: str) -> str:
    """What a file says, but for the end of its line: so a password is in no list of processes."""
    place = os.path.expanduser(file)
    if not os.path.isabs(place):
        raise bad_url(url, f"password_file={file}: give the whole path, from / or ~ on")
    try:
        with open(place, encoding="utf-8") as opened:
            why_not = distrust(os.fstat(opened.fileno()))
            password = opened.read(_LONGEST_PASSWORD + 1).rstrip("\r\n")
    except OSError as error:
        raise bad_url(url, f"{place} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise bad_url(url, f"{place} is not UTF-8") from None
    if why_not is not None:
        raise bad_url(url, f"{place} is not read: {why_not}. Make it yours, and chmod 600 it")
    if not password or len(password) > _LONGEST_PASSWORD or "\n" in password:
        raise bad_url(url, f"{place} should have one line, the password")
    return password


def arguments_of(url: str, plain: str, options: Options) -> tuple[Any, dict[str, Any]]:
    """redis-py's reading of the URL, but for what is ours."""
    try:
        given = dict(parse_url(plain))
        connection_class = given.pop("connection_class", Connection)
        arguments: dict[str, Any] = {
            "socket_connect_timeout": CONNECT_TIMEOUT_S,
            "socket_timeout": ANSWER_TIMEOUT_S,
            **given,
            # Trying again is for who called: he knows whether it may be done twice.
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            "driver_info": None,
            "decode_responses": False,
        }
        if connection_class is SSLConnection:
            connection_class = _with_tls(url, given)
        if connection_class is UnixDomainSocketConnection:
            if not given.get("path"):
                raise bad_url(url, "write unix:///path/of/the/socket")
        else:
            arguments.setdefault("socket_keepalive", True)
        if options.replicas and options.confirming >= (
            arguments["socket_timeout"] or ANSWER_TIMEOUT_S
        ):
            raise bad_url(
                url, "wait_timeout should be less than socket_timeout: raise that one too"
            )
        connection_class(**arguments)  # says if one of them is unknown
    except TypeError as error:
        unknown = re.search("unexpected keyword argument '(.*)'", str(error))
        raise bad_url(url, _no_option(unknown[1]) if unknown else str(error)) from error
    except (ValueError, RedisError) as error:
        raise bad_url(url, str(error)) from error
    return connection_class, arguments


def _with_tls(url: str, given: dict[str, Any]) -> Any:
    """The class of a connection with TLS, once its files have been looked at."""
    from stayer.stores.redis.connection import tls  # rarely needed

    if problem := tls.what_is_wrong(given):
        raise bad_url(url, problem)
    return tls.QuickSSLConnection


def _no_option(name: str) -> str:
    hint = ": for TLS write rediss, not redis" if name.startswith("ssl_") else ""
    return f"no option is called {name!r}{hint}"


def hosts_of(url: str, text: str, port: int, form: str) -> list[tuple[str, int]]:
    """`host:port,host`: the hosts, with the usual port where none is given."""
    found = []
    for each in text.split(","):
        host, colon, given = each.rpartition(":")
        if not colon or given.endswith("]"):
            host, given = each, str(port)
        if not host or not given.isdecimal():
            raise bad_url(url, f"{each!r} is no host: write {form}")
        if int(given) not in _PORTS:
            raise bad_url(url, f"there is no port {given}: they go up to {_PORTS[-1]}")
        found.append((host.strip("[]"), int(given)))
    return found


def split(url: str) -> SplitResult:
    """Split as urlsplit does, but with any number of hosts: some versions of Python take
    brackets only around a single one.
    """
    scheme, _, rest = url.partition("#")[0].partition("://")
    place, _, query = rest.partition("?")
    hosts, slash, path = place.partition("/")
    return SplitResult(scheme, hosts, slash + path, query, "")


def login_and_hosts(parts: SplitResult) -> tuple[str, str]:
    """`user:password@` as every reader of URLs takes it, whatever is in it; and what follows."""
    login, at, hosts = parts.netloc.rpartition("@")
    user, colon, password = login.partition(":")
    return f"{_requote(user)}{colon}{_requote(password)}{at}", hosts


def _requote(text: str) -> str:
    return quote(unquote(text), safe="")


def _check_host(url: str, hosts: str, scheme: str) -> None:
    """One server, with or without its name and port."""
    if "," in hosts:
        kind = f"write {scheme}+sentinel://host,host/service, or {scheme}+cluster://host,host"
        raise bad_url(url, f"one server has one host; for several {kind}")
    if hosts and not hosts.startswith(":"):
        hosts_of(url, hosts, 6379, f"{scheme}://host:6379/0")


def _has_two_slashes(url: str) -> bool:
    return url.partition(":")[2].startswith("//")


def _is_cut(url: str) -> bool:
    """Whether a user or password seems to have what ends the part of a URL that they are in. Then
    a part of the password would be taken for something that may be shown.
    """
    scheme, _, rest = url.partition("://")
    place = re.split("[/?#]", rest, maxsplit=1)[0]
    after = rest[len(place) :]
    if "@" not in after:
        return False
    hosts = place.rpartition("@")[2]
    if scheme == "unix":
        return bool(hosts)
    if "#" in after or "@" in after.partition("?")[0] or not _HOSTS.fullmatch(hosts):
        return True
    options = (option.partition("=") for option in after.partition("?")[2].split("&"))
    return any("@" in name + value and not _may_have_at(name) for name, _, value in options)


def _may_have_at(option: str) -> bool:
    return option in _MAY_HAVE_AT or option.startswith("ssl_")


def bad_url(url: str, why: str) -> BadConfig:
    """What is wrong with a URL."""
    return BadConfig(f"store {without_secrets(url)}: {why}")


def without_secrets(url: str) -> str:
    """The URL without its passwords."""
    if not _has_two_slashes(url) or _is_cut(url):
        return f"{url.partition(':')[0]}://…"
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
