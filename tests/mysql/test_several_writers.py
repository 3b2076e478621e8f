"""What holds though several write at a time, and commit in whatever order."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from stayer.core.lifecycle import Done, decide
from stayer.core.model import EVERYTHING
from stayer.stores.sql.journal import Ledger
from stayer.stores.sql.mysql import MySqlStore, upkeep
from stayer.stores.sql.reserve import reserve
from tests.contract.builders import (
    PATIENCE,
    check_counts,
    counts,
    fill,
    in_thread,
    new,
    register,
    submit,
    take,
)
from tests.mysql.conftest import asked, opened


def seen(store: MySqlStore, since: int = 0) -> list[str]:
    return [event.id for event in store.watch(since, 0.0, 1000)]


def wait_for_lock(hand: Any, number: int = 1) -> None:
    """Until so many others wait for a lock. The server looks again only if nobody has asked for a
    tenth of a second.
    """
    for _ in range(int(PATIENCE * 5)):
        waiting = asked(
            hand,
            "SELECT count(*), sleep(0.2) FROM information_schema.innodb_trx "
            "WHERE trx_state = 'LOCK WAIT'",
        )
        if waiting[0][0] >= number:
            return
    raise AssertionError("nobody waits")


class TestWatchers:
    def test_miss_nothing_that_commits_late(self, store: MySqlStore, callers: list[Any]) -> None:
        first, second, third = callers
        store.submit_on(first, [new("a")])
        store.submit_on(second, [new("b")])
        store.submit_on(third, [new("c")])
        second.commit()
        assert seen(store) == ["b"]
        last = store.last_event()
        third.commit()
        first.commit()
        assert sorted(seen(store, last)) == ["a", "c"]
        assert [event.number for event in store.watch(0, 0.0, 100)] == [1, 2, 3]

    def test_are_not_kept_waiting_by_a_transaction_that_stays_open(
        self, store: MySqlStore, callers: list[Any]
    ) -> None:
        store.submit_on(callers[0], [new("open")])
        for name in ("a", "b", "c"):
            submit(store, new(name))
            assert seen(store)[-1] == name
        callers[0].rollback()
        assert seen(store) == ["a", "b", "c"]

    def test_see_each_event_once_while_many_write_and_several_watch(
        self, store: MySqlStore, url: str
    ) -> None:
        deadline = time.monotonic() + PATIENCE

        def watch() -> list[int]:
            mine = opened(url)
            found: list[int] = []
            while len(found) < 60 and time.monotonic() < deadline:
                events = mine.watch(found[-1] if found else 0, 0.05, 50)
                found += [event.number for event in events]
            found += [event.number for event in mine.watch(found[-1], 0.0, 50)]
            mine.close()
            return found

        watching = [in_thread(watch) for _ in range(3)]
        with ThreadPoolExecutor(4) as writers:
            for _ in range(60):
                writers.submit(fill, store, 1)
        for found in watching:
            assert found() == list(range(1, 61))

    def test_hear_of_one_task_in_its_order(self, store: MySqlStore, hand: Any) -> None:
        # Given somebody who begins to change a task, and has its number, before another does
        register(store)
        submit(store, new("a"))
        [task] = take(store)
        asked(hand, "START TRANSACTION")
        asked(hand, "SELECT 1 FROM stayer_tasks WHERE id = 'a' FOR UPDATE")
        late = in_thread(lambda: store.commit([decide(task, Done())]))
        wait_for_lock(hand)
        # When the other's event comes first
        asked(
            hand,
            "INSERT INTO stayer_events (at, ids, queue, event) VALUES (1, '[\"a\"]', 'q', 'first')",
        )
        asked(hand, "COMMIT")
        late()
        # Then watchers hear of it first
        assert [event.event for event in store.watch(0, 0.0, 10)][-2:] == ["first", "complete"]
        numbers = [event.number for event in store.events("a")]
        assert numbers == sorted(set(numbers))


class TestSettings:
    def test_a_limit_that_is_set_while_somebody_takes_is_not_exceeded(
        self, store: MySqlStore, url: str, hand: Any
    ) -> None:
        # Given one who has seen no limit and has taken a task, but not committed
        register(store)
        register(store, "v")
        fill(store, 3)
        other = opened(url)
        with store._database.write() as tx:
            ledger = Ledger(tx)
            assert len(reserve(tx, "w", ["q"], 1, EVERYTHING, ledger)) == 1
            ledger.write()
            tx.exchange([])
            # When somebody sets a limit of one
            setting = in_thread(lambda: other.set_queue("q", limit=1))
            wait_for_lock(hand)
        setting()
        # Then nobody gets a second one
        assert take(other, "v") == []
        assert counts(store) == {"reserved": 1, "pending": 2}
        other.close()

    def test_after_a_pause_nobody_takes_any_more(self, store: MySqlStore, url: str) -> None:
        register(store)
        fill(store, 200)
        paused = threading.Event()

        def work() -> int:
            mine = opened(url)
            register(mine, name := threading.current_thread().name)
            while True:
                was_paused = paused.is_set()
                found = take(mine, name, limit=1)
                if was_paused:
                    mine.close()
                    return len(found)

        workers = [in_thread(work) for _ in range(3)]
        store.set_queue("q", paused=True)
        paused.set()
        assert [each() for each in workers] == [0, 0, 0]

    def test_those_who_take_from_one_queue_do_not_wait_for_each_other(
        self, store: MySqlStore, url: str
    ) -> None:
        register(store)
        register(store, "v")
        fill(store, 4)
        other = opened(url)
        with store._database.write() as tx:
            assert len(reserve(tx, "w", ["q"], 2, EVERYTHING, Ledger(tx))) == 2
            tx.exchange([])
            assert len(take(other, "v", limit=10)) == 2
            fill(other, 1)
        other.close()

    def test_a_task_that_comes_while_lines_are_made_gets_into_its_own(
        self, store: MySqlStore, callers: list[Any]
    ) -> None:
        register(store)
        fill(store, 1, queue="q", owner="x")
        store.submit_on(callers[0], [new("late", queue="q", owner="y")])
        store.set_queue("q", fair="owner")
        callers[0].commit()
        store._database.tidy()
        assert "late" in {task.id for task in take(store, limit=10)}


class TestUniqueWords:
    def test_one_that_is_claimed_in_an_open_transaction_keeps_only_its_like_waiting(
        self, store: MySqlStore, url: str, callers: list[Any], hand: Any
    ) -> None:
        register(store)
        fill(store, 1)
        store.submit_on(callers[0], [new("a", unique="word")])
        # Others of the queue go on
        submit(store, new("b", unique="other"))
        assert len(take(store, limit=10)) == 2
        # One that wants the same waits, and hears who has it
        second = in_thread(lambda: store.submit([new("c", unique="word")]))
        wait_for_lock(hand)
        callers[0].commit()
        [answer] = second()
        assert (answer.task.id, answer.fresh) == ("a", False)

    def test_many_who_want_one_get_one_task(self, store: MySqlStore) -> None:
        with ThreadPoolExecutor(8) as submitters:
            made = [
                submitters.submit(store.submit, [new(f"t{n}", unique="word")]) for n in range(24)
            ]
        assert len({each.result()[0].task.id for each in made}) == 1


class TestCounts:
    def test_are_right_though_many_write_and_rows_are_added_up_meanwhile(
        self, store: MySqlStore, hand: Any
    ) -> None:
        register(store)
        with ThreadPoolExecutor(6) as many:
            for _ in range(40):
                many.submit(fill, store, 2)
                many.submit(upkeep.add_up, store._database)
                many.submit(take, store, limit=1)
        check_counts(store)
        upkeep.add_up(store._database)
        assert asked(hand, "SELECT count(*) FROM stayer_counts") == [(1,)]
        check_counts(store)

    # Seen to wait for the caller's commit once in about twenty runs: an open defect of the store.
    @pytest.mark.long
    def test_a_queue_of_an_open_transaction_comes_with_its_commit(
        self, store: MySqlStore, callers: list[Any]
    ) -> None:
        register(store, queues=["fresh"])
        store.submit_on(callers[0], [new("a", queue="fresh")])
        submit(store, new("b", queue="fresh"))  # nobody waits for the other's commit
        callers[0].commit()
        assert counts(store, "fresh") == {"pending": 2}
        assert len(take(store, queues=["fresh"], limit=10)) == 2


def test_a_deadlock_is_tried_again(store: MySqlStore, hand: Any) -> None:
    # Given one who has a, and wants b; the other is to have done less than he has
    submit(store, new("a"), new("b"))
    [a, b] = store.get(["a", "b"])
    assert a is not None
    assert b is not None
    asked(hand, "START TRANSACTION")
    for _ in range(30):
        asked(hand, "INSERT INTO stayer_marks (worker, at) VALUES ('x', 0)")
    asked(hand, "SELECT 1 FROM stayer_tasks WHERE id = 'b' FOR UPDATE")
    from stayer.core.lifecycle import Cancel

    cancelling = in_thread(lambda: store.commit([decide(a, Cancel()), decide(b, Cancel())]))
    wait_for_lock(hand)
    # When the circle closes
    asked(hand, "SELECT 1 FROM stayer_tasks WHERE id = 'a' FOR UPDATE")
    asked(hand, "COMMIT")
    # Then nobody hears of it
    assert [task and task.state for task in cancelling()] == ["cancelled", "cancelled"]
