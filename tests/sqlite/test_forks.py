"""Forks in the midst of what other threads do."""

from __future__ import annotations

import os
import signal
import threading

from stayer.stores.sql.sqlite import SqliteStore
from tests.contract.builders import PATIENCE, fill, in_thread, new, submit


def test_a_child_can_write_though_another_thread_of_the_parent_did_when_it_was_forked(
    store: SqliteStore,
) -> None:
    fill(store, 1)
    has_begun, may_end = threading.Event(), threading.Event()

    def write() -> None:
        with store._database.write() as tx:
            tx.run("queue.pause", False, "q")
            has_begun.set()
            assert may_end.wait(PATIENCE)

    os.register_at_fork(before=may_end.set)  # before the handlers that were registered earlier
    writing = in_thread(write)
    assert has_begun.wait(PATIENCE)
    child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE))
        code = 1
        try:
            submit(store, new("by the child"))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    writing()
    assert status == 0
