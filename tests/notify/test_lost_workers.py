"""Finding workers that are lost: each once, and none that is only slow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.config import load
from stayer.core.errors import BadConfig
from stayer.core.notify import mail
from stayer.core.notify.notices import Notice, payload, sentence
from stayer.core.worker_model import Worker
from stayer.service.notify.lost_workers import LostWorkers
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import Clock, beat, register, started

LEASE = 80.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path}/stayer.db", clock)
    store.setup()
    yield store
    store.close()


def look_on(clock: Clock, seconds: float, *lookers: LostWorkers) -> None:
    """Look every ten seconds, by a clock that goes like the store's."""
    for _ in range(int(seconds / 10)):
        clock.advance(10)
        for each in lookers:
            each.look(clock())


def found(store: Store) -> list[Notice]:
    return list(store.notices(None, None, None, 100).notices)


def test_is_told_once_by_all_who_look(store: Store, clock: Clock) -> None:
    # Given a worker that dies while it runs something
    known = register(store, "w", lease=LEASE)
    task = started(store, worker="w", id="night-run")
    lookers = [LostWorkers(store, lambda: ("mail", "chat")) for _ in range(2)]
    look_on(clock, LEASE - 10, *lookers)
    assert found(store) == []

    # When its lease is over
    look_on(clock, 30, *lookers)

    # Then each hook hears once
    assert sorted(notice.to for notice in found(store)) == ["chat", "mail"]
    look_on(clock, 1000, LostWorkers(store, lambda: ("mail", "chat")), *lookers)
    assert len(found(store)) == 2
    notice = found(store)[0]
    said = sentence(notice)
    assert said.startswith(
        f"worker w on {known.node} is lost: nothing heard since 2023-11-14T22:13"
    )
    assert said.endswith("it ran night-run")
    assert (notice.queue, payload(notice)["type"]) == (task.queue, "worker.lost")
    text = mail.text(notice, "https://stayer.example.org")
    for line in ("worker:     w", "it ran:     night-run (queue q, attempt 1)", "  stayer workers"):
        assert line in text.splitlines()


def test_is_told_again_if_it_came_back_meanwhile(store: Store, clock: Clock) -> None:
    worker = register(store, "w", lease=LEASE)
    looker = LostWorkers(store, lambda: ("mail",))
    look_on(clock, 2 * LEASE, looker)
    beat(store, worker, 2)
    look_on(clock, LEASE / 2, looker)
    assert len(found(store)) == 1
    look_on(clock, 2 * LEASE, looker)
    assert len(found(store)) == 2
    assert sentence(found(store)[0]).endswith("it ran nothing")


def test_who_lives_or_leaves_is_not_lost(store: Store, clock: Clock) -> None:
    workers = [register(store, name, lease=LEASE) for name in ("lives", "leaves")]
    looker = LostWorkers(store, lambda: ("mail",))
    store.drop_worker("leaves", 1)
    for number in range(2, 30):
        look_on(clock, 10, looker)
        beat(store, workers[0], number)
    assert found(store) == []


def test_an_outage_of_the_store_loses_nobody(store: Store, clock: Clock) -> None:
    workers: list[Worker] = [register(store, name, lease=LEASE) for name in ("back", "dead")]
    looker = LostWorkers(store, lambda: ("mail",))
    look_on(clock, 20, looker)
    clock.advance(1000)  # in which nobody can look, nor beat
    look_on(clock, 30, looker)
    assert found(store) == []
    beat(store, workers[0], 2)
    look_on(clock, 30, looker)
    assert [notice.record["worker"] for notice in found(store)] == ["dead"]


def test_only_hooks_that_are_there_can_hear(tmp_path: Path) -> None:
    file = tmp_path / "stayer.toml"
    file.write_text('[notices]\nworker_lost = ["mial"]\n[hooks.mail]\ncommand = ["true"]\n')
    with pytest.raises(BadConfig, match=r"notices.worker_lost: .*'mial': there are mail"):
        load({"config": str(file)}, {})
