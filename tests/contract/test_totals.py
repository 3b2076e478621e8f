"""Store.totals, and what is counted from events: the same for whoever counts, and never twice."""

from __future__ import annotations

from stayer.core.happenings import Done, Fail, Interrupt, Start, WorkerLost
from stayer.core.insight import totals as core
from stayer.core.insight.totals import WORKER_LOST, Totals
from stayer.core.model import Fault, Policy
from stayer.service.control import edits as edit_control
from stayer.service.upkeep.totals import Counter
from stayer.store import Store
from tests.contract.builders import Clock, apply, beat, fill, new, register, submit, take


def counts(totals: Totals, what: str) -> dict[tuple[str, ...], int]:
    """Of one kind of count: its labels and the number."""
    words = {tuple(key.split("\t")): number for key, number in totals.counts.items()}
    return {key[1:]: number for key, number in words.items() if key[0] == what}


def spans(totals: Totals, what: str) -> dict[str, tuple[float, float]]:
    """How long it was altogether, and how many there were, by queue and kind."""
    return {
        key.partition("\t")[2].rstrip("\t"): (round(cells[0], 3), sum(cells[1:]))
        for key, cells in totals.spans.items()
        if key.startswith(f"{what}\t")
    }


def test_each_event_is_counted_once_whoever_counts(
    store: Store, other: Store, clock: Clock
) -> None:
    fill(store, 2, "before")
    Counter(store).count()  # from here on
    register(store, queues=("a", "b"))
    submit(store, *(new(queue="a", name="train") for _ in range(2)))
    submit(store, new(queue="b", command=("/usr/bin/ffmpeg", "-i", "x")))
    clock.advance(10)
    first, second = take(store, queues="a", limit=2)
    first, second = apply(store, first, Start()), apply(store, second, Start())
    Counter(other).count()
    clock.advance(100)
    apply(store, first, Done())
    apply(store, second, Fail(Fault("X")))
    for each in (store, other, store):
        found = Counter(each).count()

    assert counts(found, "submitted") == {("a", "train"): 2, ("b", "ffmpeg"): 1}
    assert counts(found, "started") == {("a", "train"): 2}
    assert counts(found, "ended") == {
        ("a", "train", "complete", "done"): 1,
        ("a", "train", "failed", "error"): 1,
    }
    assert spans(found, "waited") == {"a": (20.0, 2)}
    assert spans(found, "ran") == {"a\ttrain": (200.0, 2)}


def test_retries_are_told_apart_from_ends_and_their_waits_are_their_own(
    store: Store, clock: Clock
) -> None:
    counter = Counter(store)
    counter.count()
    register(store)
    submit(store, new("t", name="train", policy=Policy(retries=3, retry_wait=60.0)))
    [task] = take(store)
    task = apply(store, apply(store, task, Start()), Fail(Fault("X")))
    assert task.state == "scheduled"
    assert task.eta is not None
    clock.advance(task.eta - clock())
    store.promote(10)
    clock.advance(7)
    [task] = take(store)
    task = apply(store, task, Start())
    clock.advance(30)
    task = apply(store, task, Interrupt())
    clock.advance(5)
    [task] = take(store)
    task = apply(store, task, Start())
    clock.advance(20)
    apply(store, task, Done())
    edit_control.retry(store, "t")
    found = counter.count()

    assert counts(found, "submitted") == {("q", "train"): 1}
    assert counts(found, "retried") == {
        ("q", "train", "error"): 1,
        ("q", "train", "interrupted"): 1,
        ("q", "train", "operator"): 1,
    }
    assert counts(found, "ended") == {("q", "train", "complete", "done"): 1}
    assert spans(found, "waited") == {"q": (0.0 + 7.0 + 5.0, 3)}
    assert spans(found, "ran") == {"q\ttrain": (0.0 + 30.0 + 20.0, 3)}


def test_what_waits_for_others_is_submitted_once(store: Store, clock: Clock) -> None:
    counter = Counter(store)
    counter.count()
    register(store)
    submit(store, new("one"), new("two", after=("one",)), new("later", delay=50.0))
    [task] = take(store)
    task = apply(store, task, Start())
    clock.advance(60)
    apply(store, task, Done())
    store.promote(10)
    clock.advance(3)
    for task in take(store, limit=5):
        apply(store, task, Start())
    found = counter.count()

    assert counts(found, "submitted") == {("q", ""): 3}
    assert spans(found, "waited") == {"q": (3.0 + 3.0, 3)}


def test_a_lost_worker_is_an_event_and_is_counted_once(
    store: Store, other: Store, clock: Clock
) -> None:
    counter = Counter(store)
    counter.count()
    for name in ("judge", "idle", "busy", "leaves", "dropped"):
        register(store, name)
    fill(store, 1)
    [held] = take(store, "busy")
    held = apply(store, held, Start())
    store.drop_worker("leaves", 1)
    lost = store.declare_lost("judge", {"idle": 1, "busy": 1, "stranger": 1})
    other.declare_lost("judge", {"idle": 1, "busy": 1})
    assert [task.id for task in lost] == [held.id]
    apply(store, held, WorkerLost())
    clock.advance(1000)
    beat(store, "judge", 2)
    store.drop_worker("dropped")

    told = [event for event in store.watch(0, 0.0, 100) if event.event == WORKER_LOST]
    assert sorted(event.worker or "" for event in told) == ["busy", "dropped", "idle"]
    assert {(event.id, event.queue) for event in told} == {("", "")}
    found = counter.count()
    assert counts(found, "lost") == {(): 3}
    assert counts(found, "retried") == {("q", "", "lost"): 1}


def test_what_can_not_be_read_begins_anew(store: Store) -> None:
    store.put_shared("totals", "no such thing", None)
    fill(store, 3)
    counter = Counter(store)
    assert counts(counter.count(), "submitted") == {}
    fill(store, 2)
    assert counts(counter.count(), "submitted") == {("q", ""): 2}


def test_a_store_that_lost_its_newest_events_is_counted_on(store: Store) -> None:
    ahead = Totals(seen=store.last_event() + 1000, since=0.0, counts={"submitted\tq\t": 7})
    store.put_shared("totals", core.encode(ahead), None)
    counter = Counter(store)
    counter.count()
    fill(store, 2)
    assert counts(counter.count(), "submitted") == {("q", ""): 9}


def test_many_events_are_counted_to_the_last(store: Store) -> None:
    counter = Counter(store)
    counter.count()
    fill(store, 2500, "many")
    assert counts(counter.count(), "submitted") == {("many", ""): 2500}
