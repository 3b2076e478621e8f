"""Tasks that exist if and only if the caller's own transaction commits."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from stayer.core.errors import BadInput, StayerError
from stayer.stores.sql.postgres import PostgresStore
from tests.contract.builders import PATIENCE, counts, get, new, submit
from tests.servers.postgres import PostgresServer


@pytest.fixture
def caller(server: PostgresServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.conninfo) as connection:
        yield connection


def test_a_task_comes_with_the_callers_commit(
    store: PostgresStore, caller: psycopg.Connection
) -> None:
    store.submit_on(caller, [new("a", parameters=b"\0bytes")])
    assert store.get(["a"]) == [None]
    caller.commit()
    assert get(store, "a").parameters == b"\0bytes"
    assert counts(store) == {"pending": 1}


def test_and_goes_with_its_rollback(store: PostgresStore, caller: psycopg.Connection) -> None:
    store.submit_on(caller, [new("a")])
    caller.rollback()
    assert store.get(["a"]) == [None]
    assert counts(store) == {}


def test_an_id_that_is_there_leaves_the_transaction_usable(
    store: PostgresStore, caller: psycopg.Connection
) -> None:
    submit(store, new("a"))
    [answer] = store.submit_on(caller, [new("a")])
    assert not answer.fresh
    store.submit_on(caller, [new("b")])
    caller.commit()
    assert counts(store) == {"pending": 2}


def test_without_a_transaction_one_is_begun(
    store: PostgresStore, caller: psycopg.Connection
) -> None:
    caller.autocommit = True
    store.submit_on(caller, [new("a")])
    assert store.get(["a"]) == [None]
    caller.commit()
    assert get(store, "a").state == "pending"


def test_the_callers_connection_is_left_as_it_was(
    store: PostgresStore, caller: psycopg.Connection
) -> None:
    store.submit_on(caller, [new("a")])
    assert caller.execute("SELECT true, 1, current_setting('synchronous_commit')").fetchone() == (
        True, 1, "on",
    )  # fmt: skip
    caller.rollback()


def test_those_who_wait_hear_of_it_at_the_commit(
    store: PostgresStore, caller: psycopg.Connection
) -> None:
    waiter = store.waiter(None, ["q"])
    try:
        store.submit_on(caller, [new("a")])
        assert not waiter.wait(0.05)
        caller.commit()
        assert waiter.wait(PATIENCE)
    finally:
        waiter.close()


def test_a_connection_of_sqlalchemy_or_django_is_looked_into(
    store: PostgresStore, caller: psycopg.Connection
) -> None:
    class Fairy:  # what SQLAlchemy's Connection.connection is
        driver_connection = caller

    class Alchemy:
        connection = Fairy()

    class Django:
        connection = None

        def ensure_connection(self) -> None:
            self.connection = caller

    store.submit_on(Alchemy(), [new("a")])
    store.submit_on(Django(), [new("b")])
    caller.commit()
    assert counts(store) == {"pending": 2}


@pytest.mark.parametrize("connection", [None, object(), "postgresql:///"])
def test_anything_else_is_refused(store: PostgresStore, connection: object) -> None:
    with pytest.raises(BadInput, match="psycopg"):
        store.submit_on(connection, [new("a")])


def test_a_long_transaction_keeps_nobody_from_taking_or_setting(
    store: PostgresStore, caller: psycopg.Connection
) -> None:
    store.set_queue("q", limit=5)
    store.submit_on(caller, [new("a", unique="word")])
    submit(store, new("b", unique="another"))
    assert store.set_queue("q", limit=3).limit == 3
    assert counts(store) == {"pending": 1}
    caller.rollback()


def test_an_id_that_the_callers_snapshot_does_not_show_is_not_made_twice(
    store: PostgresStore, caller: psycopg.Connection
) -> None:
    caller.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    caller.execute("SELECT 1")
    submit(store, new("a"))
    with pytest.raises(StayerError, match="again"):
        store.submit_on(caller, [new("a")])
    caller.rollback()
