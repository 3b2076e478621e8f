"""How much the server reads for what is done often: counted, for time says nothing."""

from __future__ import annotations

import psycopg

from stayer.stores.sql.postgres import PostgresStore
from tests.contract.builders import fill


def test_upkeep_reads_no_tasks(store: PostgresStore, hand: psycopg.Connection) -> None:
    fill(store, 2000)
    hand.execute("ANALYZE stayer_tasks")
    with hand.transaction():
        assert hand.execute("SELECT stayer_upkeep()").fetchone() == (1,)
        read = hand.execute("SELECT pg_stat_get_xact_tuples_returned('stayer_tasks'::regclass)")
        assert read.fetchone() == (0,)
