"""`stayer purge` and `stayer delete`."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from stayer.core.happenings import Done, Fail
from stayer.core.model import Fault, Filter
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import apply, new, started, submit


@pytest.fixture(autouse=True)
def tasks(store: Store, worker: str, tmp_path: Path) -> None:
    """Two that ended ten days ago, one that has just ended, one that has not."""
    apply(store, started(store, id="old-good"), Done())
    apply(store, started(store, id="old-bad"), Fail(Fault("E")))
    apply(store, started(store, id="fresh"), Done())
    submit(store, new("open"))
    with sqlite3.connect(tmp_path / "stayer.db") as database:
        database.execute("UPDATE stayer_tasks SET updated = updated - 864000 WHERE id LIKE 'old%'")
    database.close()


def left(store: Store) -> set[str]:
    return {task.id for task in control.find_all(store, Filter())}


def test_purge_forgets_what_ended_longer_ago(stayer: Here, store: Store) -> None:
    assert stayer("purge", "--older", "7d").works().out == "2 tasks forgotten\n"
    assert left(store) == {"fresh", "open"}
    assert stayer("purge", "--older", "0s").works().out == "1 task forgotten\n"
    assert left(store) == {"open"}


def test_what_can_not_be_undone_needs_a_unit(stayer: Here, store: Store) -> None:
    stayer("purge", "--older", "30").refuses("'30' has no unit", "30d")
    assert left(store) == {"old-good", "old-bad", "fresh", "open"}


def test_purge_can_be_told_which_states(stayer: Here, store: Store) -> None:
    assert stayer("purge", "--older", "7d", "--state", "failed").works().out == "1 task forgotten\n"
    assert left(store) == {"old-good", "fresh", "open"}


def test_a_dry_run_only_counts(stayer: Here, store: Store) -> None:
    assert (
        stayer("purge", "--older", "7d", "--dry-run").works().out == "2 tasks would be forgotten\n"
    )
    assert stayer("purge", "--older", "20d", "--dry-run").works().lines == [
        "0 tasks would be forgotten"
    ]
    assert len(left(store)) == 4


def test_delete_forgets_finished_tasks_only(stayer: Here, store: Store) -> None:
    done = stayer("delete", "fresh", "open", "nope", "old-good")

    assert done.lines == ["fresh deleted", "old-good deleted"]
    assert done.code == 2
    assert "'nope'" in done.err
    assert "open is pending" in done.err
    assert left(store) == {"old-bad", "open"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["purge"], ["--older"]),
        (["purge", "--older", "long"], ["--older", "not a duration"]),
        (["purge", "--older", "-7d"], ["-7d"]),
        (["purge", "--older", "7d", "--state", "pending"], ["'pending'", "complete"]),
        (["delete"], ["give the ids of tasks, or a filter"]),
    ],
)
def test_bad_input_is_one_line_and_forgets_nothing(
    stayer: Here, store: Store, arguments: list[str], words: list[str]
) -> None:
    stayer(*arguments).refuses(*words)

    assert len(left(store)) == 4
