"""Tasks that exist if and only if the caller's own transaction commits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from stayer.core.errors import BadInput, Refused, StoreMoved
from stayer.core.happenings import Cancel
from stayer.core.lifecycle import decide
from stayer.core.model import FINISHED
from stayer.core.move.records import Seal
from stayer.stores.sql import joined
from stayer.stores.sql.postgres import PostgresStore, transaction
from stayer.stores.sql.transaction import Row, Transaction
from tests.contract.builders import (
    PATIENCE,
    counts,
    fill,
    get,
    ids,
    in_thread,
    new,
    register,
    submit,
    take,
)
from tests.postgres.test_several_writers import wait_for_lock
from tests.servers.postgres import PostgresServer


@pytest.fixture
def caller(server: PostgresServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.conninfo) as connection:
        yield connection


def finish_relaying(store: PostgresStore) -> None:
    """What a worker does for others, as long as there is something."""
    while store.promote(100) == 0.0:
        pass


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


@pytest.fixture(
    params=[psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE],
    ids=["repeatable read", "serializable"],
)
def late(
    request: pytest.FixtureRequest, store: PostgresStore, caller: psycopg.Connection
) -> psycopg.Connection:
    """A transaction that sees nothing newer than itself, and has begun."""
    caller.isolation_level = request.param
    caller.execute("SELECT 1")
    return caller


class TestATransactionThatSeesNothingNewerThanItself:
    def test_makes_no_id_twice(self, store: PostgresStore, late: psycopg.Connection) -> None:
        submit(store, new("a"))
        [answer] = store.submit_on(late, [new("a")])
        late.commit()
        assert (answer.task.id, answer.fresh) == ("a", False)
        assert counts(store) == {"pending": 1}

    def test_gives_no_unique_word_twice(
        self, store: PostgresStore, late: psycopg.Connection
    ) -> None:
        submit(store, new("a", unique="word"))
        [answer] = store.submit_on(late, [new("b", unique="word")])
        late.commit()
        assert (answer.task.id, answer.fresh) == ("a", False)
        assert store.get(["b"]) == [None]

    def test_knows_the_words_that_it_has_given_itself(
        self, store: PostgresStore, late: psycopg.Connection
    ) -> None:
        submit(store, new("other"))
        store.submit_on(late, [new("a", unique="word")])
        [answer] = store.submit_on(late, [new("b", unique="word")])
        [again] = store.submit_on(late, [new("a")])
        late.commit()
        assert [(each.task.id, each.fresh) for each in (answer, again)] == [("a", False)] * 2

    def test_gives_a_word_whose_holder_has_ended_since(
        self, server: PostgresServer, store: PostgresStore
    ) -> None:
        submit(store, new("ended", unique="one"), new("gone", unique="other"))
        with psycopg.connect(server.conninfo) as caller:
            caller.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            caller.execute("SELECT 1")
            for id in ("ended", "gone"):
                store.commit([decide(get(store, id), Cancel())])
            store.purge(["gone"], FINISHED, store.now(), 1)
            answers = store.submit_on(caller, [new("a", unique="one"), new("b", unique="other")])
        assert [answer.fresh for answer in answers] == [True, True]
        assert counts(store) == {"cancelled": 1, "pending": 2}

    def test_that_waits_for_a_word_hears_who_has_got_it(
        self, store: PostgresStore, late: psycopg.Connection, hand: psycopg.Connection,
        server: PostgresServer,
    ) -> None:  # fmt: skip
        with psycopg.connect(server.conninfo) as other:
            store.submit_on(other, [new("a", unique="word")])
            second = in_thread(lambda: store.submit_on(late, [new("b", unique="word")]))
            wait_for_lock(hand)
        [answer] = second()
        late.commit()
        assert (answer.task.id, answer.fresh) == ("a", False)

    def test_brings_tasks_to_a_queue_that_is_younger(
        self, store: PostgresStore, late: psycopg.Connection
    ) -> None:
        submit(store, new("a", queue="younger"))
        store.submit_on(late, [new("b", queue="younger"), new("c", queue="youngest")])
        late.commit()
        assert counts(store, "younger") == {"pending": 2}
        assert counts(store, "youngest") == {"pending": 1}

    def test_brings_tasks_after_one_that_is_younger(
        self, store: PostgresStore, late: psycopg.Connection
    ) -> None:
        submit(store, new("a"))
        [answer] = store.submit_on(late, [new("b", after=("a",))])
        late.commit()
        assert answer.task.state == "waiting"
        store.commit([decide(get(store, "a"), Cancel())])
        finish_relaying(store)
        assert get(store, "b").state == "cancelled"

    def test_changes_nothing_of_a_store_that_was_sealed_since(
        self, store: PostgresStore, late: psycopg.Connection, schema: str
    ) -> None:
        store.put_seal(Seal(move="m", role="source", other="elsewhere", other_identity="e", at=1.0))
        with pytest.raises(StoreMoved, match="elsewhere"), late.transaction():
            store.submit_on(late, [new("a")])
        with pytest.raises(psycopg.errors.RaiseException, match="elsewhere"):
            late.execute(f"INSERT INTO {schema}.stayer_tasks (id, queue) VALUES ('b', 'q')")
        late.rollback()
        store.put_seal(None)
        assert counts(store) == {}

    def test_puts_tasks_into_the_lines_that_their_queue_has_got_since(
        self, store: PostgresStore, late: psycopg.Connection
    ) -> None:
        register(store)
        fill(store, 1, owner="x")
        store.set_queue("q", fair="owner")
        store._database.tidy()
        store._database.tidy()
        store.submit_on(late, [new("late", owner="y")])
        late.commit()
        store._database.tidy()
        assert "late" in ids(take(store, limit=5))

    def test_hears_to_try_again_of_what_came_while_it_looked(
        self, store: PostgresStore, late: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looked = joined.newest

        def slowly(own: Transaction, other: Transaction, statement: str, *given: Any) -> list[Row]:
            found = looked(own, other, statement, *given)
            if statement == "get":
                submit(store, new("a"))
            return found

        monkeypatch.setattr(transaction, "newest", slowly)
        with pytest.raises(Refused, match="roll it back and try again"):
            store.submit_on(late, [new("a")])
        late.rollback()
        assert counts(store) == {"pending": 1}

    def test_inserts_no_task_with_a_unique_word_by_hand(
        self, late: psycopg.Connection, schema: str
    ) -> None:
        with pytest.raises(psycopg.errors.RaiseException, match="Use READ COMMITTED"):
            late.execute(
                f"INSERT INTO {schema}.stayer_tasks (id, queue, \"unique\") VALUES ('b', 'q', 'w')"
            )
        late.rollback()
