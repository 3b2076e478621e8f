"""A private Redis or Valkey server for the tests: own folder, own socket, stopped by its pid."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
