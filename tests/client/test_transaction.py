"""Submitting within a transaction of the caller's own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer import BadInput, Client, Refused
from stayer.store import Store
from tests.client.actors import hear, process, take, thread, transact, until


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "stayer.db")


@pytest.fixture
def connection(client: Client, path: str) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path)
    yield connection
    connection.close()


def rows(path: str) -> int:
    reader = sqlite3.connect(path)
    [count] = reader.execute("SELECT count(*) FROM orders").fetchone()
    reader.close()
    return int(count)


@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_tasks_of_another_process_are_there_once_its_transaction_commits(
    client: Client, path: str, url: str, many: bool
) -> None:
    with process(transact, path, url, many) as (line, _):
        ids = hear(line)
        assert client.queues() == []
        assert list(client.find()) == []
        line.send("commit")
        assert hear(line) == "over"
        assert {task.id for task in client.find()} == set(ids)
        assert client.get_queue("q").count("pending") == len(ids)
        assert rows(path) == 1


@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_tasks_of_another_process_never_were_if_its_transaction_rolls_back(
    client: Client, path: str, url: str, many: bool
) -> None:
    with process(transact, path, url, many) as (line, _):
        hear(line)
        line.send("rollback")
        assert hear(line) == "over"
    assert client.queues() == []
    assert list(client.find()) == []
    assert rows(path) == 0


def test_tasks_of_a_process_killed_in_its_transaction_never_were(
    client: Client, path: str, url: str
) -> None:
    with process(transact, path, url, False) as (line, other):
        hear(line)
        other.kill()
        other.join()
        assert list(client.find()) == []
        assert rows(path) == 0


def test_a_sleeping_listener_is_woken_by_the_commit(client: Client, path: str, url: str) -> None:
    with client.get_listener("q") as listener, thread(lambda: take(listener)) as taken:
        until(lambda: listener._waiters)
        with process(transact, path, url, False) as (line, _):
            [id] = hear(line)
            line.send("commit")
            assert taken().id == id


def test_the_callers_transaction_goes_on(client: Client, connection: sqlite3.Connection) -> None:
    queue = client.get_queue("q")
    first = queue.enqueue(1, connection=connection)
    assert connection.in_transaction
    second = queue.schedule(2, 4_000_000_000, connection=connection)
    assert queue.count() == 0
    connection.commit()
    assert [client.get_task(id).state for id in (first, second)] == ["pending", "scheduled"]


def test_the_same_id_twice_in_one_transaction_is_one_task(
    client: Client, connection: sqlite3.Connection
) -> None:
    queue = client.get_queue("q")
    for _ in range(2):
        assert queue.enqueue(1, id="mine", connection=connection) == "mine"
    connection.commit()
    assert queue.count() == 1


def test_what_is_no_connection_is_refused(client: Client) -> None:
    with pytest.raises(BadInput, match=r"sqlite3\.Connection"):
        client.get_queue("q").enqueue(1, connection="stayer.db")


def test_a_store_without_transactions_refuses(
    client: Client, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(client.store), "submit_on", Store.submit_on)
    with pytest.raises(Refused, match="only an SQL database can"):
        client.get_queue("q").enqueue(1, connection=connection)
    assert client.get_queue("q").count() == 0
