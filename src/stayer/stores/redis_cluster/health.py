"""What `stayer doctor` asks of a cluster: all of its nodes, for any may be a primary tomorrow."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from stayer.core.errors import StoreError, StoreUnreachable
from stayer.core.insight.health import Finding
from stayer.stores.redis import damage, missing_records
from stayer.stores.redis.health import check_incoming, check_node
from stayer.stores.redis.keys import key
from stayer.stores.redis_cluster.fan_out import FanOut
from stayer.stores.redis_cluster.nodes import SLOTS, Host, Nodes, Part
from stayer.stores.redis_cluster.router import NEWS, REGISTRY, Shards


def check(nodes: Nodes) -> list[Finding]:
    """Slots, replicas, the settings of each node, what came in from outside."""
    parts = nodes.parts()
    replicas: dict[Host, int] = {}
    for _, _, (primary, *others) in parts:
        replicas[primary] = max(replicas.get(primary, 0), len(others))
    members = {host: number == 0 for _, _, hosts in parts for number, host in enumerate(hosts)}
    away = {host: reason for host in members if (reason := _silence(nodes, host)) is not None}
    return [
        _slots(parts, away, len(replicas)),
        *_check_registry(nodes, away),
        *_without_replica([host for host, number in replicas.items() if not number]),
        *(_does_not_answer(host, reason) for host, reason in away.items()),
        *_of_all({host: _of_one(nodes, host, members[host]) for host in members.keys() - away}),
        *_check_incoming(nodes),
    ]


def check_queues(shards: Shards) -> list[Finding]:
    """Return what each queue, and the stream of all events, knows of keys that were set aside and
    tasks that were lost, as far as it can be reached.
    """
    fan_out, names = FanOut(shards), shards.names()
    found = [
        fan_out.at(name, partial(look, shards.server_of(name)))
        for name in (REGISTRY, *names)
        for look in (damage.check, missing_records.check)
    ]
    if NEWS not in names:  # a queue of that name is in the same place
        found.append(fan_out.attempt(partial(damage.check, shards.server_of(NEWS))))
    return [finding for findings in found for finding in findings or ()]


def _silence(nodes: Nodes, host: Host) -> str | None:
    """Return why a node does not answer."""
    try:
        nodes.at_host(host).ask("PING")
    except StoreUnreachable as error:
        return str(error)
    except StoreError:  # it answers, be it in a way that is to be looked at
        return None
    return None


def _slots(parts: list[Part], away: dict[Host, str], primaries: int) -> Finding:
    covered = sum(end - start + 1 for start, end, _ in parts)
    silent = [(start, end, hosts[0]) for start, end, hosts in parts if hosts[0] in away]
    if covered == SLOTS and not silent:
        return Finding("cluster", "ok", f"{primaries} primaries, all {SLOTS:,} slots have one")
    missing = SLOTS - covered + sum(end - start + 1 for start, end, _ in silent)
    listed = ", ".join(f"{start}-{end} of {_format(host)}" for start, end, host in silent)
    message = (
        f"{missing:,} of {SLOTS:,} slots have no node that answers{f' ({listed})' * bool(listed)}: "
        "their queues can't be used"
    )
    todo = "start what is down" if silent else "fix it: redis-cli --cluster fix"
    return Finding("cluster", "fail", message, todo)


def _check_registry(nodes: Nodes, away: dict[Host, str]) -> list[Finding]:
    """Report if the node that knows all workers is away: more depends on it than its queues."""
    place = key("shards", nodes.options.prefix)
    if not any(nodes.server_of(place) is nodes.at_host(host) for host in away):
        return []
    message = (
        "the node that knows all workers is away: those that run go on with the queues that can be "
        "reached, but none can begin, none is declared lost, and no queue can be made"
    )
    return [Finding("cluster", "fail", message, "start it first")]


def _without_replica(hosts: list[Host]) -> list[Finding]:
    if not hosts:
        return []
    message = f"no replica of {', '.join(map(_format, hosts))}: if one dies, its queues stand still"
    return [Finding("replicas", "warn", message, "add a replica to each primary")]


def _does_not_answer(host: Host, reason: str) -> Finding:
    message = f"{_format(host)}: does not answer: {reason}"
    return Finding("server", "fail", message, "start it, or remove it")


def _of_one(nodes: Nodes, host: Host, is_primary: bool) -> list[Finding]:
    try:
        return check_node(nodes.at_host(host), is_primary)
    except StoreError as error:
        return [Finding("server", "fail", f"does not answer: {error}", "start it, or remove it")]


def _check_incoming(nodes: Nodes) -> list[Finding]:
    place, refused = (key(name, nodes.options.prefix) for name in ("incoming", "unfit"))
    try:
        return [nodes.at(place, lambda server: check_incoming(server, place, refused))]
    except StoreUnreachable:
        return [Finding("incoming", "fail", f"the list {place} is on a node that is away")]


def _of_all(found: dict[Host, list[Finding]]) -> list[Finding]:
    """Say once what is the same of several nodes."""
    hosts: dict[Finding, list[Host]] = {}
    for host, findings in found.items():
        for finding in findings:
            hosts.setdefault(finding, []).append(host)
    return [
        replace(finding, message=f"{_names(some, len(found))}: {finding.message}")
        for finding, some in hosts.items()
    ]


def _names(some: list[Host], number: int) -> str:
    return f"all {number} nodes" if len(some) == number else ", ".join(map(_format, some))


def _format(host: Host) -> str:
    return f"{host[0]}:{host[1]}"
