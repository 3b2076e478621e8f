"""Many ends at once leave the rows behind that each end by itself does, as `decide` says."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stayer.core.happenings import Done, Start
from stayer.core.lifecycle import decide
from stayer.core.model import Task
from stayer.core.worker_model import EVERYTHING
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.sql import commit
from tests.contract.builders import Clock, apply, new, register, submit, take

OWN = ("id", "seq", "queue", "history")
"""What no two tasks have in common; of the history see `lines`."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(path: Path, clock: Clock) -> Iterator[Store]:
    store = open_store(f"sqlite:///{path}", clock=clock)
    store.setup()
    register(store, queues=("one by one", "at once"))
    yield store
    store.close()


def rows(path: Path, queue: str) -> list[dict[str, Any]]:
    """All columns of the tasks of a queue, but what is each one's own."""
    with sqlite3.connect(path) as connection:
        connection.row_factory = sqlite3.Row
        found = connection.execute(
            "SELECT * FROM stayer_tasks WHERE queue = ? ORDER BY seq", (queue,)
        ).fetchall()
    connection.close()
    return [
        {
            **{column: row[column] for column in row.keys() if column not in OWN},  # noqa: SIM118
            "lines": [line.partition(",")[2] for line in row["history"].splitlines()],
        }
        for row in found
    ]


def running(store: Store, queue: str, count: int, is_started: bool) -> list[Task]:
    submit(store, *(new(queue=queue, parameters={"n": n}) for n in range(count)))
    tasks = take(store, "w", queue, count)
    return [apply(store, task, Start(7)) for task in tasks] if is_started else tasks


@pytest.mark.parametrize("is_started", [False, True], ids=["reserved", "started"])
@pytest.mark.parametrize("count", [3, 60], ids=["few", "a stretch"])
@pytest.mark.parametrize("later", [5.0, -50.0], ids=["later", "with the clock set back"])
def test_ends_at_once_are_as_ends_one_by_one(
    store: Store, path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, is_started: bool,
    count: int, later: float,
) -> None:  # fmt: skip
    singly = running(store, "one by one", count, is_started)
    at_once = running(store, "at once", count, is_started)
    clock.advance(later)
    for number, task in enumerate(singly):
        store.commit([decide(task, Done(number))])
    one_by_one = rows(path, "one by one")

    # When all come at once, none may go the way of a single change
    monkeypatch.setattr(commit, "_apply", None)
    changes = [decide(task, Done(number)) for number, task in enumerate(at_once)]
    applied, _ = store.turn("w", changes, ["at once"], 0, EVERYTHING)

    assert applied == [True] * count
    assert rows(path, "at once") == one_by_one
