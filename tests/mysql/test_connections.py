"""Connections that break, and servers that end, are made read-only, or take no large packets."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stayer.core.errors import BadConfig, BadInput, StoreError, StoreUnreachable, StoreUnusable
from stayer.core.model import Report, Task
from stayer.stores import open_store
from stayer.stores.sql.mysql import MySqlStore, driver
from stayer.stores.sql.mysql.bulk import FewTrips
from tests.contract.builders import beat, counts, fill, new, register, submit, take
from tests.mysql.conftest import asked, opened
from tests.servers.mariadb import QUICK, MariaDbServer


def kill_all(hand: Any) -> None:
    """End all connections but the one that asks."""
    for (number,) in asked(
        hand,
        "SELECT id FROM information_schema.processlist "
        "WHERE user = 'root' AND id <> connection_id()",
    ):
        asked(hand, f"KILL {number}")


def test_connections_that_were_killed_are_made_again(store: MySqlStore, hand: Any) -> None:
    fill(store, 1)
    kill_all(hand)
    fill(store, 1)
    assert counts(store) == {"pending": 2}


def test_one_that_is_killed_in_mid_operation_is_made_again_and_nothing_is_done_twice(
    store: MySqlStore, hand: Any
) -> None:
    register(store)
    fill(store, 2)
    killed: list[bool] = []

    class Killing(FewTrips):
        def take(self, tx: Any, *rest: Any) -> list[Task]:
            tx.exchange([])
            if not killed:
                killed.append(True)
                kill_all(hand)
            return super().take(tx, *rest)

    store._database.bulk = Killing()
    assert len(take(store, limit=2)) == 2
    assert killed
    assert counts(store) == {"reserved": 2}


def test_a_server_that_was_killed_has_all_that_was_accepted(
    own_server: Callable[..., MariaDbServer],
) -> None:
    server = own_server()
    store = opened(server.url())
    ids = fill(store, 20)
    server.stop(signal.SIGKILL)
    with pytest.raises(StoreUnreachable):
        store.queues()
    server.start()
    assert [task and task.id for task in store.get(ids)] == ids
    fill(store, 1)
    assert counts(store) == {"pending": 21}
    store.close()


def test_a_read_only_server_says_so(
    own_server: Callable[..., MariaDbServer],
) -> None:
    server = own_server(*QUICK)
    url = server.url()
    opened(url).close()
    server.sql("CREATE USER app IDENTIFIED BY ''")
    server.sql("GRANT ALL ON *.* TO app")
    server.sql("SET GLOBAL read_only = 1")
    server.sql("REVOKE READ ONLY ADMIN ON *.* FROM app")
    store = open_store(url.replace("root@", "app@"))
    with pytest.raises(StoreUnusable, match="read-only"):
        fill(store, 1)
    assert store.queues() == []
    assert [each.status for each in store.check() if each.check == "read-only"] == ["fail"]
    store.close()


def test_a_packet_that_is_too_large_says_what_to_set(
    own_server: Callable[..., MariaDbServer],
) -> None:
    server = own_server(*QUICK, "--max-allowed-packet=2M")
    store = opened(server.url())
    register(store)
    submit(store, new("a"))
    [task] = take(store)
    report = Report(id=task.id, attempt=1, checkpoint=os.urandom(5_000_000))
    with pytest.raises(StoreError, match=r"max_allowed_packet|connection broke"):
        beat(store, "w", 2, report)
    [packets] = [each for each in store.check() if each.check == "packets"]
    assert packets.status == "warn"
    assert "max_allowed_packet" in packets.message
    store.close()


def test_a_fork_has_connections_of_its_own(store: MySqlStore) -> None:
    fill(store, 1)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            submit(store, new("child"))
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    submit(store, new("parent"))
    assert counts(store) == {"pending": 3}


def test_ids_are_compared_byte_by_byte(store: MySqlStore) -> None:
    ids = ["a", "A", "ä", "a ", "a  ", "á", "ａ"]
    submit(store, *(new(id) for id in ids))
    assert [task and task.id for task in store.get(ids)] == ids


def test_a_missing_driver_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(driver, "import_module", nothing)
    with pytest.raises(BadConfig, match=r"PyMySQL: pip install '\.\[mysql\]'"):
        open_store("mysql://root@localhost/x")


@pytest.mark.parametrize(
    "url", ["mysql://host", "mysql://host/a/b", "mysql://h:x/db", "mysql://h/db?nothing=1"]
)
def test_a_url_that_makes_no_sense_is_refused(url: str) -> None:
    with pytest.raises(BadConfig):
        open_store(url)


def test_the_password_is_never_shown(server: MariaDbServer) -> None:
    store = open_store(f"mysql://nobody:hidden@localhost/x?unix_socket={server.socket}")
    with pytest.raises(StoreError) as error:
        store.queues()
    assert "hidden" not in str(error.value)


class TestSubmitOn:
    def test_a_task_is_there_if_the_callers_transaction_commits(
        self, store: MySqlStore, callers: list[Any]
    ) -> None:
        store.submit_on(callers[0], [new("a")])
        callers[0].rollback()
        assert store.get(["a"]) == [None]
        store.submit_on(callers[0], [new("a")])
        assert store.get(["a"]) == [None]
        callers[0].commit()
        assert counts(store) == {"pending": 1}

    def test_the_connection_is_left_as_it_was(self, store: MySqlStore, callers: list[Any]) -> None:
        before = asked(callers[0], "SELECT @@sql_mode, @@collation_connection")
        store.submit_on(callers[0], [new("a")])
        assert asked(callers[0], "SELECT @@sql_mode, @@collation_connection") == before

    def test_one_that_commits_by_itself_gets_a_transaction(
        self, store: MySqlStore, hand: Any
    ) -> None:
        store.submit_on(hand, [new("a")])
        assert store.get(["a"]) == [None]
        hand.commit()
        assert counts(store) == {"pending": 1}

    def test_something_else_is_no_connection(self, store: MySqlStore) -> None:
        with pytest.raises(BadInput, match="PyMySQL"):
            store.submit_on(object(), [new("a")])


def test_to_look_whether_there_are_tables_makes_none(server: MariaDbServer, url: str) -> None:
    url = f"{url}&prefix=other_" if "?" in url else f"{url}?prefix=other_"
    store = open_store(url)
    assert not store.is_made()
    assert server.sql("SHOW TABLES LIKE 'other%'", url.partition("?")[0].rpartition("/")[2]) == []
    store.setup()
    assert store.is_made()
    store.close()


def test_the_password_may_be_in_a_file_that_the_url_names(
    server: MariaDbServer, tmp_path: Path, store: MySqlStore, database: str, hand: Any
) -> None:
    asked(hand, "CREATE OR REPLACE USER careful@localhost IDENTIFIED BY 's3 cret'")
    asked(hand, f"GRANT ALL ON {database}.* TO careful@localhost")
    url = server.url(database, "careful")
    with pytest.raises(StoreUnusable, match="Access denied"):
        open_store(url).queues()
    file = tmp_path / "my.cnf"
    file.write_text('[client]\npassword = "s3 cret"\n')
    fill(store, 1)
    other = open_store(server.url(database, "careful", read_default_file=file))
    assert [queue.name for queue in other.queues()] == ["q"]
    other.close()
