"""Store.beat: the lease, the numbers, and the reports that ride along. Orders: test_orders."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stayer.core.errors import LeaseLost, UnknownWorker
from stayer.core.happenings import Done, Interrupt, Start
from stayer.core.model import Filter, LogPiece, Progress, Report, Task
from stayer.core.worker_model import EVERYTHING, Worker, WorkerOrder
from stayer.service.control import workers as worker_control
from stayer.store import Store
from tests.contract.builders import (
    Clock,
    apply,
    beat,
    get,
    new,
    register,
    started,
    submit,
    take_one,
    taken,
    worker,
)


def only(store: Store) -> Worker:
    [known] = store.workers()
    return known


class TestTheFirstBeat:
    def test_registers_the_worker(self, store: Store, clock: Clock) -> None:
        ada = Worker(
            id="host.1.2.3",
            node="host",
            pid=1,
            queues=("a", "b"),
            slots=3,
            version="1.2",
            lease=60.0,
        )
        answer = store.beat(ada, 1, "x", [])
        assert (answer.now, answer.orders, answer.suspects) == (clock.now, (), ())
        assert store.workers() == [
            replace(ada, number=1, started_at=clock.now, beat_at=clock.now, running=0, state="IDLE")
        ]

    def test_has_the_number_one(self, store: Store) -> None:
        with pytest.raises(LeaseLost):
            beat(store, "w", 2)
        assert store.workers() == []

    def test_is_one(self, store: Store) -> None:
        register(store)
        with pytest.raises(LeaseLost):
            beat(store, "w", 1, nonce="a twin")


class TestALaterBeat:
    def test_renews(self, store: Store, clock: Clock) -> None:
        register(store)
        began = clock.now
        clock.advance(15)
        assert beat(store, "w", 2).now == clock.now
        seen = only(store)
        assert (seen.number, seen.started_at, seen.beat_at) == (2, began, clock.now)

    def test_tells_what_is_new_of_the_worker(self, store: Store) -> None:
        register(store)
        beat(store, worker(queues=("x", "y"), slots=8, draining=True, version="2"), 2)
        seen = only(store)
        assert (seen.queues, seen.slots, seen.draining, seen.version) == (("x", "y"), 8, True, "2")

    def test_may_leave_numbers_out(self, store: Store) -> None:
        register(store)
        beat(store, "w", 7)
        assert only(store).number == 7

    @pytest.mark.parametrize("number", [1, 4, 5])
    def test_is_refused_if_its_number_is_not_newer(
        self, store: Store, clock: Clock, number: int
    ) -> None:
        # Given a worker at number 5 that runs a task
        register(store)
        task = started(store)
        beat(store, "w", 5)
        before = store.workers()

        # When somebody beats in its name with no newer number
        clock.advance(10)
        report = Report(id=task.id, attempt=1, progress=Progress(done=1.0), checkpoint=b"x")
        with pytest.raises(LeaseLost):
            beat(store, worker(slots=99), number, report, nonce="a twin")

        # Then nothing has changed
        assert store.workers() == before
        assert get(store, task.id) == task
        assert store.checkpoint(task.id) is None

    def test_is_refused_if_its_number_is_old_though_its_nonce_is_known(self, store: Store) -> None:
        register(store)
        beat(store, "w", 2, nonce="two")
        beat(store, "w", 3, nonce="three")
        with pytest.raises(LeaseLost):
            beat(store, "w", 2, nonce="two")

    def test_is_a_retry_if_number_and_nonce_are_the_same(self, store: Store, clock: Clock) -> None:
        # Given a beat whose answer got lost
        register(store)
        task = started(store)
        report = Report(
            id=task.id, attempt=1, progress=Progress(done=2.0), log=(LogPiece(0, b"hello"),)
        )
        beat(store, "w", 2, report, nonce="n")

        # When it comes again
        clock.advance(1)
        answer = beat(store, "w", 2, report, nonce="n")

        # Then it is answered, and the reports are there once
        assert answer.now == clock.now
        assert only(store).number == 2
        assert b"".join(piece.data for piece in store.log(task.id, 1, 0, 1000)) == b"hello"
        assert beat(store, "w", 3).now == clock.now

    def test_of_the_first_one_is_a_retry_too(self, store: Store) -> None:
        beat(store, "w", 1, nonce="n")
        beat(store, "w", 1, nonce="n")
        assert only(store).number == 1


class TestTheLease:
    def test_ends_when_it_is_not_renewed(self, store: Store, clock: Clock) -> None:
        register(store, lease=60)
        clock.advance(59)
        assert only(store).state == "IDLE"
        clock.advance(2)
        assert only(store).state == "STALE"
        beat(store, worker(lease=60), 2)
        assert only(store).state == "IDLE"

    def test_is_counted_from_the_last_beat(self, store: Store, clock: Clock) -> None:
        register(store, lease=60)
        clock.advance(50)
        beat(store, worker(lease=60), 2)
        clock.advance(50)
        assert only(store).state == "IDLE"
        clock.advance(11)
        assert only(store).state == "STALE"

    def test_never_ends_earlier_because_of_a_shorter_one(self, store: Store, clock: Clock) -> None:
        register(store, lease=600)
        clock.advance(1)
        beat(store, worker(lease=2), 2)
        clock.advance(590)
        assert only(store).state == "IDLE"
        clock.advance(20)
        assert only(store).state == "STALE"

    def test_never_ends_earlier_because_the_clock_went_back(
        self, store: Store, clock: Clock
    ) -> None:
        register(store, lease=60)
        clock.advance(-30)
        beat(store, worker(lease=60), 2)
        clock.advance(80)
        assert only(store).state == "IDLE"

    def test_is_not_renewed_by_a_refused_beat(self, store: Store, clock: Clock) -> None:
        register(store, lease=60)
        clock.advance(50)
        with pytest.raises(LeaseLost):
            beat(store, worker(lease=60), 1, nonce="a twin")
        clock.advance(11)
        assert only(store).state == "STALE"


class TestWorkers:
    def test_are_idle_or_busy_or_draining(self, store: Store) -> None:
        register(store, "idle")
        register(store, "busy")
        task = started(store, "busy")
        taken(store, "busy", queue="another")
        register(store, "draining", draining=True)
        seen = {known.id: (known.state, known.running) for known in store.workers()}
        assert seen == {"idle": ("IDLE", 0), "busy": ("PROCESSING", 2), "draining": ("DRAINING", 0)}
        apply(store, task, Done())
        assert {known.id: known.running for known in store.workers()}["busy"] == 1

    def test_are_stale_whatever_they_did(self, store: Store, clock: Clock) -> None:
        register(store, "draining", draining=True, lease=10)
        register(store, "busy", lease=10)
        started(store, "busy")
        clock.advance(11)
        assert {known.state for known in store.workers()} == {"STALE"}


class TestSuspects:
    """Workers that have been silent for over two intervals (eighths of their lease)."""

    def test_are_told_to_the_others(self, store: Store, clock: Clock) -> None:
        register(store, "silent", lease=80)
        beat(store, worker("silent", lease=80), 2)
        register(store, "judge", lease=8000)
        clock.advance(19)
        assert beat(store, worker("judge", lease=8000), 2).suspects == ()
        clock.advance(2)
        [suspect] = beat(store, worker("judge", lease=8000), 3).suspects
        assert (suspect.worker, suspect.number, suspect.lease) == ("silent", 2, 80)

    def test_are_none_once_they_beat_again(self, store: Store, clock: Clock) -> None:
        register(store, "silent", lease=80)
        register(store, "judge", lease=8000)
        clock.advance(50)
        beat(store, worker("silent", lease=80), 2)
        assert beat(store, worker("judge", lease=8000), 2).suspects == ()

    def test_are_never_oneself(self, store: Store, clock: Clock) -> None:
        register(store, "w", lease=80)
        clock.advance(500)
        assert beat(store, worker("w", lease=80), 2).suspects == ()

    def test_are_not_declared_lost_yet(self, store: Store, clock: Clock) -> None:
        register(store, "silent", lease=80)
        taken(store, "silent")
        register(store, "judge", lease=8000)
        clock.advance(500)
        store.declare_lost("judge", {"silent": 1})
        assert beat(store, worker("judge", lease=8000), 2).suspects == ()


class TestReports:
    """News of an attempt, for as long as the worker holds it."""

    @pytest.fixture
    def task(self, store: Store) -> Task:
        register(store)
        return started(store)

    def test_bring_progress(self, store: Store, clock: Clock, task: Task) -> None:
        clock.advance(3)
        said = Progress(done=3.0, total=12.0, message="third", remaining=27.5)
        beat(store, "w", 2, Report(id=task.id, attempt=1, progress=said))
        seen = get(store, task.id)
        assert seen.progress is not None
        assert replace(seen.progress, at=None) == said
        assert seen.progress.at == clock.now
        assert (seen.state, seen.attempt, seen.last_order) == ("started", 1, 0)

    def test_without_progress_keep_the_old_one(self, store: Store, task: Task) -> None:
        beat(store, "w", 2, Report(id=task.id, attempt=1, progress=Progress(done=3.0)))
        beat(store, "w", 3, Report(id=task.id, attempt=1, log=(LogPiece(0, b"x"),)))
        progress = get(store, task.id).progress
        assert progress is not None
        assert progress.done == 3.0

    def test_bring_the_newest_checkpoint(self, store: Store, clock: Clock, task: Task) -> None:
        for number in (2, 3):
            clock.advance(1)
            data = b"\x00\xffcheckpoint %d" % number
            beat(store, "w", number, Report(id=task.id, attempt=1, checkpoint=data))
        kept = store.checkpoint(task.id)
        assert kept is not None
        assert (kept.attempt, kept.at, kept.data) == (1, clock.now, b"\x00\xffcheckpoint 3")

    def test_the_record_says_when_it_last_saved(
        self, store: Store, clock: Clock, task: Task
    ) -> None:
        assert task.checkpoint_at is None
        clock.advance(1)
        beat(store, "w", 2, Report(id=task.id, attempt=1, checkpoint=b"x"))
        saved = clock.now
        clock.advance(1)
        beat(store, "w", 3, Report(id=task.id, attempt=1, progress=Progress(done=1.0)))
        assert get(store, task.id).checkpoint_at == saved
        [found] = store.find(Filter(ids=(task.id,)), None, 10).tasks
        assert found.checkpoint_at == saved
        assert [each.checkpoint_at for each in store.holdings("w")] == [saved]

    def test_of_several_tasks_come_in_one_beat(self, store: Store, task: Task) -> None:
        second = taken(store)
        beat(
            store,
            "w",
            2,
            Report(id=task.id, attempt=1, checkpoint=b"one"),
            Report(id="unknown", attempt=1, checkpoint=b"none"),
            Report(id=second.id, attempt=1, checkpoint=b"two"),
        )
        kept = [store.checkpoint(id) for id in (task.id, second.id, "unknown")]
        assert [each and each.data for each in kept] == [b"one", b"two", None]

    def test_do_not_stand_in_the_way_of_what_was_decided_before(
        self, store: Store, task: Task
    ) -> None:
        beat(store, "w", 2, Report(id=task.id, attempt=1, progress=Progress(done=1.0)))
        assert apply(store, task, Done("end")).result == "end"

    @pytest.mark.parametrize("news", ["progress", "checkpoint"])
    def test_set_the_losses_back(self, store: Store, news: str) -> None:
        register(store)
        task = lost_before(store)
        report = (
            Report(id=task.id, attempt=task.attempt, progress=Progress(done=1.0))
            if news == "progress"
            else Report(id=task.id, attempt=task.attempt, checkpoint=b"saved")
        )
        beat(store, "w", 2, report)
        assert get(store, task.id).losses == 0

    def test_that_bring_only_a_log_keep_the_losses(self, store: Store) -> None:
        register(store)
        task = lost_before(store)
        beat(store, "w", 2, Report(id=task.id, attempt=task.attempt, log=(LogPiece(0, b"x"),)))
        assert get(store, task.id).losses == 1

    @pytest.mark.parametrize("end", ["handed back", "taken by another", "taken again", "finished"])
    def test_of_what_is_no_longer_held_are_dropped(
        self, store: Store, task: Task, end: str
    ) -> None:
        # Given a task that the worker's first attempt holds no longer
        apply(store, task, Done() if end == "finished" else Interrupt())
        if end == "taken by another":
            register(store, "v")
            take_one(store, "v")
        if end == "taken again":
            take_one(store, "w")
        before = get(store, task.id)

        # When it reports all the same
        report = Report(
            id=task.id,
            attempt=1,
            progress=Progress(done=9.0),
            checkpoint=b"late",
            log=(LogPiece(0, b"late"),),
            acknowledged=99,
        )
        beat(store, "w", 2, report)

        # Then the beat counts, and the report doesn't
        assert {known.id: known.number for known in store.workers()}["w"] == 2
        assert get(store, task.id) == before
        assert store.checkpoint(task.id) is None
        assert store.log(task.id, 1, 0, 1000) == []

    def test_of_what_another_holds_are_dropped(self, store: Store, task: Task) -> None:
        register(store, "v")
        beat(store, "v", 2, Report(id=task.id, attempt=1, checkpoint=b"stolen"))
        assert store.checkpoint(task.id) is None


def lost_before(store: Store) -> Task:
    """A started task that has lost a worker once."""
    register(store, "judge")
    register(store, "dead")
    started(store, "dead", queue="other")
    [lost] = store.declare_lost("judge", {"dead": 1})
    worker_control.return_lost_tasks(store, [lost])
    task = apply(store, take_one(store, "w", "other"), Start())
    assert task.losses == 1
    return task


class TestOrders:
    def test_come_with_each_beat_and_are_shown(self, store: Store) -> None:
        register(store)
        assert (beat(store, "w", 2).order, only(store).order) == (None, None)
        order = WorkerOrder(queues=("a", "b"), slots=3)
        answer = store.order_worker("w", order)
        assert answer == only(store)
        assert only(store).order == order
        assert [beat(store, "w", number).order for number in (3, 4)] == [order, order]
        assert not beat(store, "w", 5).drain

    def test_of_two_with_one_number_the_first_counts(self, store: Store) -> None:
        register(store)
        first = WorkerOrder(slots=2)
        assert store.order_worker("w", first) is not None
        assert store.order_worker("w", WorkerOrder(slots=3)) is None
        assert store.order_worker("w", WorkerOrder(number=3, slots=3)) is None
        assert beat(store, "w", 2).order == first
        second = WorkerOrder(number=2, slots=3)
        assert store.order_worker("w", second) is not None
        assert beat(store, "w", 3).order == second

    def test_to_stop_let_it_take_nothing_and_end_its_lease(
        self, store: Store, clock: Clock
    ) -> None:
        # Given a worker at work that is to stop by then
        register(store)
        task = started(store)
        submit(store, new())
        order = WorkerOrder(grace=5.0, ends_at=clock.now + 20)
        assert store.order_worker("w", order) is not None
        assert store.reserve("w", ["q"], 1, EVERYTHING) == []

        # When it goes on beating
        clock.advance(20)
        answer = beat(store, "w", 2)
        assert (answer.order, answer.drain) == (order, True)
        end = only(store).beat_at
        clock.advance(1)

        # Then it is refused, and stays known with what it holds until its lease is over
        with pytest.raises(LeaseLost):
            beat(store, "w", 3)
        assert (only(store).number, only(store).beat_at) == (2, end)
        assert get(store, task.id) == task

    def test_are_for_workers_that_are_there(self, store: Store) -> None:
        register(store)
        register(store, "dead")
        store.declare_lost("w", {"dead": 1})
        for id in ("nobody", "dead"):
            with pytest.raises(UnknownWorker):
                store.order_worker(id, WorkerOrder(slots=1))
