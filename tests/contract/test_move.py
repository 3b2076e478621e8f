"""Moving a whole store: every kind gives all that it holds, takes what another gave, and is sealed
meanwhile. Each is moved to SQLite and from there to another of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from stayer.core.errors import BadInput, LeaseLost, Refused, StoreMoved, StoreUnusable
from stayer.core.happenings import Cancel, Done, Start
from stayer.core.history.line import Line
from stayer.core.model import FINISHED
from stayer.core.move.records import STAGES, Record, Seal, TaskCopy
from stayer.core.notify.notices import lost_worker_notice
from stayer.core.schedules.model import Firing
from stayer.service import move as moving
from stayer.service.control.tasks import hold, release
from stayer.service.move import Progress
from stayer.service.upkeep.totals import Counter
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import (
    Clock,
    apply,
    check_counts,
    get,
    new,
    register,
    submit,
    take,
    take_one,
    worker,
)
from tests.contract.conftest import FreshUrl
from tests.contract.moved import Breaking, Killed, differences, everything, fill, leave


def quiet(_: Progress) -> None:
    pass


@pytest.fixture
def sqlite(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    """An empty store of another kind."""
    yield from _opened(f"sqlite:///{tmp_path}/elsewhere.db", clock)


@pytest.fixture
def another(fresh_url: FreshUrl, clock: Clock) -> Iterator[Store]:
    """An empty store of the same kind as `store`."""
    yield from _opened(fresh_url(), clock)


def _opened(url: str, clock: Clock) -> Iterator[Store]:
    store = open_store(url, clock=clock)
    store.setup()
    yield store
    store.close()


def move(source: Store, target: Store) -> None:
    moving.move(source, target, quiet)


def test_all_that_a_store_says_of_itself_it_says_after_two_moves(
    store: Store, sqlite: Store, another: Store, clock: Clock
) -> None:
    fill(store, clock)
    before = everything(store)
    assert len(before["tasks"]) > 40

    move(store, sqlite)
    assert differences(before, everything(sqlite)) == []
    move(sqlite, another)
    assert differences(before, everything(another)) == []

    for each in (sqlite, another):
        assert each.seal() is None or each is sqlite
        check_counts(each)
    assert another.last_event() >= store.last_event()


def test_a_long_history_is_moved_with_the_gap_in_it(
    store: Store, sqlite: Store, another: Store, clock: Clock
) -> None:
    submit(store, new("old"))
    for _ in range(800):  # on some stores more lines fit into a row
        clock.advance(0.25)
        hold(store, "old")
        release(store, "old")
    before = store.events("old")
    assert "dropped" in [event.event for event in before]

    move(store, sqlite)
    assert sqlite.events("old") == before
    move(sqlite, another)
    assert another.events("old") == before
    for _ in range(150):  # and it goes on growing, and losing its middle
        hold(another, "old")
        release(another, "old")
    after = another.events("old")
    assert len(after) < 1300
    assert after[:50] == before[:50]


def test_batches_may_be_as_small_as_one_record(
    store: Store, sqlite: Store, another: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "BATCH", 1)
    fill(store, clock)
    before = everything(store)
    move(store, sqlite)
    move(sqlite, another)
    assert differences(before, everything(another)) == []


def test_what_is_counted_for_metrics_goes_on_after_a_move(
    store: Store, sqlite: Store, another: Store, clock: Clock
) -> None:
    Counter(store).count()  # from here on
    submit(store, new("a"), new("b"))
    before = Counter(store).count()
    submit(store, new("c"))  # nobody has counted it yet
    clock.advance(10.0)
    move(store, sqlite)
    move(sqlite, another)
    submit(another, new("d"))

    after = Counter(another).count()

    assert after.since == before.since
    assert (sum(before.counts.values()), sum(after.counts.values())) == (2, 4)


def test_work_goes_on_where_the_store_was_moved_to(
    store: Store, sqlite: Store, another: Store, clock: Clock
) -> None:
    fill(store, clock)
    order = [task.id for task in store.peek("values", 9)]
    move(store, sqlite)
    move(sqlite, another)

    register(another, "n")
    assert [take_one(another, "n", "values").id for _ in order] == order
    # Two starts of three in an hour are used up; bob has run for longer, so it is ann's turn.
    assert [task.owner for task in take(another, "n", "limited", 9)] == ["ann"]
    assert take(another, "n", "paused", 9) == []
    [answer] = another.submit([new("other-word", "limited", unique="w")])
    assert (answer.fresh, answer.task.id) == (False, "word")

    for queue, id in (("tied", "first"), ("tied-too", "second"), ("tied", "third")):
        assert get(another, "fourth").state == "waiting"
        task = take_one(another, "n", queue)
        assert task.id == id
        apply(another, apply(another, task, Start(pid=1)), Done(id))
    another.promote(99)
    assert get(another, "fourth").state == "pending"

    [schedule] = another.schedules(["often"])
    tick = new("tick-1", "tied", name="tick")
    firing = Firing(
        name="often", updated=schedule.updated, seen=schedule.last, last=3.0, next=4.0,
        tasks=(tick,),
    )  # fmt: skip
    assert another.fire(firing)
    assert get(another, "tick-1").state == "pending"
    clock.advance(10_000.0)
    another.promote(99)
    assert get(another, "later").state == "pending"
    leave(another)
    check_counts(another)


def test_what_waits_for_a_task_that_is_purged_hears_of_its_end(
    store: Store, sqlite: Store, another: Store
) -> None:
    """A waiter may not have heard of an end when it is moved."""
    submit(store, new("up", "a"), new("down", "b", after=("up",)), new("alone", "b"))
    move(store, sqlite)
    sqlite.put_seal(None)
    move(sqlite, another)
    apply(another, get(another, "up"), Cancel())
    another.promote(99)
    assert get(another, "down").state == "cancelled"


CHANGES: dict[str, Callable[[Store], object]] = {
    "submit": lambda store: store.submit([new("fresh")]),
    "submit several": lambda store: store.submit([new("fresh"), new("more", priority=3)]),
    "submit to a new queue": lambda store: store.submit([new("fresh", "never seen")]),
    "submit one with a word": lambda store: store.submit([new("fresh", unique="u")]),
    "submit after another": lambda store: store.submit([new("fresh", after=("waits",))]),
    "cancel": lambda store: apply(store, get(store, "waits"), Cancel()),
    "hold": lambda store: hold(store, "waits"),
    "set a queue": lambda store: store.set_queue("q", limit=1),
    "pause a queue": lambda store: store.set_queue("q", paused=True),
    "put a schedule": lambda store: store.put_schedule(store.schedules(["s"])[0]),
    "work": lambda store: register(store, "newcomer"),
    "purge": lambda store: store.purge(None, FINISHED, store.now() + 1, 9),
    "drop a queue": lambda store: store.drop_queue("q", 9),
    "forget": lambda store: store.forget({"complete": 0.0, "failed": 0.0}, 99),
    "promote": lambda store: store.promote(99),
    "add a notice": lambda store: store.add_notices(
        [lost_worker_notice(worker(), (), "q", "mail", store.now())]
    ),
}
QUIET_CHANGES: dict[str, Callable[[Store], object]] = {
    "take notices": lambda store: store.take_notices(["mail"], 9, 60.0, 1e6) or None,
    "sample": lambda store: store.sample(),
}
"""What upkeep does without being asked: it may be refused, or do nothing."""


@pytest.fixture
def still(store: Store, clock: Clock) -> Store:
    """A store in which something is due."""
    fill(store, clock)
    clock.advance(20_000.0)
    return store


def test_a_store_that_was_moved_can_be_read_but_not_changed(still: Store, sqlite: Store) -> None:
    move(still, sqlite)
    before = everything(still)
    for what, change in CHANGES.items():
        with pytest.raises(StoreMoved, match=r"this store was moved to sqlite:///.*elsewhere\.db"):
            raise AssertionError(f"{what} gave {change(still)}")
    for change in QUIET_CHANGES.values():
        try:
            assert not isinstance(change(still), list)
        except StoreMoved:
            continue
    assert differences(before, everything(still)) == []


def test_nobody_uses_the_target_before_all_is_there(
    store: Store, another: Store, sqlite: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(sqlite, clock)
    breaking = Breaking(monkeypatch, another)
    breaking.left = 8
    with pytest.raises(Killed):
        move(sqlite, another)
    for change in (CHANGES["submit"], CHANGES["submit to a new queue"], CHANGES["work"]):
        with pytest.raises(StoreMoved, match="run the same `stayer move` again"):
            change(another)
    with pytest.raises(StoreMoved, match="is being moved to"):
        CHANGES["submit"](sqlite)
    with pytest.raises(Refused, match="is being filled from"):
        move(another, store)
    with pytest.raises(Refused, match=r"is being moved to .*: go on with that"):
        move(sqlite, store)


def sealed(source: Store, target: Store) -> int:
    """How many of these a move that goes on seals once more."""
    ours, theirs = source.seal(), target.seal()
    if ours is None or ours.role == "moved":
        return 0
    return 1 if theirs is None else 2


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_move_that_is_killed_at_any_change_goes_on_when_it_is_run_again(
    store: Store, sqlite: Store, another: Store, clock: Clock, after: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    fill(store, clock)
    before = everything(store)
    monkeypatch.setattr(moving, "BATCH", 20_000)
    for source, target in ((store, sqlite), (sqlite, another)):
        with monkeypatch.context() as patch:
            breaking = Breaking(patch, source, target)
            kills = 0
            while True:
                # Each run makes one change and no other, but for sealing again what is sealed.
                breaking.left, breaking.after = (1 if after else 2) + sealed(source, target), after
                try:
                    move(source, target)
                    break
                except Killed:
                    kills += 1
                    assert kills < 500
            assert kills > len(STAGES)
        assert differences(before, everything(target)) == []
    check_counts(another)


def test_a_store_is_not_moved_while_workers_use_it(store: Store, sqlite: Store) -> None:
    register(store, "w")
    with pytest.raises(Refused, match=r"w \(node-of-w\).*stayer drain w"):
        move(store, sqlite)
    assert store.seal() is None
    submit(store, new("a"))


def test_a_store_is_not_moved_while_a_lost_worker_holds_tasks(
    store: Store, sqlite: Store, clock: Clock
) -> None:
    register(store, "w")
    submit(store, new("a"))
    take_one(store)
    clock.advance(1000.0)
    with pytest.raises(Refused, match=r"1 of the tasks of queue q .*stayer workers drop"):
        move(store, sqlite)
    assert store.seal() is None


def test_a_worker_that_comes_while_the_store_is_being_sealed_is_seen(
    store: Store, sqlite: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = store.put_seal

    def late(seal: object) -> None:
        if seal is not None:
            register(store, "late")
        sealed(seal)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "put_seal", late)
    with pytest.raises(Refused, match="late"):
        move(store, sqlite)
    assert store.seal() is None


def test_a_silent_worker_of_the_source_does_not_come_back_to_life_there(
    store: Store, sqlite: Store, clock: Clock
) -> None:
    known = register(store, "w")
    submit(store, new("a"))
    clock.advance(1000.0)
    move(store, sqlite)
    with pytest.raises((LeaseLost, StoreMoved)):
        store.beat(known, 2, "later", ())
    with pytest.raises((LeaseLost, StoreMoved)):
        take(store)
    assert get(store, "a").state == "pending"


def test_what_is_not_empty_is_not_moved_into(store: Store, sqlite: Store) -> None:
    submit(sqlite, new("a"))
    submit(store, new("b"))
    for source, target in ((sqlite, store), (store, sqlite)):
        with pytest.raises(Refused, match="is not empty: it has queues"):
            move(source, target)
        assert source.seal() is None
        assert target.seal() is None


def test_a_store_is_not_moved_into_itself(store: Store, other: Store) -> None:
    submit(store, new("a"))
    with pytest.raises(BadInput, match="are the same store"):
        move(store, other)
    assert store.seal() is None


def test_a_store_is_moved_once(store: Store, sqlite: Store, another: Store) -> None:
    submit(store, new("a"))
    move(store, sqlite)
    submit(sqlite, new("b"))
    move(store, sqlite)  # it is done already: nothing happens
    assert get(sqlite, "b").state == "pending"
    with pytest.raises(Refused, match="was moved to"):
        move(store, another)
    with pytest.raises(Refused, match="was moved to"):
        move(another, store)


def test_a_move_that_was_declared_lost_leaves_the_source_as_it_was(
    store: Store, sqlite: Store, another: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, clock)
    before = everything(store)
    breaking = Breaking(monkeypatch, sqlite)
    breaking.left = 6
    with pytest.raises(Killed):
        move(store, sqlite)
    moving.reopen(store)
    assert differences(before, everything(store)) == []
    submit(store, new("after all"))
    with pytest.raises(Refused, match="a part of another move"):
        move(store, sqlite)
    with pytest.raises(Refused, match="is not whole"):
        moving.reopen(sqlite)
    move(store, another)
    assert get(another, "after all").state == "pending"


def test_a_difference_is_found_and_nothing_is_opened(
    store: Store, sqlite: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, clock)
    load = sqlite.load

    def lossy(records: Sequence[Record], progress: str) -> None:
        load([each for each in records if not is_lost(each)], progress)

    def is_lost(record: Record) -> bool:
        return isinstance(record, TaskCopy) and record.task.id == "same-1"

    monkeypatch.setattr(sqlite, "load", lossy)
    with pytest.raises(StoreUnusable, match="not moved: of tasks"):
        move(store, sqlite)
    assert sqlite.seal() is not None
    assert store.seal() is not None


def test_an_empty_store_can_be_moved(store: Store, sqlite: Store, another: Store) -> None:
    move(store, sqlite)
    move(sqlite, another)
    assert another.submit([new("a")])[0].fresh


def test_a_store_may_number_events_by_the_clock(
    store: Store, sqlite: Store, another: Store, clock: Clock
) -> None:
    """Numbers of one task only tell its own order: some databases give very large ones."""
    submit(sqlite, *(new(f"task-{number}", f"queue-{number % 2}") for number in range(6)))
    hold(sqlite, "task-3")
    release(sqlite, "task-3")
    move(sqlite, store)
    moving.reopen(sqlite)
    copies = [
        each
        for records in moving._batches(sqlite, "tasks")
        for each in records
        if isinstance(each, TaskCopy)
    ]
    large = [replace(each, history=tuple(map(_later, each.history))) for each in copies]
    seal = store.seal() or Seal(move="m", role="target", other="x", other_identity="x", at=0.0)
    another.put_seal(seal)
    another.load(store.dump("counters", None, 1).records, "")
    another.load(store.dump("queues", None, 1).records, "")
    another.load(large, "")
    another.put_seal(None)
    submit(another, new("last", "queue-1"))
    order = [task.id for task in another.peek("queue-1", 9)]
    assert order == ["task-1", "task-3", "task-5", "last"]
    events = another.events("task-3")
    assert [event.event for event in events] == ["pending", "held", "released"]
    numbers = [event.number for event in events]
    assert numbers == sorted(numbers)


def _later(line: Line) -> Line:
    return replace(line, number=1_700_000_000_000_000 + line.number)
