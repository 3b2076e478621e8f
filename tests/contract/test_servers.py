"""What servers need of a store for workers who come through them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from stayer.core.happenings import Interrupt
from stayer.core.model import LogPiece, Progress, Report, Task
from stayer.store import Store
from tests.contract.builders import Clock, apply, get, register, started


class TestReportsBetweenBeats:
    @pytest.fixture
    def task(self, store: Store) -> Task:
        register(store)
        return started(store)

    def test_are_taken_without_renewing_the_lease(
        self, store: Store, clock: Clock, task: Task
    ) -> None:
        [before] = store.workers()
        clock.advance(10)
        news = Report(
            id=task.id, attempt=1, progress=Progress(1, 2, "half"), checkpoint=b"saved",
            log=(LogPiece(0, b"first\n"),),
        )  # fmt: skip

        assert store.report("w", [news]) == [True]

        assert store.workers() == [before]
        shown = get(store, task.id).progress
        assert shown is not None
        assert (shown.done, shown.total, shown.message) == (1, 2, "half")
        saved = store.checkpoint(task.id)
        assert saved is not None
        assert (saved.attempt, saved.data) == (1, b"saved")
        assert [piece.data for piece in store.log(task.id, 1, 0, 100)] == [b"first\n"]

    def test_say_which_attempts_are_not_held(self, store: Store, task: Task) -> None:
        other = started(store)
        apply(store, other, Interrupt())
        news = Report(id=task.id, attempt=1, log=(LogPiece(0, b"x"),))

        answers = store.report(
            "w",
            [replace(news, attempt=2), replace(news, id=other.id), news, replace(news, id="none")],
        )

        assert answers == [False, False, True, False]
        assert store.log(other.id, 1, 0, 100) == []

    def test_of_another_worker_are_dropped(self, store: Store, task: Task) -> None:
        register(store, "another")

        assert store.report("another", [Report(id=task.id, attempt=1, checkpoint=b"no")]) == [False]

        assert store.checkpoint(task.id) is None


class TestWhatIsRecordedOnce:
    def test_is_what_came_first(self, store: Store) -> None:
        assert store.read_record("key of ☃") is None

        assert store.record_once("key of ☃", "first ☃", 60.0) == "first ☃"
        assert store.record_once("key of ☃", "second", 60.0) == "first ☃"
        assert store.record_once("another", "", 60.0) == ""

        assert store.read_record("key of ☃") == "first ☃"
        assert store.read_record("another") == ""

    def test_is_one_thing_whoever_comes_at_once(self, store: Store) -> None:
        with ThreadPoolExecutor(8) as threads:
            found = set(threads.map(lambda n: store.record_once("k", f"{n}", 60.0), range(8)))

        assert found == {store.read_record("k")}


class TestWhatIsShared:
    def test_is_replaced_by_one_of_two(self, store: Store, other: Store) -> None:
        long = "☃" * 100_000
        assert store.read_shared("access") is None

        assert store.put_shared("access", "first", None)
        assert not other.put_shared("access", "second", None)
        assert other.put_shared("access", long, "first")
        assert not store.put_shared("access", "fourth", "first")

        assert store.read_shared("access") == long
        assert store.read_shared("totals") is None
