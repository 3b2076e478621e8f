"""A node of a cluster without replicas is away for longer than a lease: its queues stand still, and
nothing else does.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.core.errors import StoreUnreachable
from stayer.core.submit.checks import new_task
from stayer.service.control import tasks as control
from stayer.service.lease.heartbeat import moment
from stayer.stores.redis.keys import REGISTRY_TAG
from tests.faults.fleet import STAMPER, Fleet, until
from tests.faults.pools import PoolFleet
from tests.servers.cluster import Cluster, killable, node_of

LEASE = 4.0
OPTIONS = {"socket_timeout": 1, "socket_connect_timeout": 1}


QUEUES = {node_of(name): name for name in ("a", "b", "c")}
OF_THE_REGISTRY = node_of(REGISTRY_TAG)
DEAD = [
    pytest.param(OF_THE_REGISTRY, id="that of the registry"),
    pytest.param((OF_THE_REGISTRY + 1) % 3, id="another", marks=pytest.mark.long),
]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with killable() as cluster:
        yield cluster


@pytest.fixture
def fleet(cluster: Cluster, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, cluster.url(prefix="p", **OPTIONS))
    yield fleet
    fleet.close()


@pytest.fixture
def pools(cluster: Cluster, tmp_path: Path) -> Iterator[PoolFleet]:
    fleet = PoolFleet(tmp_path, cluster.url(prefix="t", **OPTIONS))
    yield fleet
    fleet.close()


def stamper(fleet: Fleet, queue: str) -> str:
    """A task that stamps the clock, named like its queue."""
    stop = str(fleet.folder / f"{queue}.stop")
    command = (fleet.python, "-c", STAMPER, str(fleet.stamps(queue)), stop)
    fleet.store.submit([new_task(queue=queue, id=queue, command=command)])
    return queue


def latest(fleet: Fleet, id: str) -> float:
    return max(fleet.read_stamps(id)[1])


def submit_to(fleet: Fleet, queue: str, file: Path) -> None:
    """One that can be submitted: the claim of an id may be on the node that is away."""
    new = new_task(queue=queue, command=("touch", str(file)))
    fleet.store.submit([new])


@pytest.mark.parametrize("dead", DEAD)
def test_the_other_queues_go_on(cluster: Cluster, fleet: Fleet, dead: int) -> None:
    # Given a worker with a running task in a queue of each node
    pid = fleet.worker("one", *(part for q in "abc" for part in ("-q", q)), lease=LEASE, slots=9)
    for queue in QUEUES.values():
        stamper(fleet, queue)
    for queue in QUEUES.values():
        fleet.until_stamped(queue)
        fleet.until_state(queue, "started")
    living = [queue for node, queue in QUEUES.items() if node != dead]

    lost = QUEUES[dead]
    up = new_task(queue=lost, id="up", command=("true",))
    down = new_task(queue=living[0], id="down", command=("true",), after=("up",), held=True)
    fleet.store.submit([up, down])
    fleet.until_state("down", "pending")

    # When one of the nodes is away for longer than several leases
    cluster.nodes[dead].signal(signal.SIGKILL)
    killed = moment()
    until(lambda: all(latest(fleet, queue) > killed + 4 * LEASE for queue in living), "for stamps")
    if dead == OF_THE_REGISTRY:
        assert latest(fleet, lost) < killed + LEASE, "nobody else answers for it"
    else:
        until(
            lambda: latest(fleet, lost) > killed + 4 * LEASE,
            "for what the registry shard answers for",
        )

    # Then tasks of the others begin, run on, and end, but for one that needs what is away
    until(lambda: is_released(fleet, "down"), "for what it needs")
    until(lambda: fleet.get("down").ending == "snoozed", "for the worker to see that it is away")
    for queue in living:
        fleet.finish(queue)
        until(lambda queue=queue: is_complete(fleet, queue), f"for {queue}")  # type: ignore[misc]
        file = fleet.folder / f"{queue}.began"
        until(lambda queue=queue, file=file: can_submit(fleet, queue, file), "for a submission")  # type: ignore[misc]
        until(file.exists, f"for a new task of {queue}")

    # And those of its own when it is back
    cluster.nodes[dead].start()
    seen = latest(fleet, lost)
    until(lambda: latest(fleet, lost) > seen, "for the one that stood still")
    fleet.finish(lost)
    until(lambda: is_complete(fleet, lost), f"for {lost}")
    submit_to(fleet, lost, fleet.folder / "after")
    until((fleet.folder / "after").exists, "for a new task of it")
    assert [fleet.get(queue).attempt for queue in QUEUES.values()] == [1, 1, 1]
    assert [process.poll() for process in fleet.workers if process.pid == pid] == [None]


@pytest.mark.parametrize("dead", DEAD)
def test_threads_go_on_with_the_other_queues(cluster: Cluster, pools: PoolFleet, dead: int) -> None:
    pid = pools.pool_worker("one", *(part for q in "abc" for part in ("-q", q)), lease=LEASE)
    [living, *_] = [queue for node, queue in QUEUES.items() if node != dead]
    for queue in QUEUES.values():
        call_in(pools, queue)
    pool = pools.pool_of(pid)
    cluster.nodes[dead].signal(signal.SIGKILL)
    end = time.monotonic() + 3 * LEASE
    while time.monotonic() < end:
        call_in(pools, living)
    assert pools.pool_of(pid) == pool, "it kept its lease"

    # And those of one that begins now, or is begun again
    assert pool is not None
    os.kill(pool, signal.SIGKILL)
    call_in(pools, living)
    cluster.nodes[dead].start()
    call_in(pools, QUEUES[dead])


def call_in(fleet: PoolFleet, queue: str) -> None:
    """Have a function called there."""
    accepted: list[str] = []

    def submitted() -> bool:
        new = new_task(queue=queue, name="double", parameters={"n": 2})
        try:
            accepted.append(fleet.store.submit([new])[0].task.id)
        except StoreUnreachable:
            return False  # it has just died, or is not back yet
        return True

    until(submitted, "for a submission")
    until(lambda: is_complete(fleet, accepted[0]), f"for a call in {queue}")


def is_released(fleet: Fleet, id: str) -> bool:
    try:
        return not control.release(fleet.store, id).held
    except StoreUnreachable:
        return False


def is_complete(fleet: Fleet, id: str) -> bool:
    try:
        return fleet.get(id).state == "complete"
    except StoreUnreachable:
        return False


def can_submit(fleet: Fleet, queue: str, file: Path) -> bool:
    try:
        submit_to(fleet, queue, file)
    except StoreUnreachable:
        return False  # the next id that is drawn may be claimed elsewhere
    return True
