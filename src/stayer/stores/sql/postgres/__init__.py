"""PostgreSQL: the database that a team has already, for as many machines as there are."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from stayer.core.errors import StoreError
from stayer.core.insight.health import Finding
from stayer.core.model import Change, Task
from stayer.core.worker_model import Handles
from stayer.stores.sql.commit import date_back_all, line_of
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.one_trip import commit_whole, is_plain, moves_on
from stayer.stores.sql.postgres.database import Database
from stayer.stores.sql.postgres.errors import Again, Gone
from stayer.stores.sql.postgres.url import parse
from stayer.stores.sql.rows import task_from_row
from stayer.stores.sql.store import SqlStore, repeated

_TRIES = 10
"""How often others may be in the way before somebody hears of it."""
_TRIES_GONE = 3
"""How many connections may be cut before."""


def open_store(url: str, clock: Callable[[], float] | None = None) -> PostgresStore:
    """`postgresql://user:password@host:5432/database?schema=jobs`, `&prefix=jobs_`,
    `&listen=host:port`, and whatever libpq knows.
    """
    address = parse(url)
    return PostgresStore(address.url, Database(address, clock))


class PostgresStore(SqlStore):
    """The contract on a PostgreSQL server."""

    _database: Database

    def is_made(self) -> bool:
        """Whether there are tables."""
        from stayer.stores.sql.postgres.schema import version

        with self._database.read() as tx:
            return version(tx, self._database.address) > 0

    def check(self) -> list[Finding]:
        """What `stayer doctor` asks."""
        from stayer.stores.sql.postgres.health import check

        return check(self._database)

    def commit(self, changes: Sequence[Change]) -> list[Task | None]:
        """A single change in one round trip, if it is one that can be."""
        if len(changes) == 1 and is_plain(changes[0]):
            task = self._commit_at_once(changes)
            if task is not None:
                return [task]
        return super().commit(changes)

    @repeated
    def _commit_at_once(self, changes: Sequence[Change]) -> Task | None:
        asked_at = self.now()
        number = 0
        try:
            with self._database.write() as tx:
                [change] = date_back_all(changes, tx.now - asked_at)
                number, line = line_of(change, tx.now, Ledger(tx))
                return commit_whole(tx, change, line)
        except StoreError as error:
            if not error.unsure or not number or not moves_on(change):
                raise
        return self._commit_again(change, number)

    def _commit_again(self, change: Change, number: int) -> Task | None:
        """Apply a change of which nobody knows whether it was applied. If it is refused now, that
        may be because it was: then its number is in the history. This waits for the server to be
        done with the first try, for both change the same row.
        """
        [task] = super().commit([change])
        if task is None:
            with self._database.read() as tx:
                row = tx.one("commit.applied", change.id, number)
            task = None if row is None else task_from_row(row)
        return task

    def _turn(
        self,
        worker: str,
        changes: Sequence[Change],
        queues: Sequence[str],
        limit: int,
        handles: Handles,
    ) -> tuple[list[bool], list[Task]]:
        """In one round trip, if all is as it was."""
        tasks = self._turn_at_once(worker, changes, queues, limit, handles)
        if tasks is None:
            return super()._turn(worker, changes, queues, limit, handles)
        return [True] * len(changes), tasks

    @repeated
    def _turn_at_once(
        self,
        worker: str,
        changes: Sequence[Change],
        queues: Sequence[str],
        limit: int,
        handles: Handles,
    ) -> list[Task] | None:
        bulk = self._database.bulk
        if not bulk.is_usual(worker, queues, changes):
            return None
        asked_at = self.now()
        with self._database.write() as tx:
            if date_back_all(changes, tx.now - asked_at) is not changes:
                return None
            return bulk.turn(tx, worker, changes, queues[0], limit, handles)

    def should_try_again(self, error: Exception, tries: int) -> bool:
        """Once more if others were in the way, or the connection was cut before the commit."""
        if super().should_try_again(error, tries):
            return True
        if isinstance(error, Gone):
            return tries < _TRIES_GONE
        if isinstance(error, Again) and tries < _TRIES:
            time.sleep(random.uniform(0, 0.001 * 2**tries))
            return True
        return False
