"""Where SQLite keeps what happened: histories in rows, events in batches, and how to read them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.core.happenings import Ask, Cancel, Done, Fail, Hold, Interrupt, Release, Start
from stayer.core.lifecycle import decide
from stayer.core.model import Fault
from stayer.core.worker_model import EVERYTHING
from stayer.service.control import workers as worker_control
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.sql import history, journal
from tests.contract.builders import (
    Clock,
    apply,
    check_counts,
    fill,
    get,
    happened,
    new,
    register,
    started,
    submit,
    take,
    taken,
)

SOME = 12


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path / 'stayer.db'}", clock=clock)
    store.setup()
    register(store)
    yield store
    store.close()


@pytest.fixture
def hand(tmp_path: Path, store: Store) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "stayer.db", isolation_level=None)
    yield connection
    connection.close()


def test_what_happened_alike_is_one_row(store: Store, hand: sqlite3.Connection) -> None:
    names = fill(store, SOME)
    held = take(store, limit=SOME)
    store.turn("w", [decide(task, Done(1)) for task in held], ["q"], 1, EVERYTHING)

    [(rows,)] = hand.execute("SELECT count(*) FROM stayer_events")
    assert rows == 3
    seen = store.watch(0, 0, 100)
    assert [event.number for event in seen] == list(range(1, 3 * SOME + 1))
    assert [event.id for event in seen] == names * 3
    for name in names:
        assert store.events(name) == [event for event in seen if event.id == name]


def test_the_history_has_the_numbers_that_watchers_hear(store: Store) -> None:
    store.submit(
        [new("a"), new("b"), new("c", tags=("x",)), new("d", parameters=b"\xff"), new("e")]
    )
    heard = {event.id: event.number for event in store.watch(0, 0, 10)}
    assert heard == {id: store.events(id)[0].number for id in "abcde"}


def test_a_watcher_may_stop_and_go_on_within_a_row(store: Store) -> None:
    fill(store, SOME)
    whole = store.watch(0, 0, 100)
    for each in range(SOME):
        assert store.watch(each, 0, 5) == whole[each : each + 5]


def test_a_turn_says_which_of_many_were_applied(store: Store) -> None:
    fill(store, SOME)
    held = take(store, limit=SOME)
    over, asked, stopped = held[3], held[5], held[8]
    apply(store, over, Done("first"))
    apply(store, asked, Ask("stack"))
    apply(store, apply(store, stopped, Cancel()), Interrupt())
    before = store.last_event()

    changes = [decide(task, Done(task.id)) for task in (*held, held[0])]
    applied, _ = store.turn("w", changes, ["q"], 1, EVERYTHING)

    refused = (over, asked, stopped)
    assert applied == [task not in refused for task in held] + [False]
    assert get(store, over.id).result == "first"
    assert get(store, asked.id).state == "reserved"
    completed = [task.id for task in held if task not in refused]
    assert [get(store, id).result for id in completed] == completed
    seen = store.watch(before, 0, 100)
    assert [event.id for event in seen] == completed
    assert [event.number for event in seen] == sorted({event.number for event in seen})
    assert all(store.events(event.id)[-1] == event for event in seen)
    check_counts(store)


@pytest.mark.parametrize(
    "result", [None, 0, "", "text\0with nul", b"raw", "x" * 100_000, {"a": []}]
)
def test_any_result_comes_back_from_a_group(store: Store, result: object) -> None:
    names = fill(store, 3)
    changes = [decide(task, Done(result)) for task in take(store, limit=3)]  # type: ignore[arg-type]
    assert store.turn("w", changes, ["q"], 1, EVERYTHING)[0] == [True] * 3
    assert [get(store, name).result for name in names] == [result] * 3
    check_counts(store)


def test_dependents_hear_of_an_end_in_a_group(store: Store) -> None:
    names = fill(store, 3)
    submit(store, new("last", after=tuple(names[:2])))
    assert get(store, "last").state == "waiting"
    changes = [decide(task, Done(1)) for task in take(store, limit=3)]
    assert store.turn("w", changes, ["other"], 1, EVERYTHING)[0] == [True] * 3
    assert get(store, "last").state == "pending"


def test_a_long_history_is_moved_out_of_the_row_and_read_as_one(
    store: Store, hand: sqlite3.Connection
) -> None:
    task = taken(store, id="a")
    for _ in range(60):
        task = apply(store, apply(store, task, Hold()), Release())
        apply(store, task, Interrupt("its worker stopped, and had much to say about it"))
        [task] = take(store)
    apply(store, apply(store, task, Start(7)), Done())

    [(longest,)] = hand.execute("SELECT max(length(history)) FROM stayer_tasks")
    [(parts,)] = hand.execute("SELECT count(*) FROM stayer_history")
    assert longest < history.LONGEST + 1000
    assert parts > 1
    events = store.events("a")
    lap = ["held", "released", "pending", "reserved"]
    assert happened(events) == ["pending", "reserved", *lap * 60, "started", "complete"]
    assert [event.number for event in events] == sorted({event.number for event in events})
    assert events == store.watch(0, 0, 1000)
    assert [attempt.ending for attempt in store.attempts("a")] == ["interrupted"] * 60 + ["done"]
    assert store.attempts("a")[-1].pid == 7

    hand.execute("DELETE FROM stayer_tasks")
    assert hand.execute("SELECT count(*) FROM stayer_history").fetchone() == (0,)


def test_the_view_of_attempts_knows_of_a_gap(store: Store, hand: sqlite3.Connection) -> None:
    task = taken(store, id="a")
    for _ in range(700):
        _, [task] = store.turn("w", [decide(task, Interrupt())], ["q"], 1, EVERYTHING)
    [(parts, lines)] = hand.execute("SELECT count(*), sum(count) FROM stayer_history")
    assert 900 <= lines < 1150
    assert parts < 50
    rows = hand.execute("SELECT attempt, ending FROM stayer_attempts ORDER BY attempt").fetchall()
    assert rows == [(attempt.attempt, attempt.ending) for attempt in store.attempts("a")]
    assert len(rows) < 600


def test_only_the_newest_events_are_kept_for_watchers(
    store: Store, hand: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "EVENTS_KEPT", 20)
    monkeypatch.setattr(journal, "TRIMMED_EVERY", 10)
    for _ in range(30):
        fill(store, 3)
    seen = store.watch(0, 0, 100)
    assert 20 <= len(seen) < 40
    assert seen[-1].number == store.last_event() == 90
    assert all(len(store.events(event.id)) == 1 for event in seen)


def test_attempts_can_be_asked_for_with_sql(
    store: Store, clock: Clock, hand: sqlite3.Connection
) -> None:
    apply(store, taken(store, id="a"), Interrupt("again"))
    apply(store, apply(store, take(store)[0], Start(7)), Fail(Fault("Broken", "it is")))
    register(store, "judge")
    late = started(store, id="late")
    clock.advance(100.7)
    worker_control.return_lost_tasks(store, store.declare_lost("judge", {"w": 1}))
    clock.advance(100.7)
    store.commit([decide(late, Done(), ago=150.3)])
    register(store, "v")
    absurd = taken(store, "v", id="absurd")
    store.commit([decide(absurd, Start(7), ago=9999)])
    taken(store, "v", id="b")

    rows = hand.execute(
        "SELECT t.id, a.attempt, a.worker, a.node, a.pid, a.reserved_at, a.started_at, "
        "a.finished_at, a.ending, a.error ->> 'message' "
        "FROM stayer_attempts AS a JOIN stayer_tasks AS t ON t.seq = a.task ORDER BY 1, 2"
    ).fetchall()

    assert rows == [
        (
            id, known.attempt, known.worker, known.node, known.pid, known.reserved_at,
            known.started_at, known.finished_at, known.ending, known.error and known.error.message,
        )
        for id in ("a", "absurd", "b", "late")
        for known in store.attempts(id)
    ]  # fmt: skip
    assert [row[8] for row in rows] == ["interrupted", "error", None, None, "done"]
    assert rows[-1][7] == clock.now - 150.3
