"""A private Redis or Valkey server for the tests: own folder, own socket, stopped by its pid."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from stayer.core.errors import StoreError
from stayer.stores import open_store

PATIENCE = 30.0


class RedisServer:
    """A server that can be started, stopped and killed; what it wrote stays in its folder."""

    def __init__(self, binary: str, folder: Path, options: Sequence[str] = ()) -> None:
        self._binary = binary
        self._folder = folder
        self._options = list(options)
        self._process: subprocess.Popen[bytes] | None = None
        self._prefixes = itertools.count(1)

    @property
    def socket(self) -> str:
        """Where it can be reached."""
        return str(self._folder / "socket")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def url(self, prefix: str | None = None) -> str:
        """The URL of a part of the server that nobody has used yet, or of the one named."""
        return f"unix://{self.socket}?prefix={prefix or f't{next(self._prefixes)}'}"

    def start(self, *options: str) -> None:
        """Start it, and wait until it answers."""
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    self._binary, "--port", "0", "--unixsocket", self.socket, "--dir",
                    str(self._folder), "--save", "",
                    *self._options, *options,
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self._await_answer()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, politely or not, and wait until it is gone."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(PATIENCE)

    def _await_answer(self) -> None:
        assert self._process is not None
        store = open_store(self.url("ping"))
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                store.queues()  # not the time, which it tells before it has its data
                break
            except StoreError:
                said = (self._folder / "log").read_text(errors="replace")
                assert self._process.poll() is None, f"the server has ended: {said}"
                assert time.monotonic() < deadline, f"the server does not answer: {said}"
                time.sleep(0.01)
        store.close()


def _ports() -> Iterator[int]:
    """For ever, in an order of this process's own. Those that the system gives to who connects are
    left out, and each of the processes that test side by side has some to itself: else somebody
    might take one before the server does that it is meant for.
    """
    given_out = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES
    end = given_out if given_out > 2 * _LOWEST_PORT else 60_000
    mine = range(_LOWEST_PORT + number, end, _PROCESSES)
    while True:
        yield from random.sample(mine, len(mine))


_PROCESSES = 16
_LOWEST_PORT = 10_000
_next_ports = _ports()


def free_port() -> int:
    """A port that nobody uses now."""
    for port in _next_ports:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError


@contextmanager
def serving(binary: str, *options: str) -> Iterator[RedisServer]:
    """A server that runs until the end."""
    # Not pytest's folder: the path of a socket has at most about a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="stayer-redis-", dir=os.environ.get("XDG_RUNTIME_DIR")))
    server = RedisServer(binary, folder, options)
    try:
        server.start()
        yield server
    finally:
        server.stop(signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
