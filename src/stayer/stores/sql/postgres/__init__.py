"""PostgreSQL: the database that a team has already, for as many machines as there are."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from stayer.core.insight.health import Finding
from stayer.stores.sql.postgres.database import Database
from stayer.stores.sql.postgres.errors import Again, Gone
from stayer.stores.sql.postgres.url import parse
from stayer.stores.sql.store import SqlStore

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
