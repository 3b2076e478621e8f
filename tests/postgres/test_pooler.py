"""Through PgBouncer in transaction mode: each transaction may have another server connection."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.core.worker_model import EVERYTHING
from stayer.stores.sql.postgres import PostgresStore
from tests.contract.builders import (
    PATIENCE,
    check_counts,
    counts,
    fill,
    in_thread,
    register,
    take,
)
from tests.postgres.conftest import opened
from tests.servers.finding import pgbouncer_binary
from tests.servers.postgres import PostgresServer, pooled

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def port(server: PostgresServer) -> Iterator[int]:
    with pooled(pgbouncer_binary(), server) as port:
        yield port


@pytest.fixture
def through(server: PostgresServer, port: int, schema: str) -> Iterator[PostgresStore]:
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres?schema={schema}"
    store = opened(f"{url}&listen={server.folder}:5432")
    yield store
    store.close()


def test_many_threads_work_through_it(through: PostgresStore) -> None:
    fill(through, 200)

    def work(name: str) -> int:
        register(through, name)
        done = 0
        while tasks := take(through, name, limit=5):
            changes = [decide(task, Done()) for task in tasks]
            applied, _ = through.turn(name, changes, ["q"], 0, EVERYTHING)
            done += sum(applied)
        return done

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(work, [f"w{number}" for number in range(6)])) == 200
    assert counts(through) == {"complete": 200}
    assert len(through.watch(0, 0.0, 1000)) == 600
    through._database.tidy()
    check_counts(through)


def test_workers_are_woken_by_the_server_itself(through: PostgresStore) -> None:
    waiter = through.waiter(None, ["q"])
    woken = in_thread(lambda: waiter.wait(PATIENCE))
    fill(through, 1)
    assert woken()
    waiter.close()
    assert {each.check: each.status for each in through.check()}["waking"] == "ok"


def test_without_a_way_to_the_server_they_look(through: PostgresStore, port: int) -> None:
    url = through.url.partition("&listen")[0]
    store = opened(url)
    waiter = store.waiter(None, ["q"])
    assert waiter.wait(None)
    waiter.close()
    [finding] = [each for each in store.check() if each.check == "waking"]
    assert finding.status == "warn"
    assert "pooler" in finding.message
    store.close()
