"""Many tasks at once: what the server has to do for each of them."""

from __future__ import annotations

from stayer.core.model import Filter
from stayer.stores.sql.mysql import MySqlStore
from stayer.stores.sql.mysql.dialect import statements
from stayer.stores.sql.rows import beginning_of, cells_in_common
from tests.contract.builders import new
from tests.servers.mariadb import MariaDbServer


def test_a_table_is_opened_as_often_for_many_tasks_as_for_few(
    store: MySqlStore, server: MariaDbServer
) -> None:
    def opened(count: int) -> int:
        before = _opened(server)
        store.submit([new(f"of-{count}-{number}", generated=True) for number in range(count)])
        return _opened(server) - before

    opened(1)
    assert opened(200) == opened(2)
    assert len(store.find(Filter(), None, 500).tasks) == 203


def _opened(server: MariaDbServer) -> int:
    [(_, times)] = server.sql("SHOW GLOBAL STATUS LIKE 'Opened_table_definitions'")
    [(_, again)] = server.sql("SHOW GLOBAL STATUS LIKE 'Table_open_cache_hits'")
    return int(times) + int(again)


def test_what_is_null_is_not_said_for_each_task() -> None:
    compiled = statements("utf8mb4_bin")["submit"]
    rows = [("a", "1", 7), ("b", None, 8)]
    alike = {**dict.fromkeys(range(2), new("a", name="film")), 2: new("a", name=None)}

    def said(number: int) -> str:
        return compiled.alike(
            rows, cells_in_common(alike[number], beginning_of(alike[number], 1.0))
        ).decode()

    assert " name," in said(0)
    assert "'film'" in said(0)
    assert " name," not in said(2)
    assert said(2).count("NULL") == 1  # the parameters of one task
    assert said(0).count("'film'") == 2
