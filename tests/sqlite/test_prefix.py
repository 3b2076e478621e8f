"""Several stores in one file, told apart by the prefix of their tables (`?prefix=`)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.core.errors import BadConfig, StoreUnusable
from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.core.worker_model import EVERYTHING
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import check_counts, get, new, register, submit
from tests.contract.damaged import scene

PREFIX = "jobs_"


@pytest.fixture
def prefixed(path: Path) -> Iterator[Store]:
    """A store in the file of `store`, in tables of its own."""
    store = open_store(f"sqlite:///{path}?prefix={PREFIX}")
    store.setup()
    yield store
    store.close()


def everything(path: Path, prefix: str) -> dict[str, list[tuple[object, ...]]]:
    """All rows of the tables with this prefix."""
    hand = sqlite3.connect(path)
    try:
        tables = [
            name
            for (name,) in hand.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if name.startswith(prefix)
        ]
        return {table: hand.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    finally:
        hand.close()


def test_two_stores_in_one_file_never_disturb_each_other(
    path: Path, store: Store, prefixed: Store
) -> None:
    scene(store)
    before = everything(path, "stayer_")
    assert any(before.values())

    scene(prefixed)

    assert everything(path, "stayer_") == before
    assert store.identity() != prefixed.identity()
    there = {name.removeprefix(PREFIX) for name in everything(path, PREFIX)}
    assert there == {name.removeprefix("stayer_") for name in before}


def test_the_same_id_is_another_task_in_each(store: Store, prefixed: Store) -> None:
    submit(store, new("a", parameters="here"))
    submit(prefixed, new("a", parameters="there"))
    register(prefixed)
    [taken] = prefixed.reserve("w", ["q"], 9, EVERYTHING)
    prefixed.commit([decide(taken, Done())])
    assert get(store, "a").state == "pending"
    assert get(prefixed, "a").state == "complete"
    prefixed.purge(["a"], ["complete"], prefixed.now() + 9, 9)
    assert get(store, "a").parameters == "here"
    check_counts(store)
    check_counts(prefixed)


def test_rows_by_hand_are_tasks_of_the_store_with_that_prefix(
    path: Path, store: Store, prefixed: Store
) -> None:
    hand = sqlite3.connect(path, isolation_level=None)
    hand.execute(f"INSERT INTO {PREFIX}tasks (id, queue) VALUES ('a', 'q')")
    assert get(prefixed, "a").state == "pending"
    assert store.get(["a"]) == [None]
    hand.execute(f"DELETE FROM {PREFIX}tasks WHERE id = 'a'")
    hand.close()
    assert prefixed.get(["a"]) == [None]
    assert [event.event for event in prefixed.watch(0, 0.0, 9)] == ["deleted"]
    check_counts(prefixed)


def test_a_store_with_a_prefix_leaves_no_table_index_view_or_trigger_without_it(path: Path) -> None:
    alone = open_store(f"sqlite:///{path}?prefix={PREFIX}")
    alone.setup()
    scene(alone)
    hand = sqlite3.connect(path)
    with hand:
        hand.execute(f"UPDATE {PREFIX}tasks SET owner = CAST(x'ff' AS TEXT)")
    assert get(alone, "waits").state == "failed"
    names = [name for (name,) in hand.execute("SELECT name FROM sqlite_master")]
    hand.close()
    assert [name for name in names if not name.startswith((PREFIX, "sqlite_"))] == []
    alone.close()


def test_what_is_damaged_is_set_aside_and_named_with_the_prefix(
    path: Path, store: Store, prefixed: Store, caplog: pytest.LogCaptureFixture
) -> None:
    submit(prefixed, new("a"))
    hand = sqlite3.connect(path, isolation_level=None)
    hand.execute(f"UPDATE {PREFIX}tasks SET owner = CAST(x'ff' AS TEXT)")
    [damage] = [each for each in prefixed.check() if each.check == "damage"]
    assert f"{PREFIX}tasks" in damage.message
    assert get(prefixed, "a").state == "failed"
    assert hand.execute(f'SELECT "table" FROM {PREFIX}damaged').fetchall() == [(f"{PREFIX}tasks",)]
    hand.close()
    assert f"the table {PREFIX}damaged has it" in caplog.text
    [damage] = [each for each in prefixed.check() if each.check == "damage"]
    assert f"DELETE FROM {PREFIX}damaged" in (damage.todo or "")
    assert [each.status for each in store.check()] == ["ok"] * 3


def test_a_store_whose_tables_are_not_made_says_so(path: Path, store: Store) -> None:
    unmade = open_store(f"sqlite:///{path}?prefix=other_")
    with pytest.raises(StoreUnusable, match="run `stayer init`"):
        unmade.get(["a"])
    unmade.close()


@pytest.mark.parametrize(
    "prefix",
    [
        "", "_", "jobs", "Jobs_", "JOBS_", "1jobs_", "_jobs_", "jobs__", "job-s_", "job%20s_",
        "j;_", 'j"_', "jöbs_", "a" * 30 + "_", "sqlite_", "sqlite_x_", "pg_", "stayer_tasks_",
        "a_queues_",
    ],
)  # fmt: skip
def test_a_prefix_that_some_database_would_not_take_is_refused(path: Path, prefix: str) -> None:
    with pytest.raises(BadConfig, match="prefix=jobs_"):
        open_store(f"sqlite:///{path}?prefix={prefix}")


@pytest.mark.parametrize("prefix", ["a_", "jobs2_", "team_a_jobs_", "tasks_", "a" * 29 + "_"])
def test_a_prefix_may_be_short_or_long_and_have_several_words(path: Path, prefix: str) -> None:
    store = open_store(f"sqlite:///{path}?prefix={prefix}")
    store.setup()
    submit(store, new("a"))
    assert get(store, "a").state == "pending"
    store.close()


def test_a_prefix_stands_beside_other_options(path: Path) -> None:
    store = open_store(f"sqlite:///{path}?Synchronous=FULL&prefix=jobs_&shared=group")
    store.setup()
    store.close()
    assert everything(path, "jobs_")
