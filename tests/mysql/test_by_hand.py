"""What the tables promise to whoever writes them without Stayer, with the client `mariadb` say."""

from __future__ import annotations

import subprocess
from contextlib import closing
from typing import Any

import pymysql
import pytest

from stayer.core import codec
from stayer.core.model import Filter
from stayer.stores import open_store
from stayer.stores.sql.mysql import MySqlStore
from tests.contract.builders import check_counts, counts, get, ids, new, register, submit, take
from tests.docs.pages import blocks
from tests.mysql.conftest import asked
from tests.servers.mariadb import MariaDbServer

PAGE = blocks("how-to/use-mysql.md")


def client(server: MariaDbServer, database: str, sql: str) -> str:
    """What the client of the server prints."""
    command = ["mariadb", "--no-defaults", "-S", server.socket, "-u", "root", database, "-N"]
    done = subprocess.run(command, input=sql, capture_output=True, text=True, check=True)
    return done.stdout


def test_rows_are_inserted_and_deleted_as_the_page_shows(
    store: MySqlStore, server: MariaDbServer, database: str
) -> None:
    [_, insert, delete] = [block.code for block in PAGE if block.language == "sql"]
    client(server, database, insert)
    assert counts(store, "encode") == {"pending": 1}
    assert [event.event for event in store.watch(0, 0.0, 10)] == ["pending"]
    client(server, database, delete)
    assert counts(store, "encode") == {}
    check_counts(store)


def test_the_rights_that_are_named_can_be_given(server: MariaDbServer) -> None:
    [rights, *_] = [block.code for block in PAGE if block.language == "sql"]
    client(server, "mysql", rights)


def test_a_row_with_id_queue_and_parameters_is_a_complete_task(
    store: MySqlStore, hand: Any
) -> None:
    asked(
        hand, """INSERT INTO stayer_tasks (id, queue, parameters) VALUES ('a', 'q', '{"n": [1]}')"""
    )
    register(store)
    [task] = take(store)
    assert (task.id, task.parameters, task.attempt) == ("a", {"n": [1]}, 1)
    assert [event.event for event in store.events("a")] == ["pending", "reserved"]


def test_a_row_that_is_there_already_leaves_nothing_behind(store: MySqlStore, hand: Any) -> None:
    for _ in range(2):
        asked(hand, "INSERT IGNORE INTO stayer_tasks (id, queue) VALUES ('a', 'q')")
    assert counts(store) == {"pending": 1}
    assert len(store.watch(0, 0.0, 10)) == 1


def test_one_that_is_due_later_waits(store: MySqlStore, hand: Any) -> None:
    asked(hand, "INSERT INTO stayer_tasks (id, eta) VALUES ('a', unix_timestamp() + 1000)")
    assert get(store, "a").state == "scheduled"
    assert counts(store, "default") == {"scheduled": 1}


@pytest.mark.parametrize(
    ("columns", "values", "said"),
    [
        ("id, name, command", "'a', 'x', '[\"x\"]'", "either a name or a command"),
        ("id, command", "'a', '[\"x\", 1]'", "words of a command"),
        ("id, env", "'a', '{\"x\": 1}'", "values of env"),
        ("id, tags", "'a', '[1]'", "have to be text"),
        ("id, policy", "'a', '[1]'", "policy has to be a JSON object"),
        ("id, policy", "'a', '{\"nothing\": 1}'", "a field that there is not"),
        ("id, policy", "'a', '{\"retries\": \"x\"}'", "a field of another kind"),
        (
            "id, meta",
            "'a', concat('{\"a\": \"', repeat('x', 65000), '\"}')",
            "at most 64,000 bytes",
        ),
        (
            "id, code",
            "'a', concat('{\"git\": \"', repeat('x', 65000), '\"}')",
            "at most 64,000 bytes",
        ),
        ("id, eta", "'a', 1e14", "moments are epoch seconds"),
        ("id, created", "'a', -1e300", "moments are epoch seconds"),
        ("id, start_before", "'a', 1e308", "moments are epoch seconds"),
        ("id, unique_for", "'a', 1e14", "moments are epoch seconds"),
        ("id, state", "'a', 'failed'", "leave out the state"),
        ("id", "'-a'", "may not begin with -"),
        ("id", "''", "CONSTRAINT"),
        ("id", "repeat('x', 257)", "too long"),
    ],
)
def test_what_makes_no_sense_is_refused(
    store: MySqlStore, hand: Any, columns: str, values: str, said: str
) -> None:
    with pytest.raises(pymysql.Error, match=said):
        asked(hand, f"INSERT INTO stayer_tasks ({columns}) VALUES ({values})")
    assert store.queues() == []


def test_a_unique_word_that_is_held_is_refused(store: MySqlStore, hand: Any) -> None:
    asked(hand, "INSERT INTO stayer_tasks (id, `unique`) VALUES ('a', 'w')")
    with pytest.raises(pymysql.Error, match="holds this unique word"):
        asked(hand, "INSERT INTO stayer_tasks (id, `unique`) VALUES ('b', 'w')")


def test_tables_of_an_older_version_get_room_for_longer_ids(
    store: MySqlStore, server: MariaDbServer, database: str, url: str
) -> None:
    for table, column in (
        ("tasks", "id"), ("schedules", "last_task"), ("upstreams", "upstream"), ("outbox", "id"),
        ("purged", "id"), ("notices", "task"),
    ):  # fmt: skip
        null = "" if column == "last_task" else "NOT NULL"
        client(server, database, f"ALTER TABLE stayer_{table} MODIFY {column} VARCHAR(200) {null};")
    submit(store, new("a"))
    with closing(open_store(url)) as newer:
        newer.setup()
        assert submit(newer, new("x" * 256, after=("a",)))[0].state == "waiting"
    assert submit(store, new("b", after=("x" * 256,)))[0].state == "waiting"
    assert "CHECK" in client(server, database, "SHOW CREATE TABLE stayer_tasks")


@pytest.mark.parametrize("number", ["1e300", "-1e300"])
def test_a_moment_that_is_none_stops_nobody_else(store: MySqlStore, hand: Any, number: str) -> None:
    """An UPDATE is not looked at as an INSERT is."""
    submit(store, new("odd"), new("good"), new("ended"))
    register(store)
    columns = "created", "updated", "eta", "start_before", "started_at", "finished_at", "near_until"
    sets = ", ".join(f"{column} = {number}" for column in columns)
    with hand.cursor() as cursor:
        cursor.execute(f"UPDATE stayer_tasks SET {sets} WHERE id = 'odd'")
    hand.commit()

    listed = store.find(Filter(queues=("q",)), None, 1)
    listed_then = store.find(Filter(queues=("q",)), listed.next, 9)
    assert {task.id for task in (*listed.tasks, *listed_then.tasks)} == {"odd", "good", "ended"}
    assert codec.record(get(store, "odd"))["id"] == "odd"
    store.promote(9)
    assert {"good", "ended"} <= set(ids(take(store, limit=9)))
