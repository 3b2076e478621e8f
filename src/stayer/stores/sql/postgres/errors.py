"""A PostgreSQL server's errors in our words, with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from stayer.core.errors import (
    UNCHANGED,
    BadInput,
    Refused,
    StoreError,
    StoreMoved,
    StoreUnreachable,
    StoreUnusable,
)
from stayer.stores.sql.joined import ROLL_BACK
from stayer.stores.sql.sealing import PREFIX
from stayer.stores.sql.submit import IdTaken

_AGAIN = frozenset(("40001", "40P01"))
"""Two transactions were in each other's way, and the server has ended this one."""
_LOST = ("08", "57P0")
"""The connection is gone, or the server goes down or comes up: classes and codes."""


class Again(StoreUnreachable):
    """Nothing was done, because of others: to be tried again."""


class Gone(StoreUnreachable):
    """The connection was cut before anything was committed: to be tried again on another."""


@contextmanager
def translated_within(url: str) -> Iterator[None]:
    """Translate errors inside a transaction of the caller's, who alone can try it again."""
    try:
        with translated(url):
            yield
    except Again as error:
        raise Refused(f"{url}: {ROLL_BACK} ({error.__cause__})") from error.__cause__


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Raise the driver's errors as ours."""
    try:
        yield
    except (psycopg.Error, UnicodeEncodeError) as error:
        raise translation(url, error) from error


def is_lost(error: BaseException) -> bool:
    """Whether the connection can't be used any more."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_LOST)


def translation(url: str, error: Exception) -> StoreError | BadInput | IdTaken:
    """What an error of the driver means."""
    if isinstance(error, psycopg.errors.UniqueViolation):
        constraint = error.diag.constraint_name or ""
        if constraint.endswith("tasks_id_key"):
            return IdTaken()
    if getattr(error, "sqlstate", None) == "STY02":
        return IdTaken()
    said = " ".join(str(error).split()).rstrip(".")
    code = getattr(error, "sqlstate", None) or ""
    if code == "P0001" and said.startswith(PREFIX):
        # What follows tells where in our trigger it was raised.
        return StoreMoved(f"{url}: {said.partition(' CONTEXT: ')[0].removeprefix(PREFIX)}")
    if code in _AGAIN:
        return Again(f"{url}: others were in the way, again and again ({said}): try again")
    if isinstance(error, UnicodeEncodeError | psycopg.DataError | psycopg.IntegrityError):
        return BadInput(f"{url} can't keep this value: {said}")
    if not code and isinstance(error, psycopg.OperationalError):
        return _not_connected(url, said)
    match code:
        case "25006":
            return StoreUnusable(
                f"{url} is read-only{UNCHANGED}. Is it a standby? Then give the URL of the "
                "primary, or several hosts and target_session_attrs=read-write. Else somebody has "
                "set default_transaction_read_only, for example because its disk is nearly full"
            )
        case "42501":
            return StoreUnusable(
                f"{url} does not let this user do that ({said}): grant it the right to use the "
                "schema and to read and change the tables, or let their owner run `stayer init`"
            )
        case "42P01" | "42703" | "42883" | "3F000":
            return StoreUnusable(
                f"{url} has no Stayer tables, or old ones ({said}): run `stayer init`"
            )
        case "53100":
            return StoreUnusable(f"the disk of {url} is full{UNCHANGED}. Free some space ({said})")
        case "53300":
            return StoreUnreachable(
                f"{url} has no connection left ({said}): raise max_connections, or use a pooler"
            )
        case "55P03":
            return StoreUnreachable(
                f"{url} is used by somebody whose transaction stays open{UNCHANGED} ({said}): try "
                "again later"
            )
        case "57014" | "25P03":
            return StoreUnreachable(f"{url} did not do it in time{UNCHANGED} ({said})")
        case "42P05" | "26000":
            return StoreUnusable(
                f"{url} is reached through a pooler that mixes up prepared statements ({said}): "
                "open the store anew, or upgrade the pooler"
            )
        case _:
            if code.startswith(_LOST) or isinstance(error, psycopg.InterfaceError):
                return StoreUnreachable(f"{url} has hung up ({said})")
            return StoreUnusable(f"{url}: {said}")


def _not_connected(url: str, said: str) -> StoreError:
    """A connection could not be opened, or was lost: all that the driver has is words."""
    if "password" in said or "authentication" in said or "pg_hba.conf" in said:
        return StoreUnusable(
            f"{url} does not let this user in ({said}): fix the user and password in the URL"
        )
    if "does not exist" in said:
        return StoreUnusable(
            f"{url}: {said}. Make it (createdb, createuser), or fix the name in the URL"
        )
    if "too many" in said or "remaining connection slots" in said:
        return StoreUnreachable(
            f"{url} has no connection left ({said}): raise max_connections, or use a pooler"
        )
    if "invalid" in said and ("option" in said or "value" in said or "parameter" in said):
        return StoreUnusable(f"{url}: {said}. Fix the URL")
    reason = said.partition("Is the server running")[0].rstrip()  # libpq may ask this itself
    return StoreUnreachable(f"{url} can't be reached: {reason}. Is the server running?")
