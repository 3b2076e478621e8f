"""SQLite's errors in our words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from stayer.core.errors import BadInput, StoreMoved, StoreUnreachable, StoreUnusable
from stayer.stores.sql.sealing import PREFIX
from stayer.stores.sql.sqlite.lock import LockTimeout


class Unreadable(StoreUnusable):
    """A cell of a table is not what it should be."""


@contextmanager
def translated(path: str, busy: float) -> Iterator[None]:
    """Raise SQLite's errors as ours, with what to do; a writer has waited `busy` seconds."""
    try:
        yield
    except LockTimeout as error:
        who = " and ".join(f"process {pid}" for pid in error.holders) or "another process"
        raise StoreUnreachable(
            f"{path} has been locked by {who} for over {busy:.0f} s: is it stopped or stuck? "
            "Continue or end it"
        ) from error
    except (UnicodeEncodeError, OverflowError) as error:
        raise BadInput(f"{path} can't keep this value: {error}") from error
    except sqlite3.IntegrityError as error:
        if (sealed := str(error).removeprefix(PREFIX)).startswith("this store "):
            raise StoreMoved(f"{path}: {sealed}") from error
        raise BadInput(f"{path} refuses this: {error}") from error
    except sqlite3.Error as error:
        raise _translation(path, error, busy) from error


def _translation(path: str, error: sqlite3.Error, busy: float) -> StoreUnreachable | StoreUnusable:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreUnreachable(
                f"{path} has been locked by another process for over {busy:.0f} s: end it, or wait"
            )
        case sqlite3.SQLITE_FULL:
            return StoreUnusable(
                f"the disk of {path} is full: nothing was changed. Free some space"
            )
        case sqlite3.SQLITE_IOERR:
            return StoreUnusable(
                f"{path} can't be read or written ({error}): nothing was changed. Is the disk full "
                "or failing?"
            )
        case sqlite3.SQLITE_READONLY:
            return StoreUnusable(
                f"{path} is read-only for this user: nothing was changed. Fix the permissions of "
                "the file and its folder, or choose another store"
            )
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return StoreUnusable(
                f"{path} is not a database, or is damaged ({error}): choose another store, or "
                "restore it from a backup"
            )
        case sqlite3.SQLITE_CANTOPEN:
            return StoreUnusable(f"{path} can't be opened: {_why_not(path)}")
        case _:
            pass
    if "Could not decode to UTF-8" in str(error) or "malformed JSON" in str(error):
        return Unreadable(
            f"{path} has something in it that can't be read ({error}): `stayer doctor` says what"
        )
    if "no such table: " in str(error) or "no such column" in str(error):
        return StoreUnusable(f"{path} has no Stayer tables, or old ones: run `stayer init`")
    return StoreUnusable(f"{path}: {error}")


def _why_not(path: str) -> str:
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        return f"there is no folder {folder}. Make it, or choose another store"
    if os.path.isdir(path):
        return "it is a folder. Give the path of a file"
    if not os.access(folder, os.W_OK):
        return f"this user may not write in {folder}, as SQLite must. Fix its permissions"
    return "this user may not open it. Fix its permissions"
