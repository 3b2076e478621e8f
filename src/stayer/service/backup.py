"""Backups: a copy of a store in one file, and a store made of such a copy.

A copy is a SQLite file, made while everybody works, as the store was at one moment. It bears a
seal, so nobody works on it by mistake. To restore is to move a copy of it into an empty store.

A restored store knows nothing of what happened since: a task that waited then may run now, or have
run, under a worker of the old store. So in a store that was restored no worker is known, what was
running is returned to its queue, and all queues are paused, until somebody who knows that no worker
of the old store is left lets them go on.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from urllib.parse import urlsplit

from msgspec import Struct

from stayer.core.errors import BadInput, LeaseLost, Refused, StoreUnusable, UnknownWorker
from stayer.core.model import RUNNING
from stayer.core.move.records import Seal
from stayer.service import move as moving
from stayer.service.control.workers import return_lost_tasks
from stayer.service.move import Moved, Tell
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.sql.sqlite.copies import copy_file, end_log, sealed_prefix

_POSTGRES, _MYSQL, _REDIS = (
    "pg_dump --format=custom",
    "mysqldump --single-transaction --routines",
    "redis-cli --rdb FILE",
)
_OWN_TOOLS = {
    "postgresql": _POSTGRES,
    "postgres": _POSTGRES,
    "mysql": _MYSQL,
    "mariadb": "mariadb-dump --single-transaction --routines",
    "redis": _REDIS,
    "rediss": _REDIS,
    "unix": _REDIS,
}
"""What makes a consistent copy of a database while it is in use."""


class Settled(Struct, frozen=True):
    """What was done to a store that is not what it was."""

    workers: int
    """How many it knew, none of which it knows any more."""
    returned: int
    """How many tasks were running, and wait again."""
    paused: tuple[str, ...]
    """The queues that were paused by this."""


class Saved(Struct, frozen=True):
    """What a backup has in it."""

    tasks: int
    running: int
    bytes: int


def backup(store: Store, file: str, *, replace: bool = False) -> Saved:
    """Write all of a store to a file, as it is at one moment. The file is there when it is whole.
    Raises Refused for a kind of store that has a better way, and names that.
    """
    if os.path.exists(file) and not replace:
        raise BadInput(f"{file} is there already: name another file, or say --replace")
    folder = os.path.dirname(os.path.abspath(file))
    if not os.path.isdir(folder):
        raise BadInput(f"there is no folder {folder}: make it first")
    part = f"{file}.{secrets.token_hex(4)}.part"
    try:
        _copy(store, part)
        saved = _seal(store, part)
        _sync(part)
        os.replace(part, file)
        _sync(folder)
    finally:
        for left in (part, f"{part}-wal", f"{part}-shm", f"{part}-lock"):
            if os.path.exists(left):
                os.remove(left)
    return saved


def _copy(store: Store, file: str) -> None:
    try:
        store.copy_to(file)
    except Refused:
        if (tool := own_tool(store.url)) is None:
            raise
        raise Refused(
            f"{store.url} is backed up with the tools of the database, which do it while it is in "
            f"use: {tool}. `stayer restore --to URL` then readies what you restored with them; "
            "docs/how-to/back-up-and-restore.md has it all"
        ) from None


def own_tool(url: str) -> str | None:
    """Return the command that makes a copy of such a database; None: there is none."""
    return _OWN_TOOLS.get(urlsplit(url).scheme.partition("+")[0])


def _seal(store: Store, file: str) -> Saved:
    """Mark the copy as a backup, and count what is in it."""
    copy = _open(file, _prefix(store.url))
    try:
        mark = Seal(
            move=secrets.token_hex(8), role="backup", other=moving.address(store),
            other_identity=store.identity(), at=store.now(),
        )  # fmt: skip
        copy.put_seal(mark)
        queues = copy.queues()
    finally:
        copy.close()
    end_log(file)
    counts = [info.counts for info in queues]
    return Saved(
        tasks=sum(sum(each.values()) for each in counts),
        running=sum(each.get(state, 0) for each in counts for state in RUNNING),
        bytes=os.path.getsize(file),
    )


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open(file: str, options: str = "") -> Store:
    return open_store(f"sqlite:///{os.path.abspath(file)}{options}")


def _prefix(url: str) -> str:
    """Return the option that names the tables of a store."""
    options = urlsplit(url).query.split("&")
    found = [option for option in options if option.startswith("prefix=")]
    return f"?{found[0]}" if found else ""


def restore(file: str, target: Store, tell: Tell, *, resume: bool = False) -> tuple[Settled, Moved]:
    """Make a store of a backup, in a target that is empty. The file stays as it is."""
    if not os.path.isfile(file):
        raise BadInput(f"there is no file {file}")
    with tempfile.TemporaryDirectory(prefix="stayer-restore-") as folder:
        copy = _unsealed(file, os.path.join(folder, "copy.db"))
        try:
            settled = settle(copy, resume=resume)
            target.setup()  # only now: a name that was mistyped leaves no empty store
            return settled, moving.move(copy, target, tell)
        finally:
            copy.close()


def _unsealed(file: str, place: str) -> Store:
    """Open a copy of a backup as a store that can be changed."""
    try:
        copy_file(file, place)
    except StoreUnusable as error:
        raise BadInput(f"{file} can't be read as a backup: {error.__cause__ or error}") from error
    prefix = sealed_prefix(place)
    if prefix is None:
        raise BadInput(f"{file} is no backup: `stayer backup FILE` makes one")
    copy = _open(place, f"?prefix={prefix}")
    try:
        seal = copy.seal()
        if seal is None or seal.role != "backup":
            raise BadInput(f"{file} is no backup: `stayer backup FILE` makes one")
        copy.put_seal(None)
        copy.setup()  # it may be of an older Stayer
    except StoreUnusable as error:
        copy.close()
        said = str(error).replace(place, file)
        raise BadInput(f"{file} is no backup of a store: {said}") from error
    except BaseException:
        copy.close()
        raise
    return copy


def settle(store: Store, *, resume: bool = False) -> Settled:
    """Let a store that was restored know no worker any more, return what they held to its queue,
    and pause all queues, unless that is not wanted. May be done twice.
    """
    paused = [] if resume else [info.name for info in store.queues() if not info.paused]
    for queue in paused:  # first of all: what is returned must not be taken
        store.set_queue(queue, paused=True)
    workers = store.workers()
    returned = 0
    for worker in workers:
        try:
            returned += return_lost_tasks(store, store.drop_worker(worker.id, worker.number))
        except UnknownWorker:
            continue  # it took its leave
        except LeaseLost:
            raise Refused(
                f"worker {worker.id} on {worker.node} uses {store.url}: stop it, and try again"
            ) from None
    return Settled(len(workers), returned, tuple(paused))
