"""How the tables of a store are called: `stayer_tasks` and so on, unless its URL gives a prefix.

All SQL here says `stayer_`. Another prefix takes its place when the statements are loaded, so that
it costs nothing later, and several stores can share one database.
"""

from __future__ import annotations

import re

from stayer.core.errors import BadConfig

DEFAULT_PREFIX = "stayer_"
_IN_SQL = re.compile(rf"\b{DEFAULT_PREFIX}(?=[a-z])")
_VALID = re.compile(r"[a-z](?:_?[a-z0-9]){0,28}_")
"""What every database takes without quotes, in any case; short enough for the longest name of an
index to stay under the 63 characters of PostgreSQL.
"""
TABLES = (
    "meta", "queues", "shares", "tasks", "schedules", "upstreams", "outbox", "notices", "flows",
    "history", "events", "logs", "usage", "checkpoints", "files", "workers", "figures", "purged",
    "damaged", "attempts",
)  # fmt: skip
"""What all tables are called behind their prefix; the last one is a view."""


def checked_prefix(url: str, prefix: str) -> str:
    """The prefix that a URL asks for, or raise BadConfig."""
    if not _VALID.fullmatch(prefix) or len(prefix) > 30:
        raise BadConfig(
            f"store {url!r}: a prefix of tables has up to 30 small letters, digits and single "
            "underscores, begins with a letter and ends with an underscore: prefix=jobs_"
        )
    if prefix.startswith(("sqlite_", "pg_", "mysql_")):
        raise BadConfig(f"store {url!r}: names that begin so belong to the database: prefix=jobs_")
    if prefix.endswith(tuple(f"_{table}_" for table in TABLES)):
        # An index of the store with the shorter prefix may have the name of a table of this one.
        raise BadConfig(
            f"store {url!r}: a prefix can't end like a table of Stayer, because another store's "
            "indexes may have such names: prefix=jobs_"
        )
    return prefix


def with_prefix(sql: str, prefix: str) -> str:
    """Our SQL, with the names of tables, indexes and triggers that begin with this prefix."""
    return sql if prefix == DEFAULT_PREFIX else _IN_SQL.sub(prefix, sql)
