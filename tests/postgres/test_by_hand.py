"""What the tables promise to whoever writes them without Stayer: with psql, say."""

from __future__ import annotations

import json

import psycopg
import pytest

from stayer.core import codec
from stayer.core.happenings import Done, Interrupt, Start
from stayer.core.lifecycle import decide
from stayer.core.model import Filter
from stayer.stores.sql.postgres import PostgresStore
from tests.contract.builders import (
    PATIENCE,
    apply,
    check_counts,
    counts,
    get,
    ids,
    new,
    register,
    submit,
    take,
)
from tests.servers.postgres import PostgresServer

INSERT = "INSERT INTO stayer_tasks (id, queue, parameters) VALUES (%s, %s, %s)"


def test_a_row_with_id_queue_and_parameters_is_a_complete_task(
    store: PostgresStore, hand: psycopg.Connection
) -> None:
    register(store)
    waiter = store.waiter(None, ["q"])
    hand.execute(INSERT, ("a", "q", '{"b": [1, 2], "a": 12345678901234567890123}'))
    assert waiter.wait(PATIENCE)
    waiter.close()
    task = get(store, "a")
    assert task.state == "pending"
    assert task.parameters == {"b": [1, 2], "a": 12345678901234567890123}
    assert task.created == task.updated
    assert [event.event for event in store.watch(0, 0.0, 10)] == ["pending"]
    assert [event.event for event in store.events("a")] == ["pending"]
    assert ids(take(store)) == ["a"]
    check_counts(store)


def test_psql_may_do_it(server: PostgresServer, store: PostgresStore, schema: str) -> None:
    server.psql(
        f"""
        INSERT INTO {schema}.stayer_tasks (id, queue, command, priority, tags, eta)
        VALUES ('now', 'q', '["make", "all"]', 5, '["nightly"]', NULL),
               ('later', 'q', '["make", "all"]', 0, NULL, extract(epoch FROM now()) + 3600);
        """
    )
    assert counts(store) == {"pending": 1, "scheduled": 1}
    assert get(store, "now").command == ("make", "all")
    server.psql(f"DELETE FROM {schema}.stayer_tasks WHERE id = 'later'")
    assert counts(store) == {"pending": 1}
    assert [event.event for event in store.watch(0, 0.0, 10)][-1] == "deleted"
    check_counts(store)


def test_a_transaction_that_is_rolled_back_leaves_nothing(
    store: PostgresStore, hand: psycopg.Connection
) -> None:
    hand.execute("BEGIN")
    hand.execute(INSERT, ("a", "q", None))
    hand.execute("ROLLBACK")
    assert store.queues() == []
    assert store.watch(0, 0.0, 10) == []


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"name": "f", "command": '["a"]'}, "either a name or a command"),
        ({"command": "[1]"}, "a command is a JSON array"),
        ({"command": "[]"}, "a command is a JSON array"),
        ({"command": "make"}, "json"),
        ({"env": '{"A": 1}'}, "values of env"),
        ({"tags": "[1]"}, "tags, and hooks"),
        ({"policy": "[]"}, "has to be a JSON object"),
        ({"policy": '{"retry": 1}'}, "a field that there is not"),
        ({"policy": '{"retries": -1}'}, "of another kind"),
        ({"policy": '{"retries": "3"}'}, "of another kind"),
        ({"owner": "x" * 201}, "at most 200 characters"),
        ({"meta": json.dumps({"a": "x" * 65_000})}, "at most 64,000 bytes"),
        ({"code": json.dumps({"requirements": ["x" * 65_000]})}, "at most 64,000 bytes"),
        ({"parameters": json.dumps("x" * 1_500_000)}, "at most 1 MB"),
        ({"eta": "1e14"}, "moments are epoch seconds"),
        ({"created": "-1e300"}, "moments are epoch seconds"),
        ({"start_before": "NaN"}, "moments are epoch seconds"),
        ({"unique_for": "Infinity"}, "moments are epoch seconds"),
        ({"state": "started"}, "leave out the state"),
        ({"id": "-x"}, "may not begin with -"),
        ({"unique": "word"}, "holds this unique word"),
    ],
)
def test_what_makes_no_sense_is_refused(
    store: PostgresStore, hand: psycopg.Connection, columns: dict[str, str], said: str
) -> None:
    submit(store, new("holder", unique="word"))
    row = {"id": "a", "queue": "q", **columns}
    names = ", ".join(f'"{name}"' for name in row)
    with pytest.raises(psycopg.Error, match=said):
        hand.execute(
            f"INSERT INTO stayer_tasks ({names}) VALUES ({', '.join(['%s'] * len(row))})",
            list(row.values()),
        )
    assert counts(store) == {"pending": 1}


def test_a_good_policy_is_taken(store: PostgresStore, hand: psycopg.Connection) -> None:
    policy = '{"retries": 3, "retry_wait": 1.5, "time_limit": null, "retry_on": ["error"]}'
    hand.execute("INSERT INTO stayer_tasks (id, policy) VALUES ('a', %s)", (policy,))
    assert get(store, "a").policy.retries == 3
    assert get(store, "a").queue == "default"


@pytest.mark.parametrize(
    ("cell", "value"),
    [("no json", "no json"), ("base64:AAEC", b"\0\1\2"), ("base64:?", "base64:?"), (None, None)],
)
def test_parameters_may_be_bytes_or_other_text(
    store: PostgresStore, hand: psycopg.Connection, cell: str | None, value: object
) -> None:
    hand.execute(INSERT, ("a", "q", cell))
    assert get(store, "a").parameters == value


def test_an_id_that_was_purged_is_refused(store: PostgresStore, hand: psycopg.Connection) -> None:
    register(store)
    submit(store, new("a"))
    [task] = take(store)
    store.commit([decide(task, Done())])
    store.purge(["a"], ["complete"], store.now() + 1, 10)
    with pytest.raises(psycopg.Error, match="was purged"):
        hand.execute(INSERT, ("a", "q", None))


def test_attempts_can_be_asked_for_with_sql(store: PostgresStore, hand: psycopg.Connection) -> None:
    register(store)
    submit(store, new("a"))
    apply(store, apply(store, take(store)[0], Start(pid=7)), Interrupt())
    apply(store, apply(store, take(store)[0], Start(pid=8)), Done())
    submit(store, new("b"))
    take(store)
    rows = hand.execute(
        "SELECT t.id, x.attempt, x.worker, x.node, x.pid, x.reserved_at, x.started_at, "
        "x.finished_at, x.ending "
        "FROM stayer_attempts AS x JOIN stayer_tasks AS t ON t.seq = x.task "
        "ORDER BY t.id, x.attempt"
    ).fetchall()
    assert rows == [
        (
            id,
            x.attempt,
            x.worker,
            x.node,
            x.pid,
            x.reserved_at,
            x.started_at,
            x.finished_at,
            x.ending,
        )
        for id in ("a", "b")
        for x in store.attempts(id)
    ]
    assert len(rows) == 3


@pytest.mark.parametrize("number", ["'NaN'", "'Infinity'", "1e300", "-1e300"])
def test_a_moment_that_is_none_stops_nobody_else(
    store: PostgresStore, hand: psycopg.Connection, number: str
) -> None:
    """An UPDATE is not looked at as an INSERT is."""
    submit(store, new("odd"), new("good"), new("ended"))
    register(store)
    columns = "created", "updated", "eta", "start_before", "started_at", "finished_at", "near_until"
    sets = ", ".join(f"{column} = {number}" for column in columns)
    hand.execute(f"UPDATE stayer_tasks SET {sets} WHERE id = 'odd'")

    listed = store.find(Filter(queues=("q",)), None, 1)
    listed_then = store.find(Filter(queues=("q",)), listed.next, 9)
    assert {task.id for task in (*listed.tasks, *listed_then.tasks)} == {"odd", "good", "ended"}
    assert codec.record(get(store, "odd"))["id"] == "odd"
    store.promote(9)
    assert {"good", "ended"} <= set(ids(take(store, limit=9)))
