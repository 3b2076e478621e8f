"""What `stayer doctor` asks of a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator

from stayer.core.insight.health import Finding
from stayer.core.model import STATES
from stayer.core.units import format_duration
from stayer.stores.sql.postgres import schema
from stayer.stores.sql.postgres.database import Database
from stayer.stores.sql.postgres.transaction import PostgresTransaction

OLDEST = 140000
"""The oldest server that will do, as it numbers itself."""
_LONG_TRANSACTION_S = 3600.0
"""A transaction that is open for longer keeps old rows from being cleared away."""
_TABLES = ("stayer_tasks", "stayer_queues", "stayer_new_events", "stayer_counts", "stayer_workers")


def check(database: Database) -> list[Finding]:
    """The server, the way to it, then the tables, if they can be looked at."""
    with database.read() as tx:
        found = [*_server(tx), _way(database), _durability(tx)]
        if not tx.sql("SELECT 1 WHERE to_regclass('stayer_meta') IS NOT NULL"):
            return found
        found += [_tables(tx, database), _rights(tx), *_open_transactions(tx)]
        if found[-1].status != "fail":
            found.append(_counters(tx))
        return found


def _server(tx: PostgresTransaction) -> Iterator[Finding]:
    [(number, version)] = tx.sql(
        "SELECT current_setting('server_version_num')::int, current_setting('server_version')"
    )
    if number < OLDEST:
        yield Finding("server", "fail", f"PostgreSQL {version} is too old", "upgrade it to 14")
    else:
        yield Finding("server", "ok", f"PostgreSQL {version}")
    [(is_standby, is_set)] = tx.sql(
        "SELECT pg_is_in_recovery()::int, current_setting('default_transaction_read_only')"
    )
    if is_standby:
        todo = "name the primary, or several hosts and target_session_attrs=read-write"
        yield Finding("read-only", "fail", "the server is a standby: it takes no changes", todo)
    elif is_set == "on":
        said = "default_transaction_read_only is on: the server takes no changes"
        yield Finding("read-only", "fail", said, "find out who set it, and why: a full disk, say")


def _way(database: Database) -> Finding:
    """Whether those who wait hear of work at once."""
    if database.address.listen is None:
        todo = "leave out listen=no, or write listen=host:port of the server itself"
        return Finding("waking", "warn", "nobody listens: workers look once a second", todo)
    if database.is_pooled and database.address.listen == database.address.conninfo:
        todo = "write &listen=host:port of the server itself into the URL, beside the pooler's"
        said = "a pooler is in the way: workers can't be woken, and look once a second"
        return Finding("waking", "warn", said, todo)
    return Finding("waking", "ok", "workers are woken by NOTIFY")


def _durability(tx: PostgresTransaction) -> Finding:
    [(fsync, commit)] = tx.sql(
        "SELECT current_setting('fsync'), current_setting('synchronous_commit')"
    )
    if fsync == "off" or commit == "off":
        said = f"fsync is {fsync}, synchronous_commit is {commit}: a crash may lose tasks"
        return Finding("durability", "warn", said, "set both to on for this database")
    return Finding("durability", "ok", "what is answered is on disk")


def _tables(tx: PostgresTransaction, database: Database) -> Finding:
    if schema.is_current(tx, database.address):
        return Finding("tables", "ok", f"version {schema.VERSION}")
    todo = "run `stayer init` as their owner, or what `stayer init --sql` prints"
    return Finding("tables", "warn", "an older version of the tables or functions", todo)


def _rights(tx: PostgresTransaction) -> Finding:
    missing = [
        table
        for table in _TABLES
        if not all(
            tx.sql(f"SELECT has_table_privilege('{table}', '{right}')::int")[0][0]
            for right in ("SELECT", "INSERT", "UPDATE", "DELETE")
        )
    ]
    if missing:
        todo = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA … TO this user"
        return Finding("rights", "fail", f"this user may not change {', '.join(missing)}", todo)
    return Finding("rights", "ok", "this user may read and change the tables")


def _open_transactions(tx: PostgresTransaction) -> Iterator[Finding]:
    [(seconds, pid)] = tx.sql(
        "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8, "
        "(array_agg(pid ORDER BY xact_start))[1] "
        "FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL"
    )
    if seconds > _LONG_TRANSACTION_S:
        said = f"a transaction of process {pid} has been open for {format_duration(seconds)}"
        todo = "end it: while it is open the server can't clear away old rows, and all gets slower"
        yield Finding("vacuum", "warn", said, todo)
    else:
        yield Finding("vacuum", "ok", "none is open for long")


def _counters(tx: PostgresTransaction) -> Finding:
    columns = ", ".join(STATES)
    kept = {
        (name, state): number
        for name, *numbers in tx.sql(f"SELECT name, {columns} FROM stayer_counted_queues")
        for state, number in zip(STATES, numbers, strict=True)
        if number
    }
    rows = tx.sql("SELECT queue, state, count(*) FROM stayer_tasks GROUP BY queue, state")
    counted = {(queue, state): number for queue, state, number in rows}
    wrong = sorted({queue for (queue, _), _ in kept.items() ^ counted.items()})
    if not wrong:
        return Finding("counters", "ok", f"right for {sum(counted.values()):,} tasks")
    todo = "was a row of stayer_tasks changed by hand? Please report it otherwise"
    return Finding("counters", "warn", f"wrong for {', '.join(wrong)}", todo)
