"""Heartbeats of many workers, played quickly: what one costs, and whether the tables grow."""

from __future__ import annotations

import statistics
import time

import psycopg

from bench.measure import say
from stayer.core.worker_model import Worker
from stayer.stores import open_store

WORKERS, ROUNDS = 1000, 24
"""A worker beats every 15 s: an hour is 240 rounds, of which a tenth is played."""


def beats() -> None:
    """The aims: the last rounds cost what the first ones do, and the tables have not grown."""
    from tests.servers.finding import postgres_binaries
    from tests.servers.postgres import serving

    print(f"Heartbeats of {WORKERS:,} workers on PostgreSQL, {ROUNDS} rounds at once")
    settings = ("shared_buffers=256MB", "synchronous_commit=off", "autovacuum_naptime=1s")
    with serving(postgres_binaries(), *settings, careless=False) as server:
        url = server.url("bench")
        store = open_store(url)
        store.setup()
        workers = [Worker(id=f"w{n}", node="node", pid=n) for n in range(WORKERS)]
        costs, sizes = [], []
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            for number in range(1, ROUNDS + 1):
                times = []
                for worker in workers:
                    begin = time.perf_counter()
                    store.beat(worker, number, "nonce", ())
                    times.append(time.perf_counter() - begin)
                costs.append(statistics.median(times))
                [size] = connection.execute(
                    "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class AS c "
                    "WHERE c.relnamespace = 'bench'::regnamespace AND c.relkind = 'r'"
                ).fetchone() or [0]
                sizes.append(size)
        store.close()
    first, last = statistics.median(costs[2:6]), statistics.median(costs[-4:])
    say(f"a beat: µs in rounds 3–6 / at the end ({1e6 * first:,.0f} / {1e6 * last:,.0f})",
        f"{last / first:.2f} ×", "aim ≤ 1.3", last / first <= 1.3)  # fmt: skip
    grown = sizes[-1] / sizes[5]
    say(f"all tables: kB after round 6 / at the end ({sizes[5] // 1000:,} / {sizes[-1] // 1000:,})",
        f"{grown:.2f} ×", "aim ≤ 1.3", grown <= 1.3)  # fmt: skip
