"""A primary with replicas, and sentinels that watch over them, for the tests."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from tests.servers.redis import PATIENCE, free_port

SERVICE = "films"
PASSWORD, SENTINEL_PASSWORD = "of the servers", "of the sentinels"
_SENTINEL = """
port {port}
bind 127.0.0.1
requirepass "{sentinel_password}"
sentinel sentinel-pass "{sentinel_password}"
sentinel monitor {service} 127.0.0.1 {primary} 2
sentinel auth-pass {service} "{password}"
sentinel down-after-milliseconds {service} 700
sentinel failover-timeout {service} 5000
"""


class Node:
    """A process of the group; a sentinel has a file of settings that it writes to itself."""

    def __init__(self, binary: str, folder: Path, port: int, options: list[str]) -> None:
        self._binary, self._folder, self.port = binary, folder, port
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        folder = self._folder / str(self.port)
        folder.mkdir(exist_ok=True)
        with open(folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [self._binary, *self._options, "--dir", str(folder)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def signal(self, number: signal.Signals) -> None:
        """Stop it, let it go on, or kill it; what is killed is gone afterwards."""
        assert self._process is not None
        self._process.send_signal(number)
        if number == signal.SIGKILL:
            self._process.wait(PATIENCE)

    def end(self) -> None:
        if self._process is not None:
            self.signal(signal.SIGKILL)
        self._process = None

    def ask(self, *command: object, password: str = PASSWORD) -> Any:
        """What it answers to a plain command."""
        client = redis.Redis("127.0.0.1", self.port, password=password or None, socket_timeout=5)
        try:
            return client.execute_command(*command)
        finally:
            client.close()


class Group:
    """A primary, two replicas, three sentinels."""

    def __init__(self, binary: str, folder: Path) -> None:
        ports = [free_port() for _ in range(6)]
        self.servers = [self._server(binary, folder, port, ports[0]) for port in ports[:3]]
        self.sentinels = [self._sentinel(binary, folder, port, ports[0]) for port in ports[3:]]

    def url(self, **options: object) -> str:
        """Through the sentinels."""
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        given = {"sentinel_password": SENTINEL_PASSWORD, **options}
        query = "&".join(f"{name}={value}" for name, value in given.items())
        return f"redis+sentinel://:{PASSWORD}@{hosts}/{SERVICE}?{query}".replace(" ", "%20")

    def start(self) -> None:
        """Start all, and wait until they know of each other."""
        for server in self.servers:
            server.start()
        until(lambda: self.replicas_of(self.servers[0]) == 2, "for the replicas")
        for sentinel in self.sentinels:
            sentinel.start()
        until(self._are_acquainted, "for the sentinels to know all")

    def end(self) -> None:
        for node in [*self.sentinels, *self.servers]:
            node.end()

    def primary(self) -> Node:
        """The one that takes changes, as all sentinels see it."""
        question = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        [port] = {
            int(each.ask(*question, password=SENTINEL_PASSWORD)[1]) for each in self.sentinels
        }
        [found] = [server for server in self.servers if server.port == port]
        return found

    def until_replaced(self, old: Node) -> Node:
        """Wait until another one is the primary, for every sentinel."""

        def is_replaced() -> bool:
            return self.primary() is not old and self.primary().ask("ROLE")[0] == b"master"

        until(is_replaced, "for another primary")
        return self.primary()

    def replicas_of(self, server: Node) -> int:
        """How many follow it, and have all that it has."""
        known = server.ask("INFO", "replication")
        states = [known.get(f"slave{number}", {}).get("state") for number in range(2)]
        return states.count("online")

    def _are_acquainted(self) -> bool:
        known = [
            each.ask("INFO", "sentinel", password=SENTINEL_PASSWORD)["master0"]
            for each in self.sentinels
        ]
        return all((each["slaves"], each["sentinels"]) == (2, 3) for each in known)

    @staticmethod
    def _server(binary: str, folder: Path, port: int, primary: int) -> Node:
        options = [
            "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes",
            "--requirepass", PASSWORD, "--masterauth", PASSWORD,
            "--repl-diskless-sync-delay", "0",
        ]  # fmt: skip
        if port != primary:
            options += ["--replicaof", "127.0.0.1", str(primary)]
        return Node(binary, folder, port, options)

    @staticmethod
    def _sentinel(binary: str, folder: Path, port: int, primary: int) -> Node:
        settings = folder / f"{port}.conf"
        settings.write_text(
            _SENTINEL.format(
                port=port,
                primary=primary,
                service=SERVICE,
                password=PASSWORD,
                sentinel_password=SENTINEL_PASSWORD,
            )
        )
        return Node(binary, folder, port, [str(settings), "--sentinel"])


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition; a server that is not there yet is none."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if condition():
                return
        except (redis.RedisError, OSError, ValueError):
            pass
        assert time.monotonic() < deadline, f"waited in vain {what}"
        time.sleep(0.02)


@contextmanager
def watched_over(binary: str) -> Iterator[Group]:
    """A group that runs until the end."""
    folder = Path(tempfile.mkdtemp(prefix="stayer-sentinel-"))
    group = Group(binary, folder)
    try:
        group.start()
        yield group
    finally:
        group.end()
        shutil.rmtree(folder, ignore_errors=True)
