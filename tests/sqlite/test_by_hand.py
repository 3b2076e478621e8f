"""What the tables promise to whoever writes them without Stayer: with the sqlite3 command, say."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.core import fields
from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.core.model import FINISHED, Filter
from stayer.core.submit.checks import new_task
from stayer.core.worker_model import EVERYTHING, Worker
from stayer.store import Store
from tests.contract.long_inputs import LONG

COLUMNS = (
    "id",
    "queue",
    "name",
    "command",
    "cwd",
    "env",
    "owner",
    "tags",
    "key",
    "unique",
    "notify",
)
INSERT = "INSERT INTO stayer_tasks (id, queue, parameters) VALUES (?, ?, ?)"


@pytest.fixture
def hand(path: Path, store: Store) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def counted(store: Store, queue: str) -> dict[str, int]:
    return {state: number for state, number in store.queues([queue])[0].counts.items() if number}


def test_a_row_with_id_queue_and_parameters_is_a_complete_task(
    store: Store, hand: sqlite3.Connection
) -> None:
    before = time.time()
    hand.execute(INSERT, ("a", "q", '{"frames": [1, 2]}'))

    task = store.get(["a"])[0]
    assert task is not None
    assert task.state == "pending"
    assert task.parameters == {"frames": [1, 2]}
    assert before - 0.1 <= task.created == task.updated <= time.time() + 0.1
    assert counted(store, "q") == {"pending": 1}
    assert [event.event for event in store.events("a")] == ["pending"]

    store.beat(Worker(id="w", node="n", pid=1), 1, "x", ())
    assert [taken.id for taken in store.reserve("w", ["q"], 5, EVERYTHING)] == ["a"]


def test_a_row_with_an_eta_to_come_is_scheduled(store: Store, hand: sqlite3.Connection) -> None:
    hand.execute(
        "INSERT INTO stayer_tasks (id, queue, eta) VALUES ('later', 'q', ?), ('now', 'q', ?)",
        (time.time() + 3600, time.time() - 3600),
    )
    later, now = store.get(["later", "now"])
    assert later is not None
    assert now is not None
    assert (later.state, now.state) == ("scheduled", "pending")
    assert counted(store, "q") == {"scheduled": 1, "pending": 1}


def test_a_row_with_a_name_or_command_finds_its_handler(
    store: Store, hand: sqlite3.Connection
) -> None:
    hand.execute("INSERT INTO stayer_tasks (id, queue, name) VALUES ('named', 'q', 'train')")
    hand.execute(
        "INSERT INTO stayer_tasks (id, queue, command) VALUES ('ran', 'q', '[\"ls\", \"-l\"]')"
    )
    assert [task.id for task in store.find(Filter(name="train"), None, 9).tasks] == ["named"]
    assert [task.id for task in store.find(Filter(name="ls"), None, 9).tasks] == ["ran"]


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ("hello", "hello"),
        ("", ""),
        ("{broken", "{broken"),
        ("123", 123),
        (b"\x00\xff", b"\x00\xff"),
        (None, None),
        (7, 7),
        (2.5, 2.5),
        (1.0000000000000002, 1.0000000000000002),
        (json.dumps("long" * 5000), "long" * 5000),
    ],
)
def test_whatever_stands_in_parameters_can_be_read(
    store: Store, hand: sqlite3.Connection, stored: object, read: object
) -> None:
    hand.execute(INSERT, ("a", "q", stored))
    task = store.get(["a"])[0]
    assert task is not None
    assert task.parameters == read
    store.beat(Worker(id="w", node="n", pid=1), 1, "x", ())
    [taken] = store.reserve("w", ["q"], 5, EVERYTHING)
    assert (taken.parameters, taken.created) == (read, task.created)


@pytest.mark.parametrize(
    ("column", "content"),
    [
        *((column, bad) for column in ("command", "env", "tags") for bad in ("ls -l", "7", "{no")),
        ("command", "[]"),
        ("command", "[1, null]"),
        ("eta", "2026-11-16"),
        ("created", "now"),
        ("priority", "abc"),
        ("command", '["ls", 1]'),
        ("env", '{"A": 1}'),
        ("tags", "[{}]"),
        ("notify", "[1]"),
        ("meta", json.dumps({"a": "x" * 65_000})),
        ("code", json.dumps({"git": "x" * 65_000})),
        ("submitted_by", "x" * 65_000),
        *(
            ("policy", bad)
            for bad in (
                "3", "{no", "[]", '{"retry": 3}', '{"retries": "x"}', '{"retries": []}',
                '{"retries": -1}', '{"retries": 1.5}', '{"time_limit": "1h"}', '{"fence": "keep"}',
                '{"retry_on": "E"}', '{"when_failed": "go"}', '{"retry_backoff": 0}',
                '{"memory_limit": 1e9}',
            )
        ),
    ],
)  # fmt: skip
def test_a_row_that_makes_no_sense_is_refused(
    store: Store, hand: sqlite3.Connection, column: str, content: str
) -> None:
    with pytest.raises(sqlite3.Error):
        hand.execute(f"INSERT INTO stayer_tasks (id, {column}) VALUES ('a', ?)", (content,))
    assert store.find(Filter(), None, 9).tasks == ()


@pytest.mark.parametrize(
    ("column", "content"),
    [
        ("owner", b"\xff\xfe"),
        ("owner", "a\0b"),
        *(
            (column, json.dumps({"x": 0}).replace("0", "[" * 2000 + "]" * 2000))
            for column in ("meta", "pinned", "progress", "usage", "error", "metrics")
        ),
    ],
)
def test_a_row_with_odd_contents_does_not_keep_others_from_being_taken(
    store: Store, hand: sqlite3.Connection, column: str, content: object
) -> None:
    hand.execute(f"INSERT INTO stayer_tasks (id, queue, {column}) VALUES ('a', 'q', ?)", (content,))
    store.submit([new_task(queue="q", id="b")])
    store.beat(Worker(id="w", node="n", pid=1), 1, "x", ())
    assert "b" in {task.id for task in store.reserve("w", ["q"], 5, EVERYTHING)}
    assert {task.id for task in store.find(Filter(), None, 9).tasks} == {"a", "b"}


@pytest.mark.parametrize("id", ["-Itouch x", "-", ".", ".."])
def test_an_id_that_a_program_could_misread_is_refused(
    store: Store, hand: sqlite3.Connection, id: str
) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="an id may not begin with -"):
        hand.execute(INSERT, (id, "q", "1"))
    hand.execute(INSERT, ("a-b.", "q", "1"))
    assert [task.id for task in store.find(Filter(), None, 9).tasks] == ["a-b."]


def test_a_row_by_hand_wakes_a_waiter(store: Store, path: Path) -> None:
    waiter = store.waiter(None, ["q"])
    script = f"""
import sqlite3
connection = sqlite3.connect({str(path)!r})
connection.execute({INSERT!r}, ("a", "q", "1"))
connection.commit()
"""
    writer = subprocess.Popen([sys.executable, "-c", script])
    assert waiter.wait(60)
    assert store.get(["a"])[0] is not None
    assert writer.wait() == 0
    waiter.close()


def test_deleting_the_row_of_a_pending_task_removes_it(
    store: Store, hand: sqlite3.Connection
) -> None:
    store.submit([new_task(queue="q", id=id) for id in ("a", "b")])
    seen = store.last_event()
    hand.execute("DELETE FROM stayer_tasks WHERE id = 'a'")
    assert store.get(["a"]) == [None]
    assert counted(store, "q") == {"pending": 1}
    assert [(event.id, event.event) for event in store.watch(seen, 0, 9)] == [("a", "deleted")]
    assert store.submit([new_task(queue="q", id="a")])[0].fresh


def test_deleting_the_row_of_a_running_task_fences_its_worker(
    store: Store, hand: sqlite3.Connection
) -> None:
    store.submit([new_task(queue="q", id="a")])
    store.beat(Worker(id="w", node="n", pid=1), 1, "x", ())
    [task] = store.reserve("w", ["q"], 1, EVERYTHING)
    hand.execute("DELETE FROM stayer_tasks WHERE id = 'a'")
    assert store.commit([decide(task, Done())]) == [None]
    assert counted(store, "q") == {}


def test_a_row_with_a_state_is_refused(store: Store, hand: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="leave out the state"):
        hand.execute("INSERT INTO stayer_tasks (id, queue, state) VALUES ('a', 'q', 'complete')")
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        hand.execute("INSERT INTO stayer_tasks (id, queue, state) VALUES ('a', 'q', 'mine')")
    assert store.get(["a"]) == [None]
    assert store.queues() == []


def test_an_id_that_is_there_or_was_purged_is_refused(
    store: Store, hand: sqlite3.Connection
) -> None:
    store.submit([new_task(queue="q", id="a")])
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        hand.execute(INSERT, ("a", "q", "1"))
    store.beat(Worker(id="w", node="n", pid=1), 1, "x", ())
    [task] = store.reserve("w", ["q"], 1, EVERYTHING)
    store.commit([decide(task, Done())])
    assert store.purge(None, FINISHED, float("inf"), 9) == ["a"]
    with pytest.raises(sqlite3.IntegrityError, match="was purged"):
        hand.execute(INSERT, ("a", "q", "1"))
    assert counted(store, "q") == {}


def test_the_documented_columns_are_those_there_are(hand: sqlite3.Connection) -> None:
    page = Path(__file__, "../../../docs/reference/tables.md").resolve().read_text()
    tables = [
        name
        for (name,) in hand.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'stayer_%'"
        )
    ]
    assert tables
    for table in tables:
        assert f"`{table}`" in page
        for (column,) in hand.execute("SELECT name FROM pragma_table_info(?)", (table,)):
            assert f"`{column}`" in page, f"{table}.{column} is not documented"


def test_a_row_may_name_hooks_as_people_write_them(store: Store, hand: sqlite3.Connection) -> None:
    hooks = '["mail", "failed:chat", "no hook at all", "https://a.example/"]'
    hand.execute("INSERT INTO stayer_tasks (id, queue, notify) VALUES ('t', 'q', ?)", (hooks,))
    store.beat(Worker(id="w", node="n", pid=1), 1, "nonce", ())
    [task] = store.reserve("w", ["q"], 1, EVERYTHING)
    assert task.notify == ("ended:mail", "failed:chat", "ended:https://a.example/")
    store.commit([decide(task, Done())])
    told = hand.execute('SELECT "to", hook, state FROM stayer_notices ORDER BY seq').fetchall()
    assert told == [("mail", "mail", "pending"), ("https://a.example/", "", "pending")]
    with pytest.raises(sqlite3.IntegrityError):
        hand.execute("INSERT INTO stayer_tasks (id, queue, notify) VALUES ('u', 'q', '{}')")


def test_a_row_with_name_and_command_is_refused(store: Store, hand: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="either a name or a command"):
        hand.execute("INSERT INTO stayer_tasks (id, name, command) VALUES ('a', 'n', '[\"x\"]')")


def test_a_policy_that_makes_sense_is_kept(store: Store, hand: sqlite3.Connection) -> None:
    policy = {
        "retries": 3, "retry_wait": 1.5, "retry_on": ["E"], "memory_limit": 5, "fence": "kill",
        "when_failed": "hold", "time_growth": 2, "time_limit": None,
    }  # fmt: skip
    insert = "INSERT INTO stayer_tasks (id, queue, policy) VALUES ('a', 'q', ?)"
    hand.execute(insert, (json.dumps(policy),))
    [task] = store.get(["a"])
    assert task is not None
    for name, value in policy.items():
        found = getattr(task.policy, name)
        assert (list(found) if isinstance(found, tuple) else found) == value


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
@pytest.mark.parametrize(
    "column",
    [name for name in fields.MOST if name in COLUMNS],
)
def test_a_row_that_is_too_long_is_refused(
    store: Store, hand: sqlite3.Connection, column: str, text: str
) -> None:
    most = fields.MOST[column]
    content = text
    if column == "env":
        content = json.dumps({"A": text})
    elif most.items is not None:
        content = json.dumps([text])
    insert = f"INSERT INTO stayer_tasks ({column}) VALUES (?)"
    if column != "id":
        insert = f"INSERT INTO stayer_tasks (id, \"{column}\") VALUES ('a', ?)"
    with pytest.raises(sqlite3.IntegrityError):
        hand.execute(insert, (content,))
    assert store.find(Filter(), None, 9).tasks == ()


def test_an_older_file_gets_the_new_checks_when_it_is_opened(path: Path, store: Store) -> None:
    hand = sqlite3.connect(path, isolation_level=None)
    [(sql,)] = hand.execute("SELECT sql FROM sqlite_master WHERE name = 'stayer_task_by_hand'")
    assert re.search("-- revision [1-9][0-9]{2}:", sql)
    hand.execute("DROP TRIGGER stayer_task_by_hand")
    hand.execute(
        "CREATE TRIGGER stayer_task_by_hand AFTER INSERT ON stayer_tasks "
        "WHEN new.updated IS NULL BEGIN SELECT 1; END"
    )
    store.setup()
    with pytest.raises(sqlite3.IntegrityError, match="policy"):
        hand.execute("INSERT INTO stayer_tasks (id, policy) VALUES ('a', '3')")
    hand.close()
