"""A proxy between a store and its server, which does to connections what networks do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PIECE = 65536


class Proxy:
    """Passes bytes on, between a port of its own and the server's socket."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._guard = threading.Lock()
        self.requests_left: int | None = None
        """After so many more pieces that clients send, the connection is cut; None: never."""
        self.answers_left: int | None = None
        """The same for pieces that the server answers: it has done what it was asked."""
        self.delay = 0.0
        """How much later everything arrives, in seconds."""
        self._closing = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_all(self) -> None:
        """Cut the connections there are."""
        with self._guard:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            _cut(pair)

    def half_close(self) -> None:
        """Say to clients that the server has ended; the server still listens to them."""
        with self._guard:
            pairs = list(self._pairs)
        for client, _ in pairs:
            with suppress(OSError):
                client.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End it."""
        self._closing.set()
        self._listening.close()
        self.cut_all()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server = socket.socket(socket.AF_UNIX)
            pair = client, server
            try:
                server.connect(self._server)
            except OSError:
                _cut(pair)
                continue
            with self._guard:
                self._pairs.append(pair)
            for source, target, asks in ((client, server, True), (server, client, False)):
                threading.Thread(
                    target=self._pass_on, args=(pair, source, target, asks), daemon=True
                ).start()

    def _pass_on(
        self,
        pair: tuple[socket.socket, socket.socket],
        source: socket.socket,
        target: socket.socket,
        asks: bool,
    ) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                if self.delay:
                    self._closing.wait(self.delay)
                if self._is_the_last(asks):
                    break
                target.sendall(piece)
        _cut(pair)

    def _is_the_last(self, asks: bool) -> bool:
        with self._guard:
            name = "requests_left" if asks else "answers_left"
            left = getattr(self, name)
            if left is None:
                return False
            setattr(self, name, None if left <= 0 else left - 1)
            return bool(left <= 0)


def _cut(pair: tuple[socket.socket, socket.socket]) -> None:
    for end in pair:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextmanager
def between(server: str) -> Iterator[Proxy]:
    """A proxy before this socket."""
    proxy = Proxy(server)
    try:
        yield proxy
    finally:
        proxy.close()
