"""What `stayer doctor` asks of a MariaDB or MySQL server."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator

from stayer.core.codec import CHECKPOINT_LIMIT
from stayer.core.insight.health import Finding
from stayer.core.model import STATES
from stayer.core.units import format_duration, format_size
from stayer.stores.sql.mysql import schema
from stayer.stores.sql.mysql.database import NOW, Database
from stayer.stores.sql.mysql.transaction import MySqlTransaction

_OLDEST = {"MariaDB": (10, 6), "MySQL": (8, 0)}
_PACKET = 2 * CHECKPOINT_LIMIT + 1_000_000
"""A byte of a checkpoint may need two in a statement."""
_SKEW = 60.0
"""Clocks may differ by so many seconds before it is worth a word: the server's counts."""


def check(database: Database) -> list[Finding]:
    """The server and its settings, then the tables, and what is in them."""
    with database.looking() as tx:
        findings = list(_server(tx))
        findings.append(_tables(tx, database.url))
    if findings[-1].status != "fail":
        with database.read() as tx:
            findings.append(_counters(tx))
    return findings


def _server(tx: MySqlTransaction) -> Iterator[Finding]:
    [(version, packet, flush, now, read_only)] = tx.sql(
        f"SELECT version(), @@max_allowed_packet, @@innodb_flush_log_at_trx_commit, {NOW}, "
        "@@read_only"
    )
    kind = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    oldest = ".".join(map(str, _OLDEST[kind]))
    if numbers < _OLDEST[kind]:
        yield Finding(
            "server", "fail", f"{kind} {version} is too old", f"upgrade it to {oldest} or later"
        )
    else:
        yield Finding("server", "ok", f"{kind} {version}")
    if read_only:
        yield Finding(
            "read-only", "fail", "the server takes no changes", "is it a replica? Name the primary"
        )
    if packet < _PACKET:
        yield Finding(
            "packets", "warn",
            f"max_allowed_packet is {format_size(packet)}: a checkpoint of "
            f"{format_size(CHECKPOINT_LIMIT)} may need "
            f"{format_size(_PACKET)}",
            "set max_allowed_packet = 64M in the server's settings",
        )  # fmt: skip
    else:
        yield Finding("packets", "ok", f"max_allowed_packet is {format_size(packet)}")
    if flush != 1:
        yield Finding(
            "durability", "warn",
            f"innodb_flush_log_at_trx_commit is {flush}: a crash may lose tasks that were "
            "accepted in the last second",
            "set it to 1",
        )  # fmt: skip
    skew = float(now) - time.time()
    if abs(skew) > _SKEW:
        ahead = "ahead of" if skew > 0 else "behind"
        yield Finding(
            "clock", "warn",
            f"the server's clock is {format_duration(abs(skew))} {ahead} this machine's",
            "times are the server's: nothing goes wrong, but set both clocks",
        )  # fmt: skip
    else:
        yield Finding("clock", "ok", "the server's clock and this machine's agree")


def _tables(tx: MySqlTransaction, url: str) -> Finding:
    version = schema.version(tx, url)
    if version < schema.VERSION:
        found = "there are no tables" if version == 0 else f"the tables are of version {version}"
        return Finding("tables", "fail", found, "`stayer init` makes or upgrades them")
    if missing := schema.triggers_to_make(tx):
        names = ", ".join(map(tx.named, missing))
        return Finding(
            "tables", "fail", f"missing, or of an older Stayer: {names}", "`stayer init` makes them"
        )
    return Finding("tables", "ok", f"version {version}")


def _counters(tx: MySqlTransaction) -> Finding:
    kept = {
        (name, state): number
        for name, *numbers in tx.all("find.queues", True, tx.array(()))
        for state, number in zip(STATES, numbers, strict=True)
        if number
    }
    counted = Counter({
        (queue, state): number
        for queue, state, number in tx.sql(
            "SELECT queue, state, count(*) FROM stayer_tasks GROUP BY queue, state"
        )
    })  # fmt: skip
    wrong = sorted({queue for (queue, _), _ in kept.items() ^ counted.items()})
    if not wrong:
        return Finding("counters", "ok", f"right for {sum(counted.values()):,} tasks")
    todo = f"was a row of {tx.named('stayer_tasks')} changed by hand? Please report it otherwise"
    return Finding("counters", "warn", f"wrong for {', '.join(wrong)}", todo)
