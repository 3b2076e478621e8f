"""What `stayer doctor` asks of a cluster: all of its nodes, for any may be a primary tomorrow."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from stayer.core.errors import StoreError
from stayer.stores.findings import Finding
from stayer.stores.redis import strays
from stayer.stores.redis.check import check_node, incoming
from stayer.stores.redis.cluster.nodes import SLOTS, Host, Nodes
from stayer.stores.redis.cluster.shards import Shards
from stayer.stores.redis.cluster.tour import Tour
from stayer.stores.redis.keys import key


def check(nodes: Nodes) -> list[Finding]:
    """Slots, replicas, the settings of each node, what came in from outside."""
    parts = nodes.parts()
    replicas: dict[Host, int] = {}
    for _, _, (primary, *others) in parts:
        replicas[primary] = max(replicas.get(primary, 0), len(others))
    members = {host: number == 0 for _, _, hosts in parts for number, host in enumerate(hosts)}
    place, refused = (key(name, nodes.options.prefix) for name in ("incoming", "unfit"))
    return [
        _slots(sum(end - start + 1 for start, end, _ in parts), len(replicas)),
        *_without_replica([host for host, number in replicas.items() if not number]),
        *_of_all({host: _of_one(nodes, host, members[host]) for host in members}),
        nodes.at(place, lambda server: incoming(server, place, refused)),
    ]


def check_queues(shards: Shards) -> list[Finding]:
    """What each queue knows of tasks that were lost, as far as it can be reached."""
    tour = Tour(shards)
    found = (
        tour.at(name, partial(strays.check, shards.server_of(name))) for name in shards.names()
    )
    return [finding for findings in found for finding in findings or ()]


def _slots(covered: int, primaries: int) -> Finding:
    if covered == SLOTS:
        return Finding("cluster", "ok", f"{primaries} primaries, all {SLOTS:,} slots have one")
    message = f"{SLOTS - covered:,} of {SLOTS:,} slots have no node: their queues can't be used"
    return Finding("cluster", "fail", message, "mend it: redis-cli --cluster fix")


def _without_replica(hosts: list[Host]) -> list[Finding]:
    if not hosts:
        return []
    message = f"no replica of {', '.join(map(_shown, hosts))}: if one dies, its queues stand still"
    return [Finding("replicas", "warn", message, "add a replica to each primary")]


def _of_one(nodes: Nodes, host: Host, is_primary: bool) -> list[Finding]:
    try:
        return check_node(nodes.at_host(host), is_primary)
    except StoreError as error:
        return [Finding("server", "fail", f"does not answer: {error}", "start it, or remove it")]


def _of_all(found: dict[Host, list[Finding]]) -> list[Finding]:
    """The same of several nodes is said once."""
    hosts: dict[Finding, list[Host]] = {}
    for host, findings in found.items():
        for finding in findings:
            hosts.setdefault(finding, []).append(host)
    return [
        replace(finding, message=f"{_names(some, len(found))}: {finding.message}")
        for finding, some in hosts.items()
    ]


def _names(some: list[Host], number: int) -> str:
    return f"all {number} nodes" if len(some) == number else ", ".join(map(_shown, some))


def _shown(host: Host) -> str:
    return f"{host[0]}:{host[1]}"
