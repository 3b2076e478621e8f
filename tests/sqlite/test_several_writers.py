"""The plain road and the fast one leave the same behind."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from stayer.core.happenings import Done, Fail
from stayer.core.lifecycle import decide
from stayer.core.model import Fault, NewTask
from stayer.core.queue_model import Rate
from stayer.core.worker_model import EVERYTHING
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.sql.bulk import Bulk
from stayer.stores.sql.rows import as_text
from stayer.stores.sql.sqlite.database import Database
from stayer.stores.sql.sqlite.dialect import statements
from tests.contract.builders import Clock, new, register
from tests.sqlite.several_writers import LOCKING, Locking, several_writers

_TABLES = (
    "stayer_tasks", "stayer_queues", "stayer_events", "stayer_history", "stayer_upstreams",
    "stayer_outbox", "stayer_purged", "stayer_shares", "stayer_notices",
)  # fmt: skip


def _left_behind(path: Path, act: Callable[[Store, Clock], None], plain: bool) -> dict[str, Any]:
    clock = Clock()
    with several_writers() if plain else nullcontext():
        store = open_store(f"sqlite:///{path}", clock=clock)
        store.setup()
        register(store)
        act(store, clock)
        store.close()
    with closing(sqlite3.connect(path)) as connection:
        return {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
            for table in _TABLES
        }


def _alike(count: int, **about: Any) -> list[NewTask]:
    return [new(f"t{number}", parameters={"n": number}, **about) for number in range(count)]


def _submit(store: Store, clock: Clock) -> None:
    store.submit(_alike(5))
    store.submit([new("b", parameters=b"\0\1"), new("c", delay=5.0), new("d", after=("b",))])
    store.submit([new("t1"), new("e", unique="word"), new("f", unique="word")])


def _reserve(store: Store, clock: Clock) -> None:
    store.submit([*_alike(5), new("o", owner="me", tags=("x",)), new("p", priority=3)])
    clock.advance(1.5)
    assert len(store.reserve("w", ["q"], 3, EVERYTHING)) == 3
    assert len(store.reserve("w", ["q"], 9, EVERYTHING)) == 4


def _turn(store: Store, clock: Clock) -> None:
    store.submit([*_alike(6), new("more"), new("after", after=("t5",))])
    held = store.reserve("w", ["q"], 6, EVERYTHING)
    changes = [decide(task, Done(task.id)) for task in held[:4]]
    changes.append(decide(held[4], Fail(Fault("Error", "no"))))
    clock.advance(1.25)
    answers, tasks = store.turn("w", [*changes, changes[0]], ["q"], 5, EVERYTHING)
    assert answers == [True] * 5 + [False]
    assert [task.id for task in tasks] == ["more"]


def _limits(store: Store, clock: Clock) -> None:
    store.set_queue("q", limit=5, key_limit=1, fair="owner", rate=Rate(4, 60.0))
    store.submit([new(f"k{n}", key=f"k{n % 3}", owner=f"o{n % 2}") for n in range(9)])
    held = store.reserve("w", ["q"], 9, EVERYTHING)
    assert len(held) == 3
    clock.advance(10.0)
    store.commit([decide(task, Done()) for task in held])
    assert len(store.reserve("w", ["q"], 9, EVERYTHING)) == 1


def _purge(store: Store, clock: Clock) -> None:
    store.submit(_alike(4))
    held = store.reserve("w", ["q"], 4, EVERYTHING)
    store.commit([decide(task, Done()) for task in held])
    clock.advance(10.0)
    assert store.forget({"complete": 5.0}, 3) == 3


@pytest.mark.parametrize("act", [_submit, _reserve, _turn, _limits, _purge])
def test_the_plain_road_leaves_what_the_fast_one_leaves(
    tmp_path: Path, act: Callable[[Store, Clock], None]
) -> None:
    fast = _left_behind(tmp_path / "fast.db", act, plain=False)
    plain = _left_behind(tmp_path / "plain.db", act, plain=True)
    for table in _TABLES:
        assert plain[table] == fast[table], table


def test_whoever_takes_from_a_limited_queue_locks_it_first(tmp_path: Path) -> None:
    said: list[str] = []
    with several_writers():
        store = open_store(f"sqlite:///{tmp_path / 's.db'}")
        store.setup()
        register(store)
        store.submit([new("open", queue="open"), new("few", queue="few")])
        store.set_queue("few", limit=1)
        connection = store._database.pool._idle[-1].sqlite  # type: ignore[attr-defined]
        connection.set_trace_callback(said.append)
        store.reserve("w", ["open"], 1, EVERYTHING)
        is_locked = [each for each in said if "stayer_queues" in each and LOCKING.lock in each]
        assert not is_locked
        claims = [each for each in said if LOCKING.claim in each]
        assert len(claims) == 1
        store.reserve("w", ["few"], 1, EVERYTHING)
        is_locked = [each for each in said if "stayer_queues" in each and LOCKING.lock in each]
        assert len(is_locked) == 1
        store.close()


def test_whoever_only_looks_claims_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    with several_writers():
        store = open_store(f"sqlite:///{tmp_path / 's.db'}")
        store.setup()
        store.submit([new("a")])
        connection = store._database.pool._idle[-1].sqlite  # type: ignore[attr-defined]
        connection.set_trace_callback(said.append)
        assert [task.id for task in store.peek("q", 5)] == ["a"]
        assert store.forget({"complete": 1.0}, 5) == 0
        store.close()
    assert said
    assert not [each for each in said if LOCKING.claim in each or LOCKING.lock in each]


class Dollars(Locking):
    """Parameters as PostgreSQL has them."""

    def placeholder(self, number: int) -> str:
        return f"${number}"


def test_every_macro_is_expanded_and_every_parameter_translated() -> None:
    for name, text in statements(Dollars()).items():
        assert "?" not in text, name
        left = text.replace("{where}", "").replace("{sets}", "")
        assert "{" not in left, name


def test_a_dialect_says_how_parameters_and_results_are_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Texts(Locking):
        def value_cell(self, packed: str | bytes | None) -> str | None:
            return as_text(packed)

    monkeypatch.setattr(Database, "dialect", Texts())
    monkeypatch.setattr(Database, "bulk", Bulk())
    store = open_store(f"sqlite:///{path}")
    store.setup()
    register(store)
    store.submit([new("t", parameters=b"\0\1")])
    [task] = store.reserve("w", ["q"], 1, EVERYTHING)
    [done] = store.commit([decide(task, Done(b"\2"))])
    assert done is not None
    assert (done.parameters, done.result) == (b"\0\1", b"\2")
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        kept = connection.execute("SELECT typeof(parameters), typeof(result) FROM stayer_tasks")
        assert kept.fetchall() == [("text", "text")]
