"""Workers that know a URL and a token, and nothing of the database."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from stayer.http.token_places import TokensInStore
from stayer.http.tokens import Access
from tests.faults.fleet import Fleet
from tests.faults.pools import PoolFleet
from tests.http.serving import Process


class ServedFleet(Fleet):
    """Workers behind one server, or several: with tokens that all of these find in the store."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.database = self.url
        self.token = Access(TokensInStore(self.store)).add("node", "work", ("default",))
        self.servers: list[Process] = []
        self.urls: dict[str, str] = {}
        """Which way workers go whose node is not to ask the first server."""
        self.url = self.serve().url

    @property
    def server(self) -> Process:
        """The first one."""
        return self.servers[0]

    def serve(self) -> Process:
        """Start one more server."""
        self.servers.append(self._start())
        return self.servers[-1]

    def _start(self, port: int = 0) -> Process:
        return Process(self.folder, self.database, port=port, access_file=None)

    def worker(self, name: str = "one", *options: str, **about: Any) -> int:
        """Start a worker that goes the way of its node."""
        first, self.url = self.url, self.urls.get(name, self.url)
        try:
            return super().worker(name, *options, **about)
        finally:
            self.url = first

    def kill(self, at: int = 0) -> None:
        """End a server without a word."""
        process = self.servers[at].process
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()

    def restart(self, at: int = 0) -> None:
        """Let a server be there again, where it was."""
        self.servers[at] = self._start(self.servers[at].port)

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), "STAYER_TOKEN": self.token}

    def close(self) -> None:
        super().close()
        for server in self.servers:
            if server.process.poll() is None:
                os.kill(server.process.pid, signal.SIGCONT)
                server.stop()

    def is_fenced(self, id: str, node: str) -> bool:
        """Whether a keeper has frozen the first attempt."""
        running = self.folder / node / "run" / f"{id}.1" / "running"
        with suppress(OSError):
            return '"fenced"' in running.read_text()
        return False


class ServedPools(ServedFleet, PoolFleet):
    """Workers with threads that know a URL and a token."""


def _what_has_come(connection: socket.socket) -> bytes:
    """Without waiting for more."""
    with suppress(BlockingIOError):
        return connection.recv(65536, socket.MSG_DONTWAIT)
    return b""


class LossyProxy:
    """Passes requests on, perhaps slowly, and loses the answers to every third of them, if it does
    not keep all.
    """

    def __init__(self, port: int, *, delay_s: float = 0.0, loses: bool = True) -> None:
        self._server_port = port
        self._delay_s = delay_s
        self._loses = loses
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.lost = 0
        self._count = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with (
            client,
            suppress(OSError),
            socket.create_connection(("127.0.0.1", self._server_port)) as server,
        ):
            threading.Thread(target=self._pump, args=(client, server), daemon=True).start()
            while answer := server.recv(65536):
                if self._delay_s:
                    time.sleep(self._delay_s)
                    answer += _what_has_come(server)  # of the same answer: it is late once
                self._count += 1
                if self._loses and self._count % 3 == 0:
                    self.lost += 1
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(answer)

    @staticmethod
    def _pump(client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while request := client.recv(65536):
                server.sendall(request)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)
