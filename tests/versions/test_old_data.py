"""What 144e6ff stored is read as that version itself showed it, and worked with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import pytest

from stayer.core.errors import Refused
from stayer.core.happenings import Cancel, Done, Release, Start
from stayer.core.model import FINISHED, STATES, Filter, Report, State
from stayer.service.control import edits as edit_control
from stayer.service.control import flows
from stayer.service.control import tasks as control
from stayer.service.control import workers as worker_control
from stayer.service.upkeep import due_work
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import (
    Clock,
    apply,
    beat,
    check_counts,
    counts,
    get,
    ids,
    new,
    register,
    take,
)
from tests.contract.test_flows import pass_on
from tests.data.shown import shown
from tests.servers.cluster import clustered
from tests.servers.finding import oldest_redis_binary, redis_binary, valkey_binary
from tests.servers.redis import serving
from tests.versions import old

QUEUES = ["q", "other", "limited", "paused"]


Restore = Callable[[], str]
"""Puts the data into a store that holds nothing else; the answer is its URL."""


@contextmanager
def sqlite(folders: pytest.TempPathFactory) -> Iterator[Restore]:
    yield lambda: old.restore_sqlite(folders.mktemp("old") / "stayer.db")


def on(binary: Callable[[], str]) -> Callable[[object], AbstractContextManager[Restore]]:
    @contextmanager
    def restoring(folders: object) -> Iterator[Restore]:
        with serving(binary()) as server:
            yield lambda: old.restore_redis(server)

    return restoring


@contextmanager
def cluster(folders: object) -> Iterator[Restore]:
    with clustered(redis_binary(), replicas=0) as servers:
        yield lambda: old.restore_cluster(servers)


STORES: dict[str, Callable[[pytest.TempPathFactory], AbstractContextManager[Restore]]] = {
    "sqlite": sqlite,
    "redis": on(redis_binary),
    "redis-6.2": on(oldest_redis_binary),
    "valkey": on(valkey_binary),
    "cluster": cluster,
}


class Old(NamedTuple):
    """A store with the old data, in the time when they were made, and what was shown of them."""

    store: Store
    clock: Clock
    shown: dict[str, Any]


@pytest.fixture(scope="session", params=list(STORES))
def restore(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Restore]]:
    with STORES[request.param](tmp_path_factory) as restore:
        yield request.param, restore


@pytest.fixture
def data(restore: tuple[str, Restore]) -> Iterator[Old]:
    name, put = restore
    said = old.read_json(f"{name if name in ('sqlite', 'cluster') else 'redis'}.json.gz")
    clock = Clock(said["now"])
    store = open_store(put(), clock=clock)
    store.setup()
    yield Old(store, clock, said)
    store.close()


def missing(before: Any, now: Any, place: str = "") -> list[str]:
    """Where what is shown now differs; fields that came since are no difference."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            said
            for key, value in before.items()
            for said in missing(value, now.get(key, "nothing"), f"{place}/{key}")
        ]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = enumerate(zip(before, now, strict=True))
        return [said for at, pair in pairs for said in missing(*pair, f"{place}/{at}")]
    return [] if before == now else [f"{place}: was {before}, is {now}"]


def test_every_record_is_read_as_it_was(data: Old) -> None:
    now = shown(data.store)
    assert missing(data.shown, now) == []
    assert set(now["tasks"]) == set(data.shown["tasks"])


def test_there_is_something_of_everything(data: Old) -> None:
    """The data themselves: a state or a subject that is missing in them is not tested."""
    tasks = data.shown["tasks"].values()
    assert {task["state"] for task in tasks} == set(STATES)
    for field in (
        "held", "result", "error", "progress", "usage", "tags", "unique", "key", "orders", "paused",
        "flow", "checkpoint_at", "near_node", "fingerprint", "notify", "start_before", "env",
    ):  # fmt: skip
        assert any(task[field] for task in tasks), field
    for subject in ("flows", "notices", "schedules", "workers", "events", "failures"):
        assert data.shown[subject], subject
    assert {notice["state"] for notice in data.shown["notices"]["notices"]} == {
        "pending", "delivered", "failed",
    }  # fmt: skip


def test_the_store_finds_nothing_wrong(data: Old) -> None:
    of_servers = ("server", "memory", "persistence", "replicas", "cluster")
    found = [each for each in data.store.check() if each.check not in of_servers]
    assert [each for each in found if each.status != "ok"] == []
    check_counts(data.store)


def test_the_worker_that_was_there_goes_on(data: Old) -> None:
    store = data.store
    known = next(worker for worker in store.workers() if worker.id == "w")
    answer = beat(store, known, known.number + 1, Report(id="running", attempt=1, paused=False))
    [asked] = answer.orders
    assert (asked.id, [order.verb for order in asked.orders]) == ("asked", ["set", "cancel"])
    assert apply(store, get(store, "running"), Done({"loss": 0.5})).result == {"loss": 0.5}
    assert control.settle(store, get(store, "asked"), Done()).state == "complete"
    assert apply(store, get(store, "reserved"), Start(pid=9)).state == "started"
    checkpoint = store.checkpoint("running")
    assert checkpoint is not None
    assert checkpoint.data == b"\x00weights"
    check_counts(store)


def test_the_worker_that_fell_silent_is_declared_lost(data: Old) -> None:
    store = data.store
    register(store, "judge")
    stale = next(worker for worker in store.workers() if worker.id == "stale")
    lost = store.declare_lost("judge", {"stale": stale.number})
    assert ids(lost) == ["left-behind"]
    assert worker_control.return_lost_tasks(store, lost) == 1
    assert "left-behind" in ids(take(store, "judge", limit=100))
    check_counts(store)


def test_waiting_tasks_are_taken_in_their_order_and_end(data: Old) -> None:
    store = data.store
    register(store, "n", queues=QUEUES)
    for name in ("q", "other"):
        following = data.shown["next"][name]
        reserved = ids(take(store, "n", name, limit=100))
        brought = [id for id in reserved if id not in following]
        assert set(brought) <= {"by-hand"}  # pushed to a list of Redis: taken from it now
        near = {"near"} if name == "other" else set()  # kept for the node of another worker
        assert [id for id in reserved if id in following] == [
            id for id in following if id not in near
        ]
    for task in store.holdings("n"):
        assert apply(store, apply(store, task, Start(pid=1)), Done(task.id)).state == "complete"
    assert get(store, "long").parameters == "y" * 5000
    assert get(store, "raw").parameters == b"\x00\x01"
    check_counts(store)


def test_time_brings_what_was_due(data: Old) -> None:
    store = data.store
    data.clock.advance(10_000)
    for _ in range(100):
        following = due_work.elapse(store)
        if following is None or following > data.clock.now:
            break
    for id in ("scheduled", "to-be-retried", "snoozed"):
        assert get(store, id).state == "pending"
    nightly, _ = store.schedules()
    fired = store.get([nightly.last_task or ""])[0]
    assert fired is not None
    assert (fired.name, fired.tags) == ("f", ("nightly",))
    check_counts(store)


def test_what_failed_is_retried_and_the_flow_goes_on(data: Old) -> None:
    store = data.store
    register(store, "n", queues=QUEUES)
    failures = store.failures((), 10)
    assert failures.tasks == len(
        [t for t in data.shown["tasks"].values() if t["state"] == "failed"]
    )
    assert edit_control.retry(store, "failed").state == "pending"
    assert flows.retry(store, "flow") == 1
    assert get(store, "each-0").state == "pending"
    apply(store, get(store, "after"), Release())
    for _ in range(3):
        for task in take(store, "n", "other", limit=100):
            apply(store, task, Done())
        pass_on(store)
    for id in ("each-0", "each-1", "each-2", "behind", "after"):
        assert get(store, id).state == "complete", id
    check_counts(store)


def test_ids_and_unique_words_are_still_refused(data: Old) -> None:
    store = data.store
    assert store.submit([new("purged")])[0].purged
    assert not store.submit([new("done-0")])[0].fresh
    assert store.submit([new(unique="word")])[0].task.id == "everything"
    assert store.submit([new(unique="kept")])[0].task.id == "unique-kept"
    assert store.submit([new(unique="free again")])[0].fresh


def test_limits_of_queues_hold(data: Old) -> None:
    store = data.store
    register(store, "n", queues=QUEUES)
    assert ids(take(store, "n", "limited", limit=10)) == ["limited-3"]  # ann has her one
    assert take(store, "n", "paused") == []
    apply(store, get(store, "limited-1"), Done())
    assert ids(take(store, "n", "limited", limit=10)) == ["limited-2"]


def test_notices_are_delivered(data: Old) -> None:
    store = data.store
    data.clock.advance(100)
    pending = [n for n in data.shown["notices"]["notices"] if n["state"] == "pending"]
    taken = store.take_notices(["mail", ""], 100, 60.0, 86400.0)
    assert {notice.id for notice in taken} == {notice["id"] for notice in pending}
    assert all(notice.record["id"] == notice.task for notice in taken)


def test_all_of_it_can_be_deleted(data: Old) -> None:
    store = data.store
    before: dict[State, int] = counts(store)
    ended = store.purge(None, FINISHED, float("inf"), 1000)
    assert len(ended) >= before["complete"] + before["failed"] + before["cancelled"]
    with pytest.raises(Refused):
        store.drop_queue("q", 1000)
    for task in [task for worker in store.workers() for task in store.holdings(worker.id)]:
        control.settle(store, task, Done())
    for task in list(control.find_all(store, Filter())):
        if task.state not in FINISHED:
            control.settle(store, task, Cancel())
    pass_on(store)
    for name in QUEUES:
        while store.drop_queue(name, 1000):
            pass
    for schedule in store.schedules():
        store.drop_schedule(schedule.name)
    assert [info.name for info in store.queues()] == []
