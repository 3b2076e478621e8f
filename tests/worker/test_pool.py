"""The loop of a pool, without a worker around it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from stayer.core.model import Worker
from stayer.runners.pool import link
from stayer.runners.pool.begun import Begun
from stayer.runners.pool.calling import ThreadApp
from stayer.runners.pool.pool import Pool
from stayer.store import Store, Waiter
from stayer.stores import open_store


class AnApp:
    names = ("nothing",)


class Sleepless:
    """Counts how often the pool lies down, and wakes it at once."""

    times = 0

    def wait(self, timeout: float) -> bool:
        self.times += 1
        return False

    def ring(self) -> None: ...


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path}/stayer.db")
    store.setup()
    store.beat(Worker(id="w", node="n", pid=1, queues=("default",)), 1, "first", [])
    yield store
    store.close()


def test_a_pool_that_is_to_finish_and_has_nothing_does_not_lie_down(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing would wake it: it would leave when its worker's patience is over."""
    waiter = Sleepless()
    monkeypatch.setattr(store, "waiter", lambda *_: cast(Waiter, waiter))
    setup = link.Setup(
        store="", worker="w", app="", queues=("default",), evenly=False, threads=2, lease=60.0,
        time_limit=None, state=str(tmp_path),
    )  # fmt: skip
    ours, _ = link.pair()
    app = cast(ThreadApp, AnApp())
    pool = Pool(setup, store, app, Begun(tmp_path / "begun", 2), ours)
    pool.hear(link.Finish(stop=True))
    pool.run()
    assert waiter.times == 0
