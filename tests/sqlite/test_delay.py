"""Whoever has to wait for the file to be free tells of what was before."""

from __future__ import annotations

from pathlib import Path

from stayer.core.happenings import Done
from stayer.core.lifecycle import decide
from stayer.core.model import Change
from stayer.core.worker_model import EVERYTHING
from stayer.stores import open_store
from tests.contract.builders import Clock, get, in_thread, register, started
from tests.sqlite.test_database import holding, wait_until_blocked


def test_an_end_that_waits_for_other_writers_is_when_it_was(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "stayer.db"
    store = open_store(f"sqlite:///{path}", clock=clock)
    store.setup()
    register(store)
    committed, turned = started(store), started(store)
    clock.advance(10)
    ended = clock.now
    for task, in_a_turn in ((committed, False), (turned, True)):
        change = decide(task, Done(), ago=clock.now - ended)

        def tell(change: Change = change, in_a_turn: bool = in_a_turn) -> None:
            if in_a_turn:
                store.turn("w", [change], ["q"], 0, EVERYTHING)
            else:
                store.commit([change])

        with holding(path) as holder:
            answer = in_thread(tell)
            wait_until_blocked(f"{path}-lock", 1)
            clock.advance(5)
            holder.kill()
            answer()
        assert get(store, task.id).finished_at == ended
    assert get(store, turned.id).updated == ended + 10
    store.close()
