"""Store.get, peek, attempts, events, log and checkpoint. Finding: test_find."""

from __future__ import annotations

from itertools import pairwise

import pytest

from stayer.core.happenings import Done, Fail, Hold, Interrupt, Release, Start
from stayer.core.model import Fault, LogPiece, Policy, Report, Task
from stayer.store import LOG_HEAD, LOG_TAIL, Store
from tests.contract.builders import (
    Clock,
    apply,
    beat,
    fill,
    get,
    happened,
    ids,
    new,
    register,
    started,
    submit,
    take,
    take_one,
    taken,
)


class TestGetting:
    def test_answers_in_the_order_asked(self, store: Store) -> None:
        submit(store, new("a"), new("b"), new("c"))
        found = store.get(["c", "unknown", "a", "c"])
        assert [task and task.id for task in found] == ["c", None, "a", "c"]

    def test_nothing_is_nothing(self, store: Store) -> None:
        assert store.get([]) == []

    def test_thousands_at_once(self, store: Store) -> None:
        names = fill(store, 2500)
        found = store.get([*names, "unknown"])
        assert [task and task.id for task in found] == [*names, None]


class TestPeeking:
    def test_shows_what_would_be_reserved(self, store: Store, clock: Clock) -> None:
        # Given tasks that may be taken and others that may not
        register(store)
        taken(store)
        fill(store, 1, held=True)
        fill(store, 1, delay=10)
        fill(store, 1, queue="other")
        fill(store, 3)
        clock.advance(1)
        fill(store, 1, priority=2)

        # When one looks
        seen = store.peek("q", 3)

        # Then those that come next are shown, best first, and none was taken
        assert [task.state for task in seen] == ["pending"] * 3
        assert ids(store.peek("q", 3)) == ids(seen)
        assert ids(take(store, limit=3)) == ids(seen)
        assert len(store.peek("q", 3)) == 1

    def test_shows_nothing_of_a_queue_that_is_not_there(self, store: Store) -> None:
        assert store.peek("q", 3) == []


class TestAttempts:
    def test_are_told_oldest_first_with_the_one_that_goes_on(
        self, store: Store, clock: Clock
    ) -> None:
        register(store)
        first = started(store, policy=Policy(retries=1))
        assert [attempt.ending for attempt in store.attempts(first.id)] == [None]
        clock.advance(1)
        apply(store, first, Fail(Fault("Boom")))
        assert [attempt.ending for attempt in store.attempts(first.id)] == ["error"]
        clock.advance(1)
        second = take_one(store)
        [_, going_on] = store.attempts(first.id)
        assert (going_on.attempt, going_on.reserved_at, going_on.ending) == (2, clock.now, None)
        assert (going_on.started_at, going_on.finished_at, going_on.pid) == (None, None, None)
        clock.advance(1)
        apply(store, second, Start(pid=55))
        [_, going_on] = store.attempts(first.id)
        assert (going_on.started_at, going_on.pid) == (clock.now, 55)
        assert going_on.reserved_at == clock.now - 1

    def test_are_none_before_the_first(self, store: Store) -> None:
        submit(store, new("a"))
        assert store.attempts("a") == []
        assert store.attempts("unknown") == []

    def test_are_many(self, store: Store) -> None:
        register(store)
        task = taken(store)
        for _ in range(11):
            apply(store, task, Interrupt())
            task = take_one(store)
        assert [attempt.attempt for attempt in store.attempts(task.id)] == list(range(1, 13))


class TestEvents:
    def test_belong_to_one_task(self, store: Store) -> None:
        register(store)
        submit(store, new("a"), new("b"))
        apply(store, take_one(store), Done())
        assert happened(store.events("a")) == ["pending", "reserved", "complete"]
        assert happened(store.events("b")) == ["pending"]
        assert store.events("unknown") == []

    def test_are_told_oldest_first(self, store: Store, clock: Clock) -> None:
        [task] = submit(store, new("a"))
        notes = ["held", "released"] * 6
        for note in notes:
            clock.advance(1)
            task = apply(store, task, Hold() if note == "held" else Release())
        events = store.events("a")
        assert happened(events) == ["pending", *notes]
        assert [event.at for event in events] == [clock.now - 12 + passed for passed in range(13)]


class TestLog:
    @pytest.fixture
    def task(self, store: Store) -> Task:
        register(store)
        return started(store)

    def test_cut_anew_is_read_whole_from_any_offset(self, store: Store, task: Task) -> None:
        """A worker that takes over sends from the beginning, in one piece, and then goes on."""
        self.report(store, task, 2, LogPiece(0, b"abc"), LogPiece(3, b"def"))
        self.report(store, task, 3, LogPiece(0, b"abcdefghij"))
        self.report(store, task, 4, LogPiece(10, b"klm"))
        for start in range(13):
            pieces = store.log(task.id, 1, start, 100)
            assert b"".join(piece.data for piece in pieces) == b"abcdefghijklm"[start:]

    def test_says_when_a_piece_came(self, store: Store, clock: Clock, task: Task) -> None:
        self.report(store, task, 2, LogPiece(0, b"early"))
        clock.advance(60)
        self.report(store, task, 3, LogPiece(5, b"late"))
        pieces = store.log(task.id, 1, 0, 100)
        assert pieces == [
            LogPiece(0, b"early", clock.now - 60), LogPiece(5, b"late", clock.now),
        ]  # fmt: skip

    def report(self, store: Store, task: Task, number: int, *pieces: LogPiece) -> None:
        beat(store, "w", number, Report(id=task.id, attempt=task.attempt, log=pieces))

    def test_pieces_that_overlap_are_read_once(self, store: Store, task: Task) -> None:
        self.report(store, task, 2, LogPiece(0, b"abcdef"))
        self.report(store, task, 3, LogPiece(3, b"defgh"), LogPiece(0, b"abcd"))
        assert self.read(store, task) == b"abcdefgh"
        assert self.read(store, task, 4) == b"efgh"

    def read(self, store: Store, task: Task, start: int = 0, limit: int = 100_000) -> bytes:
        """All that is kept from `start` on; gaps are left out."""
        data = b""
        while pieces := store.log(task.id, task.attempt, start, limit):
            for piece in pieces:
                assert piece.start >= start
                assert piece.data
                data += piece.data
                start = piece.start + len(piece.data)
        return data

    def test_comes_back_as_it_went_in(self, store: Store, task: Task) -> None:
        first, second, third = b"line one\n", b"\x00\xff\xfe not text \n", b"last"
        self.report(store, task, 2, LogPiece(0, first), LogPiece(len(first), second))
        self.report(store, task, 3, LogPiece(len(first + second), third))
        assert self.read(store, task) == first + second + third

    def test_may_be_read_from_any_offset(self, store: Store, task: Task) -> None:
        text = b"0123456789" * 10
        for number in range(10):
            piece = LogPiece(number * 10, text[number * 10 : number * 10 + 10])
            self.report(store, task, number + 2, piece)
        for start in (0, 5, 10, 37, 99):
            pieces = store.log(task.id, 1, start, 1000)
            assert pieces[0].start == start
            assert self.read(store, task, start) == text[start:]
        assert store.log(task.id, 1, 100, 1000) == []

    def test_is_read_in_parts(self, store: Store, task: Task) -> None:
        text = bytes(range(256)) * 40
        pieces = [LogPiece(at, text[at : at + 256]) for at in range(0, len(text), 256)]
        self.report(store, task, 2, *pieces)
        some = store.log(task.id, 1, 0, 1000)
        assert 0 < sum(len(piece.data) for piece in some) < 2000
        assert self.read(store, task, limit=1000) == text

    def test_that_comes_twice_is_there_once(self, store: Store, task: Task) -> None:
        self.report(store, task, 2, LogPiece(0, b"abcdef"))
        self.report(store, task, 3, LogPiece(0, b"abcdef"), LogPiece(6, b"ghi"))
        assert self.read(store, task) == b"abcdefghi"

    def test_belongs_to_its_attempt(self, store: Store, task: Task) -> None:
        self.report(store, task, 2, LogPiece(0, b"first"))
        apply(store, task, Interrupt())
        second = take_one(store)
        assert self.read(store, second) == b""
        self.report(store, second, 3, LogPiece(0, b"second"))
        assert self.read(store, task) == b"first"
        assert self.read(store, second) == b"second"

    def test_outlives_its_attempt(self, store: Store, task: Task) -> None:
        self.report(store, task, 2, LogPiece(0, b"all of it"))
        apply(store, task, Done())
        assert self.read(store, task) == b"all of it"

    def test_of_what_is_not_there_is_empty(self, store: Store, task: Task) -> None:
        assert store.log(task.id, 1, 0, 100) == []
        assert store.log(task.id, 9, 0, 100) == []
        assert store.log("unknown", 1, 0, 100) == []

    def test_keeps_its_head_and_its_tail(self, store: Store, task: Task) -> None:
        # Given a log that is far longer than what is kept
        step = 250_000
        total = 2 * (LOG_HEAD + LOG_TAIL)
        for number in range(total // step):
            data = number.to_bytes(2, "big") * (step // 2)
            self.report(store, task, number + 2, LogPiece(number * step, data))

        # When all that is left is read
        left: list[LogPiece] = []
        start = 0
        while pieces := store.log(task.id, 1, start, 10_000_000):
            left += pieces
            start = pieces[-1].start + len(pieces[-1].data)

        # Then its head and its tail are there, one gap is between them, and no more was kept
        ranges = [(piece.start, piece.start + len(piece.data)) for piece in left]
        gaps = [(end, begin) for (_, end), (begin, _) in pairwise(ranges) if end != begin]
        assert (ranges[0][0], ranges[-1][1]) == (0, total)
        [(gap_start, gap_end)] = gaps
        assert LOG_HEAD <= gap_start < gap_end <= total - LOG_TAIL
        assert sum(len(piece.data) for piece in left) <= LOG_HEAD + LOG_TAIL + 2 * step
        for piece in left:
            at = piece.start
            assert piece.data[:2] == (at // step).to_bytes(2, "big")

    def test_with_a_gap_of_its_own_shows_it(self, store: Store, task: Task) -> None:
        self.report(store, task, 2, LogPiece(0, b"begin"), LogPiece(1000, b"end"))
        pieces = store.log(task.id, 1, 0, 10_000)
        assert [(piece.start, piece.data) for piece in pieces] == [(0, b"begin"), (1000, b"end")]
        assert [piece.start for piece in store.log(task.id, 1, 500, 10_000)] == [1000]


class TestCheckpoint:
    def test_is_none_before_the_first(self, store: Store) -> None:
        submit(store, new("a"))
        assert store.checkpoint("a") is None
        assert store.checkpoint("unknown") is None

    def test_is_there_for_the_next_attempt(self, store: Store, clock: Clock) -> None:
        register(store)
        first = taken(store)
        beat(store, "w", 2, Report(id=first.id, attempt=1, checkpoint=b"half"))
        saved = clock.now
        clock.advance(5)
        apply(store, first, Interrupt())
        second = take_one(store)
        kept = store.checkpoint(first.id)
        assert kept is not None
        assert (kept.attempt, kept.at, kept.data) == (1, saved, b"half")
        beat(store, "w", 3, Report(id=first.id, attempt=second.attempt, checkpoint=b"more"))
        kept = store.checkpoint(first.id)
        assert kept is not None
        assert (kept.attempt, kept.at, kept.data) == (2, clock.now, b"more")

    def test_may_be_empty_or_large(self, store: Store) -> None:
        register(store)
        task = taken(store)
        for number, data in enumerate((b"x" * 16_000_000, b""), start=2):
            beat(store, "w", number, Report(id=task.id, attempt=1, checkpoint=data))
            kept = store.checkpoint(task.id)
            assert kept is not None
            assert kept.data == data
        assert get(store, task.id).state == "reserved"
