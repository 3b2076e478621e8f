"""SQLite's log is carried over into the file beside the writers."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import threading
from contextlib import closing
from pathlib import Path

import pytest

from stayer.core.submit.checks import new_task
from stayer.store import Store
from stayer.stores.sql.sqlite import wal_checkpointer
from tests.client.actors import until


def submit(store: Store, number: int) -> None:
    store.submit([new_task(queue="q", parameters={"number": each}) for each in range(number)])


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "carrier"]


def all_carried_over(path: Path) -> bool:
    """Whether the file has all tasks, without its log. Copied by another process: to close a file
    is to lose SQLite's locks on it."""
    copy = path.with_name("copy.db")
    subprocess.run(["cp", path, copy], check=True)
    counts: list[int] = []
    for file in (path, copy):
        with closing(sqlite3.connect(file)) as db:
            try:
                counts += db.execute("SELECT count(*) FROM stayer_tasks").fetchone()
            except sqlite3.DatabaseError:  # some of it is not there yet
                return False
    return counts[0] == counts[1]


def test_what_was_written_is_carried_over_soon(store: Store, path: Path) -> None:
    submit(store, 100)
    assert not threads()
    submit(store, 500)
    until(lambda: all_carried_over(path))
    store.close()
    assert not threads()


def test_a_closed_store_can_be_written_again(store: Store) -> None:
    for _ in range(3):
        submit(store, 500)
        assert len(threads()) == 1
        store.close()
        assert not threads()


def test_nobody_is_left_of_a_store_left_open(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal_checkpointer, "_IDLE", 0.01)
    submit(store, 500)
    until(lambda: not threads())
    submit(store, 500)
    assert len(threads()) == 1
    store.close()


def test_a_file_that_is_gone_ends_the_thread_and_nothing_else(store: Store, path: Path) -> None:
    submit(store, 100)
    log = wal_checkpointer.Carrier(str(path.parent / "nowhere" / "stayer.db"), "NORMAL")
    log.written(1000)
    until(lambda: not threads())
    submit(store, 500)
    until(lambda: all_carried_over(path))


def test_a_fork_waits_for_it(store: Store, path: Path) -> None:
    """And the child, where there is no such thread, has one of its own."""
    submit(store, 500)
    assert len(threads()) == 1
    forked = threading.Event()
    answers: list[int] = []

    def fork() -> None:
        if (pid := os.fork()) == 0:
            try:
                submit(store, 500)
                count = len(threads())
                store.close()
                os._exit(10 + count)
            finally:
                os._exit(1)
        forked.set()
        answers.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    with wal_checkpointer._at_it:
        forker = threading.Thread(target=fork)
        forker.start()
        assert not forked.wait(0.2)
    forker.join()
    assert answers == [11]
    submit(store, 500)
    until(lambda: all_carried_over(path))
    store.close()
