"""A replica of a cluster dies where `?wait=1` wants it: what needs it waits, and nothing else."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.core.errors import StoreUnreachable
from stayer.core.submit.checks import new_task
from stayer.service.lease.heartbeat import moment
from tests.faults.fleet import Fleet, until
from tests.faults.pools import PoolFleet
from tests.faults.test_cluster_away import (
    OF_THE_REGISTRY,
    QUEUES,
    call_in,
    can_submit,
    is_complete,
    latest,
    stamper,
)
from tests.servers.cluster import Cluster, clustered
from tests.servers.finding import redis_binary

LEASE = 3.0
OPTIONS = {"wait": 1, "wait_timeout": "1s"}
DEAF = [
    pytest.param(OF_THE_REGISTRY, id="that of the registry"),
    pytest.param((OF_THE_REGISTRY + 1) % 3, id="another", marks=pytest.mark.long),
]
ALL = [part for queue in "abc" for part in ("-q", queue)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with clustered(redis_binary()) as cluster:
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


def log_of(fleet: Fleet) -> str:
    return (fleet.folder / "one.log").read_text()


def is_told_complete(fleet: Fleet, id: str) -> bool:
    lines = log_of(fleet).splitlines()
    return any(f"task {id} (" in line and "is complete" in line for line in lines)


@pytest.mark.parametrize("deaf", DEAF)
def test_queues_of_nodes_with_replicas_go_on(cluster: Cluster, fleet: Fleet, deaf: int) -> None:
    # Given a worker with a running task in a queue of each node
    pid = fleet.worker("one", *ALL, lease=LEASE, slots=9)
    for queue in QUEUES.values():
        stamper(fleet, queue)
    for queue in QUEUES.values():
        fleet.until_stamped(queue)
        fleet.until_state(queue, "started")

    # When one of the nodes has no replica for longer than several leases
    cluster.nodes[3 + deaf].signal(signal.SIGKILL)
    killed = moment()
    lost = QUEUES[deaf]
    living = [queue for queue in QUEUES.values() if queue != lost]

    # Then all that runs runs on, and in the other queues tasks begin and end
    for queue in living:
        file = fleet.folder / f"{queue}.began"
        until(lambda queue=queue, file=file: can_submit(fleet, queue, file), "for a submission")  # type: ignore[misc]
        until(file.exists, f"for a new task of {queue}")
    until(
        lambda: all(latest(fleet, queue) > killed + 4 * LEASE for queue in QUEUES.values()),
        "for stamps",
    )
    for queue in living:
        fleet.finish(queue)
        until(lambda queue=queue: is_complete(fleet, queue), f"for {queue}")  # type: ignore[misc]
    assert "beat of" not in log_of(fleet)
    assert "without a lease" not in log_of(fleet)

    # And there when the replica is back
    fleet.finish(lost)
    cluster.nodes[3 + deaf].start()
    until(lambda: can_submit(fleet, lost, fleet.folder / "after"), "for a submission")
    until((fleet.folder / "after").exists, "for a new task of it")
    until(lambda: is_told_complete(fleet, lost), "for its end to be confirmed")
    assert [fleet.get(queue).attempt for queue in QUEUES.values()] == [1, 1, 1]
    assert [process.poll() for process in fleet.workers if process.pid == pid] == [None]
    assert "not ours" not in log_of(fleet)


@pytest.mark.parametrize("deaf", DEAF)
def test_threads_go_on_with_the_others(cluster: Cluster, pools: PoolFleet, deaf: int) -> None:
    pid = pools.pool_worker("one", *ALL, lease=LEASE)
    for queue in QUEUES.values():
        call_in(pools, queue)
    pool = pools.pool_of(pid)
    cluster.nodes[3 + deaf].signal(signal.SIGKILL)
    until(lambda: refuses(pools, QUEUES[deaf]), "for it to be missed")
    end = moment() + 3 * LEASE
    while moment() < end:
        for queue in QUEUES.values():
            if queue != QUEUES[deaf]:
                call_in(pools, queue)
    assert pools.pool_of(pid) == pool, "it kept its lease"
    cluster.nodes[3 + deaf].start()
    call_in(pools, QUEUES[deaf])


def refuses(fleet: Fleet, queue: str) -> bool:
    try:
        fleet.store.submit([new_task(queue=queue, name="double", parameters={"n": 2})])
    except StoreUnreachable as error:
        return "replicas" in str(error)
    return False
