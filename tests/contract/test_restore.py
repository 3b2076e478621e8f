"""A backup becomes a store of any kind, and one that was restored by other means is readied: no
worker of before goes on there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stayer.core.errors import LeaseLost
from stayer.core.happenings import Done, Start
from stayer.core.lifecycle import decide
from stayer.service.backup import backup, restore, settle
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import (
    Clock,
    apply,
    beat,
    check_counts,
    fill,
    get,
    new,
    register,
    submit,
    take,
)
from tests.contract.moved import differences, everything
from tests.contract.moved import fill as fill_with_everything


def test_a_backup_becomes_a_store_of_any_kind(store: Store, clock: Clock, tmp_path: Path) -> None:
    source = open_store(f"sqlite:///{tmp_path}/source.db", clock=clock)
    source.setup()
    fill_with_everything(source, clock)
    before = everything(source)
    backup(source, f"{tmp_path}/copy.db")
    source.close()

    settled, moved = restore(f"{tmp_path}/copy.db", store, lambda _: None, resume=True)

    assert settled.returned == 0
    assert moved.counts["tasks"] == len(before["tasks"])
    assert differences(_sorted(before), _sorted(everything(store))) == []
    check_counts(store)


def _sorted(all_there_is: dict[str, Any]) -> dict[str, Any]:
    """Notices of one moment come in no order."""
    return {**all_there_is, "notices": sorted(all_there_is["notices"], key=str)}


def test_a_store_that_was_restored_in_place_knows_no_worker(store: Store) -> None:
    register(store, "w")
    submit(store, new("held", queue="a"), new("waits", queue="b"))
    [task] = take(store, queues="a")
    running = apply(store, task, Start())

    settled = settle(store)

    assert (settled.workers, settled.returned, set(settled.paused)) == (1, 1, {"a", "b"})
    assert store.workers() == []
    assert get(store, "held").state == "pending"
    with pytest.raises(LeaseLost):
        beat(store, "w", 2)
    register(store, "new")
    assert take(store, "new", queues=["a", "b"], limit=5) == []
    for queue in settled.paused:
        store.set_queue(queue, paused=False)
    assert len(take(store, "new", queues=["a", "b"], limit=5)) == 2
    assert store.commit([decide(running, Done())]) == [None], "it is another's now"
    assert settle(store, resume=True).returned == 2
    check_counts(store)


def test_nothing_is_taken_between(store: Store) -> None:
    """What is returned to its queue is in one that is paused already."""
    register(store, "w")
    fill(store, 3)
    take(store, limit=3)
    settle(store)
    assert [queue.paused for queue in store.queues()] == [True]
    assert store.queues()[0].counts["pending"] == 3
