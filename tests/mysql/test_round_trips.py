"""How many packets are answered for what workers do all the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest

from stayer.core.happenings import Done, Start
from stayer.core.lifecycle import decide
from stayer.core.model import LogPiece, Progress, Report
from stayer.core.worker_model import EVERYTHING
from stayer.stores.sql.mysql import MySqlStore
from stayer.stores.sql.mysql.driver import Connection, Result
from tests.contract.builders import beat, fill, new, register, submit, take, take_one

Trips: TypeAlias = Callable[[Callable[[], object]], int]


@pytest.fixture
def trips(store: MySqlStore, monkeypatch: pytest.MonkeyPatch) -> Trips:
    """How many round trips something takes, once the queue has been seen."""
    sent: list[int] = []
    run = Connection.run

    def counted(connection: Connection, texts: Sequence[bytes]) -> list[Result]:
        sent.append(len(texts))
        return run(connection, texts)

    def count(act: Callable[[], object]) -> int:
        store.now()  # which is asked for once a second
        sent.clear()
        act()
        return len(sent)

    register(store)
    fill(store, 2)
    store.turn("w", [decide(task, Done()) for task in take(store, limit=2)], ["q"], 0, EVERYTHING)
    monkeypatch.setattr(Connection, "run", counted)
    monkeypatch.setattr(store._database._upkeep, "written", lambda *_: None)
    return count


def test_a_submission_takes_one_and_two_with_an_id_of_ones_own(
    store: MySqlStore, trips: Trips
) -> None:
    assert trips(lambda: submit(store, new("drawn", generated=True))) == 1
    assert trips(lambda: submit(store, new("chosen"))) == 2


def test_a_reservation_takes_two(store: MySqlStore, trips: Trips) -> None:
    fill(store, 3)
    assert trips(lambda: take(store, limit=2)) == 2


def test_a_commit_takes_two(store: MySqlStore, trips: Trips) -> None:
    fill(store, 1)
    task = take_one(store)
    assert trips(lambda: store.commit([decide(task, Start(pid=1))])) == 2


def test_a_turn_takes_three(store: MySqlStore, trips: Trips) -> None:
    fill(store, 5)
    done = [decide(task, Done()) for task in take(store, limit=3)]
    assert trips(lambda: store.turn("w", done, ["q"], 2, EVERYTHING)) == 3


def test_a_beat_takes_one_and_two_with_reports(store: MySqlStore, trips: Trips) -> None:
    fill(store, 2)
    reports = [
        Report(
            id=task.id, attempt=1, progress=Progress(done=1, total=2), checkpoint=b"saved",
            log=(LogPiece(0, b"printed"),),
        )
        for task in take(store, limit=2)
    ]  # fmt: skip
    assert trips(lambda: beat(store, "w", 2)) == 1
    assert trips(lambda: beat(store, "w", 3, *reports)) == 2
