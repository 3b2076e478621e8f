"""Workers on a Redis Cluster: they die, nodes die, slots move. Nothing is lost or doubled."""

from __future__ import annotations

import inspect
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis.crc import key_slot

from stayer.core.errors import StoreUnreachable
from stayer.core.flows.model import NewFlow, Part
from stayer.core.model import Filter, NewTask
from stayer.core.submit.checks import new_task
from stayer.stores.redis.keys import REGISTRY_TAG
from tests.contract.builders import check_counts
from tests.faults import test_worker_dies
from tests.faults.fleet import Fleet, until
from tests.redis.test_cluster import move_slot, owner_of
from tests.servers.cluster import Cluster, clustered
from tests.servers.finding import redis_binary

OPTIONS = {"wait": 1, "wait_timeout": "500ms", "socket_timeout": 1, "socket_connect_timeout": 1}
QUEUES = ("default", "other", "third")
DEATHS = [
    function
    for name, function in inspect.getmembers(test_worker_dies, inspect.isfunction)
    if name.startswith("test_") and list(inspect.signature(function).parameters) == ["fleet"]
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """For tests that leave its nodes as they are."""
    with clustered(redis_binary(), replicas=0) as cluster:
        yield cluster


@pytest.fixture
def fleet(cluster: Cluster, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, cluster.url())
    yield fleet
    fleet.close()


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.__name__.removeprefix("test_"))
def test_what_holds_when_a_worker_dies_holds_here(
    fleet: Fleet, death: Callable[[Fleet], None]
) -> None:
    death(fleet)


@pytest.fixture
def replicated(tmp_path: Path) -> Iterator[tuple[Cluster, Fleet]]:
    """Three primaries, three replicas, to be broken."""
    with clustered(redis_binary(), fails_over=True) as cluster:
        fleet = Fleet(tmp_path, cluster.url(prefix="p", **OPTIONS))
        yield cluster, fleet
        fleet.close()


class Work:
    """Tasks that write down that they ran, in several queues, and flows across them."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._runs = fleet.folder / "runs"
        self.ids: list[str] = []

    def add(self, name: str) -> None:
        """A flow of three tasks, each in another queue."""
        ids = [f"{name}.{number}" for number in range(len(QUEUES))]
        tasks = [
            new_task(
                queue=queue,
                id=id,
                command=("sh", "-c", f"echo {id} >> {self._runs}"),
                after=ids[number - 1 : number] if number else (),
            )
            for number, (id, queue) in enumerate(zip(ids, QUEUES, strict=True))
        ]
        flow = NewFlow(id=name, name=name, parts=(Part(name="all", queue="q", tasks=3),))
        until(lambda: self._submitted(flow, tasks), "for a flow to be accepted")
        self.ids += ids

    def _submitted(self, flow: NewFlow, tasks: list[NewTask]) -> bool:
        try:
            self._fleet.store.submit_flow(flow, tasks)
        except StoreUnreachable:
            return False  # by the same id again, as anybody would
        return True

    @property
    def ran(self) -> Counter[str]:
        return Counter(self._runs.read_text().split()) if self._runs.exists() else Counter()

    def check(self) -> None:
        """All of it ran, once, in its order, and the store says so."""
        store = self._fleet.store
        tasks = {task.id: task for task in store.find(Filter(), None, 10_000).tasks}
        assert set(tasks) == set(self.ids)
        assert {task.state for task in tasks.values()} == {"complete"}
        assert {id: count for id, count in self.ran.items() if count > tasks[id].attempt} == {}
        assert set(self.ran) == set(self.ids)
        for name in {id.rpartition(".")[0] for id in self.ids}:
            ends = [tasks[f"{name}.{number}"].finished_at or 0.0 for number in range(3)]
            assert ends == sorted(ends)
        check_counts(store)


def ask_for_all(fleet: Fleet, work: Work) -> bool:
    try:
        found = fleet.store.get(work.ids)
    except StoreUnreachable:
        return False
    return all(task is not None and task.state == "complete" for task in found)


def test_a_node_dies_and_slots_move_while_a_worker_runs_tasks(
    replicated: tuple[Cluster, Fleet],
) -> None:
    cluster, fleet = replicated
    queues = [part for queue in QUEUES for part in ("--queue", queue)]
    pid = fleet.worker("one", *queues, lease=120.0)
    [process] = fleet.workers
    work = Work(fleet)
    for number in range(10):
        work.add(f"before{number}")
    until(lambda: len(work.ran) > 5, "for some tasks")

    # When the node of a queue dies, and another one takes its place
    slot = key_slot(b"p:{default}")
    old = owner_of(cluster, slot)
    assert old is not None
    old.signal(signal.SIGKILL)
    others = [node for node in cluster.nodes if node is not old]
    until(
        lambda: owner_of(cluster, slot, others) not in (None, old), "for its replica to take over"
    )
    old.start()  # as the replica that has to confirm
    for number in range(10):
        work.add(f"replaced{number}")
    until(lambda: ask_for_all(fleet, work), "for all tasks")

    # And when a queue moves to another node
    until(lambda: owner_of(cluster, slot) is not None, "for all to agree")
    move_slot(cluster, slot, lambda: None)
    for number in range(10):
        work.add(f"moved{number}")
    until(lambda: ask_for_all(fleet, work), "for all tasks")

    # Then nothing was lost or done twice, and the worker is the one that it was
    work.check()
    assert (process.poll(), process.pid) == (None, pid)


def test_a_queue_moves_while_a_worker_runs_tasks(cluster: Cluster, fleet: Fleet) -> None:
    queues = [part for queue in QUEUES for part in ("--queue", queue)]
    fleet.worker("one", *queues, lease=120.0)
    [process] = fleet.workers
    work = Work(fleet)
    for number in range(3):
        work.add(f"before{number}")
    until(lambda: work.ran, "for some tasks")
    move_slot(cluster, key_slot(b"{default}"), lambda: None)
    move_slot(cluster, key_slot(f"{{{REGISTRY_TAG}}}".encode()), lambda: None)
    for number in range(2):
        work.add(f"moved{number}")
    until(lambda: ask_for_all(fleet, work), "for all tasks")
    work.check()
    assert process.poll() is None
