"""A Redis server's errors in our words, with what to do."""

from __future__ import annotations

import re
from types import TracebackType

from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    DataError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

from stayer.core.errors import UNCHANGED, BadInput, StoreError, StoreUnreachable, StoreUnusable

_IN_SCRIPT = re.compile(
    r"Error running script .*?@user_script: \d+: (?P<message>-?(?P<word>[A-Z]+) ?.*)"
)
_SCRIPT = re.compile(r",? ?script: [0-9a-f]{40}, on @?user_script:\d+")
"""What servers add to an error of a script, of which nobody learns anything."""
_REFUSALS: dict[str, type[ResponseError]] = {"OOM": OutOfMemoryError, "READONLY": ReadOnlyError}
_HUNG_UP = ("closed by server", "reset by peer", "[SSL", "EOF occurred", "certificate required")


class Moved(StoreUnusable):
    """Another node of a cluster has what was asked for."""


def plain(error: ResponseError) -> ResponseError:
    """What a server refuses within a script, as it refuses it elsewhere: before 7.0 its words are
    hidden in others.
    """
    found = _IN_SCRIPT.match(str(error))
    if found is None:
        return error
    return _REFUSALS.get(found["word"], ResponseError)(found["message"].removeprefix("-"))


def moved_error(url: str, error: RedisError) -> Moved:
    """It was asked of a node of a cluster."""
    return Moved(f"{node_of_cluster(url)} ({error})")


def node_of_cluster(url: str) -> StoreUnusable:
    """It was opened as a server of its own."""
    scheme = url.partition(":")[0].partition("+")[0]
    return StoreUnusable(
        f"{url} is a node of a cluster: write {scheme}+cluster://host:port, with no database"
    )


def being_replaced(url: str, error: RedisError) -> StoreUnreachable:
    """It was the primary until a moment ago."""
    return StoreUnreachable(f"{url} is being replaced by another server: try again ({error})")


class translated:  # noqa: N801  # used like a function
    """The server's errors as ours, with what to do. Nothing was asked of it yet while a connection
    is `opening`.
    """

    def __init__(self, url: str, opening: bool = False) -> None:
        self._url = url
        self._opening = opening

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if self._opening and isinstance(error, ConnectionError | TimeoutError):
            raise _not_opened(self._url, error) from error
        raise_translated(self._url, error)


def raise_translated(url: str, error: BaseException | None, only_reads: bool = False) -> None:
    """Raise, translated, what has been caught; nothing happens if it is none of the server's.
    Where it was to be read only, nobody wonders whether it was done.
    """
    match error:
        case UnicodeEncodeError() | DataError():
            raise BadInput(f"{url} can't keep this value: {error}") from error
        case MovedError():
            raise moved_error(url, error) from error
        case RedisError():
            raise _make_error(_translation(url, error, only_reads), error, only_reads) from error
        case OSError():
            unreachable = StoreUnreachable(f"{url} can't be reached: {error}")
            raise _make_error(unreachable, error, only_reads) from error
        case _:
            return


def _make_error(translation: StoreError, error: Exception, only_reads: bool) -> StoreError:
    """It was asked something, and may have done that if it did not say otherwise."""
    has_answered = isinstance(error, ResponseError | AuthenticationError | BusyLoadingError)
    is_replaced = str(error).startswith(("UNBLOCKED", "WAIT cannot be used with replica"))
    may_be_done = is_replaced or getattr(error, "unsure", False)
    translation.unsure = not only_reads and (may_be_done or not has_answered)
    return translation


def _translation(
    url: str, error: RedisError, only_reads: bool = False
) -> StoreUnreachable | StoreUnusable:
    message = str(error).rstrip(".")
    match error:
        case AuthenticationError() | AuthorizationError() | NoPermissionError():
            return StoreUnusable(
                f"{url} does not let this user in, or not do this ({message}): fix the user and "
                "password in the URL, or the user's rights"
            )
        case BusyLoadingError():
            return StoreUnreachable(f"{url} is still loading its data: try again in a moment")
        case MasterDownError():
            return StoreUnreachable(f"{url} is a replica that has lost its primary: {message}")
        case TimeoutError():
            doubt = "" if only_reads else ": it may have done what was asked, or not"
            return StoreUnreachable(f"{url} did not answer in time ({message}){doubt}")
        case ConnectionError():
            return StoreUnreachable(f"{url} can't be reached: {message}. Is the server running?")
        case OutOfMemoryError():
            return StoreUnusable(
                f"{url} has no memory left{UNCHANGED}. Raise maxmemory, or forget tasks "
                "that have ended, for example with `stayer purge --older 1d`; what waits can be "
                "cancelled first"
            )
        case AskError() | TryAgainError():
            return StoreUnreachable(
                f"{url} is moving this to another node ({message}): try again in a moment"
            )
        case ClusterDownError():
            return StoreUnreachable(f"{url} has nobody for a part of the keys ({message})")
        case ReadOnlyError():
            return StoreUnusable(f"{url} is a read-only replica: give the URL of its primary")
        case _:
            return _by_first_word(url, message)


def _not_opened(url: str, error: RedisError) -> StoreUnreachable | StoreUnusable:
    """A connection could not be opened."""
    message = str(error).rstrip(".")
    if isinstance(error, AuthenticationError | AuthorizationError | BusyLoadingError):
        return _translation(url, error)
    if "CERTIFICATE_VERIFY_FAILED" in message:
        return StoreUnreachable(
            f"{url} has a certificate that is not trusted here ({message}): name the file of who "
            "signed it in the URL, ssl_ca_certs=…, or fix it"
        )
    if isinstance(error, TimeoutError):
        hint = why_not_opened(url, message) or " Is the server running?"
        return StoreUnreachable(
            f"{url} can't be reached: it took too long, and nothing was asked of it ({message})."
            f"{hint}"
        )
    if hint := why_hung_up(url, message):
        return StoreUnreachable(f"{url} can't be reached: {message}.{hint}")
    return _translation(url, error)


def why_not_opened(url: str, message: str) -> str:
    """Say why a connection could not be opened, perhaps for want of an answer in TLS."""
    is_silent = url.startswith("rediss") and "Timeout connecting" in message
    return _perhaps_tls(url) if is_silent else why_hung_up(url, message)


def why_hung_up(url: str, message: str) -> str:
    """What may be wrong if somebody is there, but does not speak as expected; else nothing."""
    if not any(words in message for words in _HUNG_UP):
        return ""
    if "EOF occurred" in message or "certificate required" in message.lower():
        return (
            " Does the server want a certificate of its clients? Then name it and its key in the "
            "URL, ssl_certfile=…&ssl_keyfile=…"
        )
    return _perhaps_tls(url)


def _perhaps_tls(url: str) -> str:
    """What is wrong if one of both sides speaks TLS, and the other does not."""
    scheme = url.partition(":")[0]
    if scheme.startswith("rediss"):
        return f" Does that port speak TLS? If not, write {scheme.replace('rediss', 'redis')}://"
    if scheme.startswith("redis"):
        return f" Does that port speak TLS? Then write {scheme.replace('redis', 'rediss')}://"
    return ""


def _by_first_word(url: str, message: str) -> StoreUnreachable | StoreUnusable:
    if "user executing the script" in message or message.startswith("ACL failure in script"):
        return StoreUnusable(
            f"{url} does not let this user do all that Stayer does ({message}): fix the user's "
            "rights, and do it again"
        )
    if message.startswith("SELECT is not allowed in cluster mode"):
        return node_of_cluster(url)
    if message.startswith("unknown command 'SELECT'"):
        scheme = url.partition(":")[0]
        return StoreUnusable(
            f"{url} has no databases ({message}). Is it a sentinel? Then write "
            f"{scheme}+sentinel://host:port/service"
        )
    match message.split(" ", 1)[0].split(":", 1)[0]:
        case "NOREPLICAS":
            return StoreUnreachable(
                f"{url} has fewer replicas than min-replicas-to-write asks for{UNCHANGED}"
            )
        case "UNBLOCKED" | "WAIT":  # while it waited for replicas, or before it was asked to
            return StoreUnreachable(
                f"{url} is being replaced by another server, which may not have heard of what was "
                f"asked: ask again ({message})"
            )
        case "BUSY":
            return StoreUnreachable(f"{url} is busy with a script of somebody: try again later")
        case "MISCONF":
            return StoreUnusable(
                f"{url} can't write to its disk, and therefore changes nothing: {message}"
            )
        case "WRONGTYPE":
            return StoreUnusable(
                f"{url}: a key below the prefix holds something of another kind (WRONGTYPE): "
                "`stayer doctor` names it"
            )
        case _:
            return StoreUnusable(f"{url}: {_SCRIPT.sub('', message)}")
