"""A Redis Cluster for the tests: three primaries, each with a replica."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from redis.crc import key_slot

from tests.servers.finding import redis_binary
from tests.servers.redis import free_port
from tests.servers.sentinel import Node, until

SLOTS = 16384


class Cluster:
    """Six nodes; the first three begin as primaries."""

    def __init__(
        self, binary: str, folder: Path, replicas: int, options: Sequence[str], patience: int
    ) -> None:
        self._options = options
        ports = [free_port() for _ in range(3 + replicas)]
        self._patience = patience
        self._buses = {port: free_port() for port in ports}
        self.nodes = [self._node(binary, folder, port) for port in ports]
        self._prefixes = itertools.count(1)

    def url(self, **options: object) -> str:
        """Of a part that nobody has used yet, unless a prefix is given."""
        given = {"prefix": f"t{next(self._prefixes)}", **options}
        query = "&".join(f"{name}={value}" for name, value in given.items())
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"redis+cluster://{hosts}?{query}"

    def start(self) -> None:
        """Start all, give them their slots and roles, and wait until they agree."""
        for node in self.nodes:
            node.start()
        until(lambda: all(node.ask("PING", password="") for node in self.nodes), "for the nodes")
        primaries = self.nodes[:3]
        bounds = [0, SLOTS // 3, 2 * SLOTS // 3, SLOTS]
        for node, start, end in zip(primaries, bounds, bounds[1:], strict=False):
            node.ask("CLUSTER", "ADDSLOTSRANGE", start, end - 1, password="")
        for epoch, node in enumerate(self.nodes, 1):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", epoch, password="")
        for node in self.nodes[1:]:
            first = self.nodes[0].port
            node.ask("CLUSTER", "MEET", "127.0.0.1", first, self._buses[first], password="")
        until(lambda: all(self._knows_all(node) for node in self.nodes), "for the nodes to meet")
        for primary, replica in zip(primaries, self.nodes[3:], strict=False):
            replica.ask("CLUSTER", "REPLICATE", id_of(primary), password="")
        until(lambda: all(self._is_well(node) for node in self.nodes), "for the cluster")

    def end(self) -> None:
        for node in self.nodes:
            node.end()

    def _knows_all(self, node: Node) -> bool:
        info = node.ask("CLUSTER", "INFO", password="")
        return f"cluster_known_nodes:{len(self.nodes)}\r" in info.decode()

    def _is_well(self, node: Node) -> bool:
        info = node.ask("CLUSTER", "INFO", password="")
        parts = node.ask("CLUSTER", "SLOTS", password="")
        wanted = len(self.nodes) // 3
        return b"cluster_state:ok" in info and {len(part[2:]) for part in parts} == {wanted}

    def _node(self, binary: str, folder: Path, port: int) -> Node:
        options = [
            "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes",
            "--cluster-enabled", "yes", "--cluster-port", str(self._buses[port]),
            "--cluster-node-timeout", str(self._patience), "--repl-diskless-sync-delay", "0",
            *self._options,
        ]  # fmt: skip
        return Node(binary, folder, port, options)


def id_of(node: Node) -> str:
    """The name that the nodes know it by."""
    found = node.ask("CLUSTER", "MYID", password="")
    return found.decode() if isinstance(found, bytes) else str(found)


@contextmanager
def killable() -> Iterator[Cluster]:
    """Three primaries without replicas. One may be killed: the others go on, and it comes back with
    all that it has answered.
    """
    # With `everysec` what is to be written may wait for a disk that is slow.
    options = ("--cluster-require-full-coverage", "no", "--appendfsync", "no")
    with clustered(redis_binary(), 0, *options) as cluster:
        yield cluster


def node_of(tag: str) -> int:
    """The number of the primary that has what is written between braces, at the beginning."""
    return int(key_slot(tag.encode())) * 3 // SLOTS


@contextmanager
def clustered(
    binary: str, replicas: int = 3, *options: str, fails_over: bool = False
) -> Iterator[Cluster]:
    """A cluster that runs until the end. Where nobody is to take over, nobody is thought dead,
    however busy the machine is.
    """
    folder = Path(tempfile.mkdtemp(prefix="stayer-cluster-"))
    cluster = Cluster(binary, folder, replicas, options, 1000 if fails_over else 60_000)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
        shutil.rmtree(folder, ignore_errors=True)
