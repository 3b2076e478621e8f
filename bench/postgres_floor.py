"""The floor on PostgreSQL: a bare loop with SKIP LOCKED that writes the same rows into the same
tables, with one statement a step and no records, checks, lanes, leases, limits or wake-ups.
"""

from __future__ import annotations

import time
from typing import Any

import psycopg
from msgspec.json import encode

from bench.floor import names

_SUBMIT = """
INSERT INTO stayer_tasks (id, queue, parameters, owner, created, updated, history)
SELECT id, 'q', '{"x":1}', 'me', %(now)s::float8, %(now)s::float8,
    '[1,' || %(now)s::float8 || ',"pending"]' || chr(10)
FROM unnest(%(ids)s::text[]) AS id
"""
_TAKE = """
UPDATE stayer_tasks AS t
SET state = 'reserved', attempt = attempt + 1, worker = 'w', node = 'node', updated = %(now)s,
    reserved_at = %(now)s,
    history = history || '[2,' || %(now)s::float8 || ',"reserved"]' || chr(10)
FROM (
    SELECT seq FROM stayer_tasks
    WHERE queue = 'q' AND lane = '' AND state = 'pending' AND held = false
    ORDER BY priority DESC, created, seq
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
) AS taken
WHERE t.seq = taken.seq
RETURNING t.id, t.parameters, t.attempt, t.created, t.owner
"""
_DONE = """
UPDATE stayer_tasks
SET state = 'complete', updated = %(now)s, finished_at = %(now)s, ending = 'done', result = '1',
    history = history || '[3,' || %(now)s::float8 || ',"complete"]' || chr(10)
WHERE id = ANY (%(ids)s) AND state = 'reserved' AND worker = 'w'
"""
_EVENT = "INSERT INTO stayer_new_events (at, ids, queue, event) VALUES (%s, %s, 'q', %s)"
_COUNT = "INSERT INTO stayer_counts (queue, pending, reserved, complete) VALUES ('q', %s, %s, %s)"


class PostgresFloor:
    """Submits, reserves and completes."""

    def __init__(self, place: str) -> None:
        conninfo, _, schema = place.partition(" ")
        self._connection: psycopg.Connection[Any] = psycopg.connect(conninfo, autocommit=True)
        self._connection.execute(f"SET search_path TO {schema}")

    def submit(self, count: int) -> int:
        """One transaction, one round trip."""
        ids, now = names(count), time.time()
        with self._connection.pipeline(), self._connection.transaction():
            self._connection.execute(_SUBMIT, {"now": now, "ids": ids})
            self._connection.execute(_EVENT, (now, encode(ids).decode(), "pending"))
            self._connection.execute(_COUNT, (count, 0, 0))
        return count

    def drain(self, tasks: int, batch: int) -> int:
        """Take a batch and complete the one before, until so many are done."""
        held: list[str] = []
        done = 0
        while done < tasks:
            done += len(held)
            held = self._turn(batch, held)
        self._turn(0, held)
        return done + len(held)

    def _turn(self, batch: int, held: list[str]) -> list[str]:
        now = time.time()
        execute = self._connection.execute
        with self._connection.transaction():
            if held:
                execute(_DONE, {"now": now, "ids": held})
                execute(_EVENT, (now, encode(held).decode(), "complete"))
            taken = [row[0] for row in execute(_TAKE, {"now": now, "limit": batch})]
            execute(_EVENT, (now, encode(taken).decode(), "reserved"))
            execute(_COUNT, (-len(taken), len(taken) - len(held), len(held)))
        return taken
