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

from stayer.core.errors import BadInput, StoreUnreachable, StoreUnusable

_IN_SCRIPT = re.compile(
    r"Error running script .*?@user_script: \d+: (?P<said>-?(?P<word>[A-Z]+) ?.*)"
)
_REFUSALS: dict[str, type[ResponseError]] = {"OOM": OutOfMemoryError, "READONLY": ReadOnlyError}


class Moved(StoreUnusable):
    """Another node of a cluster has what was asked for."""


def plain(error: ResponseError) -> ResponseError:
    """What a server refuses within a script, as it refuses it elsewhere: before 7.0 its words are
    hidden in others.
    """
    found = _IN_SCRIPT.match(str(error))
    if found is None:
        return error
    return _REFUSALS.get(found["word"], ResponseError)(found["said"].removeprefix("-"))


def moved(url: str, error: RedisError) -> Moved:
    """It was asked of a node of a cluster."""
    return Moved(f"{url} is a node of a cluster ({error}): write redis+cluster://host:port")


def being_replaced(url: str, error: RedisError) -> StoreUnreachable:
    """It was the primary until a moment ago."""
    return StoreUnreachable(f"{url} is being replaced by another server: try again ({error})")


class translated:  # noqa: N801  # used like a function
    """The server's errors as ours, with what to do."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        raise_translated(self._url, error)


def raise_translated(url: str, error: BaseException | None) -> None:
    """The same for what has been caught; nothing happens if it is none of the server's."""
    match error:
        case UnicodeEncodeError() | DataError():
            raise BadInput(f"{url} can't keep this value: {error}") from error
        case MovedError():
            raise moved(url, error) from error
        case RedisError():
            raise _translation(url, error) from error
        case OSError():
            raise StoreUnreachable(f"{url} can't be reached: {error}") from error
        case _:
            return


def _translation(url: str, error: RedisError) -> StoreUnreachable | StoreUnusable:
    said = str(error).rstrip(".")
    match error:
        case AuthenticationError() | AuthorizationError() | NoPermissionError():
            return StoreUnusable(
                f"{url} does not let this user in, or not do this ({said}): mend the user and "
                "password in the URL, or the user's rights"
            )
        case BusyLoadingError():
            return StoreUnreachable(f"{url} is still loading its data: try again in a moment")
        case MasterDownError():
            return StoreUnreachable(f"{url} is a replica that has lost its primary: {said}")
        case TimeoutError():
            return StoreUnreachable(
                f"{url} did not answer in time ({said}): it may have done what was asked, or not"
            )
        case ConnectionError() if "CERTIFICATE_VERIFY_FAILED" in said:
            return StoreUnreachable(
                f"{url} has a certificate that is not trusted here ({said}): name the file of who "
                "signed it in the URL, ssl_ca_certs=…, or mend it"
            )
        case ConnectionError():
            return StoreUnreachable(f"{url} can't be reached: {said}. Is the server running?")
        case OutOfMemoryError():
            return StoreUnusable(
                f"{url} has no memory left: nothing was changed. Raise maxmemory, or forget tasks "
                "that have ended, for example with `stayer purge --older 1d`; what waits can be "
                "cancelled first"
            )
        case AskError() | TryAgainError():
            return StoreUnreachable(
                f"{url} is moving this to another node ({said}): try again in a moment"
            )
        case ClusterDownError():
            return StoreUnreachable(f"{url} has nobody for a part of the keys ({said})")
        case ReadOnlyError():
            return StoreUnusable(f"{url} is a read-only replica: give the URL of its primary")
        case _:
            return _by_first_word(url, said)


def _by_first_word(url: str, said: str) -> StoreUnreachable | StoreUnusable:
    if "user executing the script" in said or said.startswith("ACL failure in script"):
        return StoreUnusable(
            f"{url} does not let this user do all that Stayer does ({said}): mend the user's "
            "rights, and do it again"
        )
    match said.split(" ", 1)[0].split(":", 1)[0]:
        case "NOREPLICAS":
            return StoreUnreachable(
                f"{url} has fewer replicas than min-replicas-to-write asks for: nothing was changed"
            )
        case "BUSY":
            return StoreUnreachable(f"{url} is busy with a script of somebody: try again later")
        case "MISCONF":
            return StoreUnusable(
                f"{url} can't write to its disk, and therefore changes nothing: {said}"
            )
        case _:
            return StoreUnusable(f"{url}: {said}")
