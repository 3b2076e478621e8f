"""The same state directory with another store: what belongs to the first one is left alone."""

from __future__ import annotations

import os
import signal

from stayer.stores import open_store
from tests.faults.fleet import Fleet, until

WAIT_FOR = "while [ ! -e {} ]; do sleep 0.05; done; echo 42 > $STAYER_RESULT"


def test_a_worker_with_another_store_is_refused_while_something_is_at_stake(fleet: Fleet) -> None:
    one = fleet.worker("one", lease=60)
    fleet.stamper("a")
    fleet.submit("b", "sh", "-c", WAIT_FOR.format(fleet.folder / "b.stop"))
    fleet.until_stamped("a")
    for id in ("a", "b"):
        fleet.until_state(id, "started")
    fleet.signal(one, signal.SIGKILL)
    fleet.finish("b")
    until((fleet.folder / "one" / "run" / "b.1" / "exit").exists)

    first, fleet.url = fleet.url, f"sqlite:///{fleet.folder}/other.db"
    assert fleet.end_of(fleet.worker("one", lease=60)) == 2
    assert "belongs to another store" in (fleet.folder / "one.log").read_text()

    before = len(fleet.read_stamps("a")[1])
    fleet.until_stamped("a", more_than=before)
    os.symlink(fleet.folder, fleet.folder / "elsewhere")
    fleet.url = first.replace("stayer.db", "elsewhere/stayer.db")  # another way to the first
    fleet.worker("one", lease=60)
    done = fleet.until_ended("b")
    assert (done.state, done.attempt, done.result) == ("complete", 1, 42)
    fleet.finish("a")
    assert fleet.until_ended("a").attempt == 1


def test_an_idle_state_directory_may_go_with_another_store(fleet: Fleet) -> None:
    one = fleet.worker("one", lease=60)
    until(fleet.store.workers)
    fleet.signal(one, signal.SIGKILL)
    fleet.url = f"sqlite:///{fleet.folder}/other.db"
    with_other = open_store(fleet.url)
    with_other.setup()
    fleet.worker("one", lease=60)
    until(with_other.workers)
    with_other.close()


def test_a_worker_of_another_store_is_not_taken_over(fleet: Fleet) -> None:
    one = fleet.worker("one", lease=60)
    until(fleet.store.workers)
    fleet.url = f"sqlite:///{fleet.folder}/other.db"
    assert fleet.end_of(fleet.worker("one", lease=60, take_over=True)) == 2

    said = (fleet.folder / "one.log").read_text()
    assert f"(process {one})" in said
    assert f"--state-dir {fleet.folder}/one-2" in said
    assert "SIGHUP" not in said
    assert fleet.workers[0].poll() is None
