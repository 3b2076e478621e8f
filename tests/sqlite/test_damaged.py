"""Garbage in every column of every table: nothing stops for it, and `doctor` names it."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.service.lease.failure_detector import Watcher
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import fill, get, register, take
from tests.contract.damaged import goes_on, look_at_everything, scene

GARBAGE = {
    "latin-1": "CAST(x'4dfc6c6c6572' AS TEXT)",
    "bytes": "x'00ff00'",
    "huge": "9e999",
    "text": "'garbage'",
    "nested": "'" + "[" * 2000 + "]" * 2000 + "'",
    "nested in an unknown field": '\'{"x": ' + "[" * 2000 + "]" * 2000 + "}'",
    "number": "9223372036854775807",
}
TABLES = (
    "stayer_tasks", "stayer_queues", "stayer_workers", "stayer_schedules", "stayer_events",
    "stayer_upstreams", "stayer_outbox", "stayer_notices", "stayer_flows", "stayer_history",
    "stayer_shares", "stayer_usage", "stayer_checkpoints", "stayer_logs", "stayer_figures",
    "stayer_purged", "stayer_files",
)  # fmt: skip
_GOOD = {"stayer_tasks": "id NOT LIKE 'good%'", "stayer_queues": "name = 'q'",
         "stayer_workers": "id = 'w'", "stayer_events": "queue = 'q'"}  # fmt: skip


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with something of everything."""
    path = tmp_path_factory.mktemp("damaged") / "scene.db"
    store = open_store(f"sqlite:///{path}")
    store.setup()
    scene(store)
    store.close()
    hand = sqlite3.connect(path)
    hand.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    hand.close()
    return path


def columns(path: Path, table: str) -> list[str]:
    hand = sqlite3.connect(path)
    try:
        return [row[1] for row in hand.execute(f"PRAGMA table_xinfo({table})") if not row[6]]
    finally:
        hand.close()


def damage(path: Path, table: str, column: str, garbage: str) -> int:
    """How many rows have it; none where the table itself refuses it."""
    hand = sqlite3.connect(path)
    try:
        where = _GOOD.get(table, "1")
        with hand:
            return hand.execute(f'UPDATE {table} SET "{column}" = {garbage} WHERE {where}').rowcount
    except (sqlite3.IntegrityError, sqlite3.OperationalError):
        return 0
    finally:
        hand.close()


def opened(path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{path}")
    store.setup()
    yield store
    store.close()


def stops_nothing(path: Path, what: str) -> None:
    for store in opened(path):
        try:
            look_at_everything(store)
            goes_on(store)
            look_at_everything(store)
        except BaseException as error:
            error.add_note(what)
            raise


@pytest.mark.parametrize("kind", GARBAGE)
@pytest.mark.parametrize("table", TABLES)
def test_garbage_in_all_columns_stops_nothing(
    prepared: Path, tmp_path: Path, table: str, kind: str
) -> None:
    path = tmp_path / "damaged.db"
    shutil.copy(prepared, path)
    rows = [damage(path, table, column, GARBAGE[kind]) for column in columns(prepared, table)]
    if kind == "latin-1" and any(rows):
        named(path, table)
    stops_nothing(path, f"{kind} in {table}")


def named(path: Path, table: str) -> None:
    """By `stayer doctor`."""
    for store in opened(path):
        [found] = [each for each in store.check() if each.check == "damage"]
        assert found.status == "warn"
        assert table in found.message


@pytest.mark.long
@pytest.mark.parametrize("table", TABLES)
def test_garbage_in_any_one_column_stops_nothing(
    prepared: Path, tmp_path: Path, table: str
) -> None:
    for column in columns(prepared, table):
        for kind, garbage in GARBAGE.items():
            path = tmp_path / f"{column}-{kind}.db"
            shutil.copy(prepared, path)
            if damage(path, table, column, garbage):
                stops_nothing(path, f"{kind} in {table}.{column}")
            path.unlink()


def test_a_row_in_latin_1_fails_alone_and_says_so(
    store: Store, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hand = sqlite3.connect(path)
    for column in ("owner", "name", "parameters", "id", "tags", "cwd", "key"):
        hand.execute(
            f"INSERT INTO stayer_tasks (id, queue, command) VALUES ('{column}-bad', 'q', '[\"x\"]')"
            if column != "name"
            else "INSERT INTO stayer_tasks (id, queue) VALUES ('name-bad', 'q')"
        )
        garbage = GARBAGE["latin-1"] if column != "tags" else "CAST(x'5b224dfc225d' AS TEXT)"
        hand.execute(f"UPDATE stayer_tasks SET {column} = {garbage} WHERE id = '{column}-bad'")
    hand.commit()
    good = fill(store, 2, queue="q")
    named(path, "stayer_tasks")
    register(store)
    with caplog.at_level(logging.WARNING):
        assert [task.id for task in take(store, limit=99)] == good
    assert "owner is not UTF-8 text: b'M\\xfcller'" in caplog.text
    task = get(store, "owner-bad")
    assert (task.state, task.ending) == ("failed", "error")
    assert task.error is not None
    assert "owner is not UTF-8 text" in task.error.message
    assert get(store, "M\ufffdller").state == "failed"
    named(path, "stayer_tasks")
    originals = hand.execute(
        "SELECT hex(value) FROM stayer_damaged WHERE \"column\" = 'owner'"
    ).fetchall()
    assert originals == [("4DFC6C6C6572",)]
    hand.close()


def test_counters_are_right_after_rows_were_set_aside(store: Store, path: Path) -> None:
    hand = sqlite3.connect(path)
    hand.execute(
        f"INSERT INTO stayer_tasks (id, queue, owner) VALUES ('bad', 'q', {GARBAGE['latin-1']})"
    )
    hand.commit()
    hand.close()
    assert get(store, "bad").state == "failed"
    assert store.queues(["q"])[0].counts["failed"] == 1
    assert store.queues(["q"])[0].counts["pending"] == 0
    assert [f.status for f in store.check() if f.check == "counters"] == ["ok"]


@pytest.mark.parametrize("garbage", ["'garbage'", "x'00ff00'", "9e999"])
def test_a_worker_whose_lease_can_not_be_read_is_not_given_up_for_that(
    store: Store, path: Path, garbage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("stayer.service.lease.failure_detector.moment", lambda: now[0])
    register(store)
    fill(store, 1)
    [task] = take(store)
    hand = sqlite3.connect(path)
    hand.execute(f"UPDATE stayer_workers SET lease = {garbage}")
    hand.commit()
    hand.close()
    register(store, "somebody who could take it")
    watcher = Watcher(store)
    for _ in range(20):
        watcher.look()
        now[0] += watcher.pause
    assert get(store, task.id).state == "reserved"
