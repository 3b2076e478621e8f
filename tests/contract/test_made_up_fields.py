"""A field is said once: those that a copy of Stayer has in its classes and in the table of fields,
and nowhere else, are submitted, stored, returned, listed and shown as all others are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from stayer.core.model import Filter, NewTask
from stayer.store import Store
from stayer.stores.sql.store import SqlStore
from tests.contract import made_up
from tests.contract.own_connections import run_by_hand

ROOT = Path(__file__).parents[2]
Run: TypeAlias = Callable[..., str]


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a Stayer is that has more fields."""
    return made_up.make_copy(tmp_path_factory.mktemp("copy"))


@pytest.fixture
def run(copy: Path, tmp_path: Path) -> Run:
    """Run Python with that Stayer; what it prints."""

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={
                **os.environ, "PYTHONPATH": f"{copy}:{ROOT}", "HOME": str(tmp_path),
                "COLUMNS": "200", "TZ": "UTC",
            },
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_store_keeps_it_beside_what_is_older(timely: Store, url: str, run: Run) -> None:
    timely.submit([NewTask(id="old", queue="attic")])
    run("-m", "tests.contract.made_up", url)

    # And this Stayer, which does not know of it, goes on with the same store.
    [rose] = timely.get(["rose"])
    assert rose is not None
    assert (rose.state, rose.result) == ("complete", "in bloom")
    timely.submit([NewTask(id="young", queue="attic", tags=("new",))])
    found = timely.find(Filter(queues=("attic",)), None, 9).tasks
    assert [task.id for task in found] == ["young", "old"]

    if isinstance(timely, SqlStore):
        _insert_by_hand(timely)


def _insert_by_hand(store: SqlStore) -> None:
    """What the newer Stayer has left in the database fills in and checks rows by hand."""
    columns = "colour, labels, policy"
    run_by_hand(store, "INSERT INTO stayer_tasks (id, queue) VALUES ('fern', 'shop')")
    run_by_hand(
        store,
        f"INSERT INTO stayer_tasks (id, queue, {columns}) "
        "VALUES ('moss', 'shop', 'green', '{}', '{\"patience\": 5}')",
    )
    rows = run_by_hand(store, f"SELECT {columns} FROM stayer_tasks WHERE id IN ('fern', 'moss')")
    read = sorted((colour, *map(json.loads, rest)) for colour, *rest in rows)
    assert read == [
        ("12", {"of": "a shop"}, {"patience": 60}),
        ("green", {}, {"patience": 5}),
    ]
    with pytest.raises(Exception, match="colour has at most 64 characters"):
        run_by_hand(
            store, f"INSERT INTO stayer_tasks (id, queue, colour) VALUES ('x', 'q', '{'r' * 65}')"
        )
