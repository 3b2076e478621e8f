"""Finding the primary by asking sentinels, each time that a connection is opened.

Nothing is remembered of where it was: whoever loses a connection asks again, and gets to the server
that took over. A server that says that it is a replica is not taken, for sentinels may be the last
to hear of a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode

from redis.exceptions import (
    AuthenticationError,
    ConnectionError,
    NoPermissionError,
    RedisError,
    ResponseError,
)

from stayer.core.errors import StoreUnreachable, StoreUnusable
from stayer.core.insight.health import Finding
from stayer.stores.redis.connection.url import (
    Address,
    arguments_of,
    bad_url,
    hosts_of,
    login_and_hosts,
    read_options,
    split,
    without_secrets,
)
from stayer.stores.redis.errors import why_not_opened

PORT = 26379
_FORM = "redis+sentinel://host:26379,host:26379/service"
_ASK_TIMEOUT_S = 1.0
"""How long one of several sentinels may take to be reached and to answer, in seconds."""

Opens = Callable[..., Any]
"""Opens a connection to a host and port."""


def parse(url: str) -> Address:
    """`redis+sentinel://[[user]:password@]host[:port][,host…]/service[/database][?…]`: user and
    password are for the servers; `?sentinel_username=…&sentinel_password=…` for the sentinels.
    """
    options = read_options(url)
    parts = split(url)
    login, hosts = login_and_hosts(parts)
    service, _, database = parts.path.strip("/").partition("/")
    if not service or (database and not database.isdecimal()):
        raise bad_url(
            url, f"it has to name the service that sentinels know the primary by: write {_FORM}"
        )
    sentinel_user = options.left.pop("sentinel_username", None)
    sentinel_password = options.left.pop("sentinel_password", None)
    scheme = parts.scheme.partition("+")[0]
    plain = f"{scheme}://{login}primary/{database or 0}?{urlencode(options.left)}"
    connection_class, arguments = arguments_of(url, plain, options)
    to_sentinel = {
        **arguments,
        "db": 0,
        "username": sentinel_user,
        "password": sentinel_password,
        "socket_connect_timeout": min(
            _ASK_TIMEOUT_S, arguments["socket_connect_timeout"] or _ASK_TIMEOUT_S
        ),
        "socket_timeout": min(_ASK_TIMEOUT_S, arguments["socket_timeout"] or _ASK_TIMEOUT_S),
    }
    sentinels = Sentinels(
        without_secrets(url),
        unquote(service),
        hosts_of(url, hosts, PORT, _FORM),
        partial(_open_connection, connection_class, to_sentinel),
    )
    return Address(
        url=without_secrets(url),
        prefix=options.prefix,
        database=int(arguments.get("db") or 0),
        open=lambda: sentinels.open_primary(partial(_open_connection, connection_class, arguments)),
        moves=True,
        replicas=options.replicas,
        confirming=options.confirming,
        user=arguments.get("username"),
        check=sentinels.check,
    )


def _open_connection(
    connection_class: Callable[..., Any], arguments: dict[str, Any], host: str, port: int
) -> Any:
    connection = connection_class(**{**arguments, "host": host, "port": port})
    connection.connect()
    return connection


class _View(NamedTuple):
    """What a sentinel knows of its service."""

    primary: str
    replicas: int
    others: int
    quorum: int
    trouble: str
    """Why they could not agree on another primary, if so."""


class Sentinels:
    """Those that watch over one primary and its replicas."""

    def __init__(
        self, url: str, service: str, hosts: Sequence[tuple[str, int]], opens: Opens
    ) -> None:
        self._url = url
        self._service = service
        self._hosts = list(hosts)
        self._open = opens

    def open_primary(self, opens: Opens) -> Any:
        """Return a connection to the primary; StoreUnreachable while there is none, StoreUnusable
        if none of them will ever tell.
        """
        complaints, never = [], 0
        for host, port in list(self._hosts):
            try:
                primary = self._ask(host, port)
            except _NeverKnows as error:
                never += 1
                complaints.append(f"{host}:{port} {error}")
                continue
            except (RedisError, OSError) as error:
                complaints.append(f"sentinel {host}:{port}: {error}")
                continue
            try:
                connection = _if_primary(opens(*primary))
                self._prefer(host, port)
                return connection
            except (AuthenticationError, NoPermissionError) as error:
                raise self._not_let_in(primary, error) from error
            except (RedisError, OSError) as error:
                complaints.append(f"{_format(primary)}, the primary for {host}:{port}: {error}")
        if never == len(complaints):
            raise StoreUnusable(f"{self._url} leads to no primary: {'; '.join(complaints)}")
        hint = why_not_opened(self._url, "; ".join(complaints))
        raise StoreUnreachable(
            f"{self._url} has no primary that can be reached ({'; '.join(complaints)}): after a "
            f"failure another server takes over in a moment.{hint}"
        )

    def check(self) -> list[Finding]:
        """Return who answers, and whether they could put another server in the primary's place."""
        views, silent = {}, []
        for host in sorted(self._hosts):
            try:
                views[host] = self._view(*host)
            except (RedisError, OSError, _NeverKnows) as error:
                silent.append(f"{_format(host)}: {error}")
        if not views:
            todo = "start them, or fix the URL"
            return [Finding("sentinels", "fail", f"none answers ({'; '.join(silent)})", todo)]
        view = next(iter(views.values()))
        message = (
            f"{len(views)} of {len(self._hosts)} answer, the primary is {view.primary}; known are "
            f"{_plural(view.replicas, 'replica')} and {_plural(view.others, 'other sentinel')}, "
            f"quorum {view.quorum}"
        )
        found = Finding("sentinels", "ok", message)
        if silent:
            todo = "start what does not answer, or leave it out of the URL"
            found = Finding("sentinels", "warn", f"{message} ({'; '.join(silent)})", todo)
        return [found, *_troubles(list(views.values()))]

    def _view(self, host: str, port: int) -> _View:
        with self._asking(host, port) as connection:
            connection.send_command("SENTINEL", "MASTER", self._service)
            answer = connection.read_response()
            info = dict(zip(answer[::2], answer[1::2], strict=True))
            trouble = ""
            try:
                connection.send_command("SENTINEL", "CKQUORUM", self._service)
                connection.read_response()
            except ResponseError as error:
                trouble = str(error)
        return _View(
            _format((info[b"ip"].decode(), int(info[b"port"]))),
            int(info[b"num-slaves"]),
            int(info[b"num-other-sentinels"]),
            int(info[b"quorum"]),
            trouble,
        )

    def _not_let_in(self, primary: tuple[str, int], error: RedisError) -> StoreUnusable:
        """Make the error for a primary that does not let us in: the sentinels are asked with a
        password of their own.
        """
        message = str(error).rstrip(".")
        return StoreUnusable(
            f"{self._url}: the primary {_format(primary)} does not let this user in ({message}): "
            "fix the user and password before the @ in the URL, which are those of the servers"
        )

    def _ask(self, host: str, port: int) -> tuple[str, int]:
        """Return where this sentinel believes the primary to be."""
        with self._asking(host, port) as connection:
            connection.send_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
            answer = connection.read_response()
            if answer is None:
                raise _NeverKnows(f"knows no primary {self._service!r}{_list_services(connection)}")
        return answer[0].decode(), int(answer[1])

    @contextmanager
    def _asking(self, host: str, port: int) -> Iterator[Any]:
        """Return a connection to a sentinel; _NeverKnows if it is none, or does not let us in."""
        connection = None
        try:
            connection = self._open(host, port)
            yield connection
        except (AuthenticationError, NoPermissionError) as error:
            raise _NeverKnows(
                f"is a sentinel that does not let us in ({str(error).rstrip('.')}): fix "
                "sentinel_password, and sentinel_username, in the URL"
            ) from error
        except ResponseError as error:
            if "unknown command" not in str(error):
                raise
            raise _NeverKnows("is no sentinel: they usually have port 26379") from error
        finally:
            if connection is not None:
                connection.disconnect()

    def _prefer(self, host: str, port: int) -> None:
        """Ask this one first from now on. Threads may do so at once: all get a whole list."""
        self._hosts = sorted(self._hosts, key=lambda each: each != (host, port))


def _troubles(views: Sequence[_View]) -> Iterator[Finding]:
    """Yield what keeps them from putting another server in the place of the primary."""
    primaries = sorted({view.primary for view in views})
    if len(primaries) > 1:
        message = f"they don't agree on who is the primary: {', '.join(primaries)}"
        yield Finding("sentinels", "warn", message, "look again in a moment; else fix theirs")
    if not any(view.replicas for view in views):
        message = "they know of no replica: nobody can take the place of the primary"
        yield Finding("sentinels", "warn", message, "add a replica")
    for trouble in sorted({view.trouble for view in views if view.trouble}):
        message = f"they can't agree on another primary: {trouble}"
        yield Finding("sentinels", "warn", message, "start as many as the quorum and most of them")


def _plural(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _format(host: tuple[str, int]) -> str:
    return f"{host[0]}:{host[1]}"


class _NeverKnows(Exception):
    """To ask again is of no use."""


def _list_services(connection: Any) -> str:
    """Return which services a sentinel watches over, in words."""
    try:
        connection.send_command("SENTINEL", "MASTERS")
        found = [
            dict(zip(each[::2], each[1::2], strict=True)) for each in connection.read_response()
        ]
    except ResponseError:
        return ""
    names = sorted(each[b"name"].decode() for each in found)
    return f": known are {', '.join(names)}" if names else ": it knows none"


def _if_primary(connection: Any) -> Any:
    """Return the connection, if it leads to a primary. Where ROLE may not be asked, it
    is believed.
    """
    try:
        with suppress(ResponseError):
            connection.send_command("ROLE")
            role = connection.read_response()[0].decode()
            if role != "master":
                raise ConnectionError("another server is about to take over")
        return connection
    except BaseException:
        connection.disconnect()
        raise
