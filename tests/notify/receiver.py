"""A real receiver of webhooks, that answers as it is told: well, badly, late or never."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

PATIENCE = 30.0

Answer: TypeAlias = "Callable[[BaseHTTPRequestHandler], None]"


class Received(NamedTuple):
    """What came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def is_signed_with(self, secret: str) -> bool:
        """As the specification has it, written anew here."""
        key = base64.b64decode(secret.split("_", 1)[1])
        content = b".".join(
            (self.id.encode(), self.headers["webhook-timestamp"].encode(), self.body)
        )
        wanted = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        found = self.headers["webhook-signature"].split(" ")
        return any(hmac.compare_digest(each, f"v1,{wanted}") for each in found)


def status(code: int, text: bytes = b"", **headers: str) -> Answer:
    """Answer with this code."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(code)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    return answer


def hang(until: threading.Event) -> Answer:
    """Say nothing until then."""

    def answer(_: BaseHTTPRequestHandler) -> None:
        until.wait(PATIENCE)

    return answer


def drip(until: threading.Event) -> Answer:
    """Send a byte of a header now and then, without an end."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while not until.wait(0.05):
            request.wfile.write(b"x")

    return answer


def raw(data: bytes) -> Answer:
    """Send just this."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(data)

    return answer


class Receiver:
    """Keeps what came. Answers from the list, one each, then always with the last."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answers: list[Answer] = [status(200)]
        self.over = threading.Event()
        self._came = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?from=test"

    def use_tls(self, certificate: Path, key: Path) -> None:
        """Speak TLS from now on."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )

    def await_number(self, number: int) -> list[Received]:
        """So many, or more, must come."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.received) >= number, PATIENCE)
            return list(self.received)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with receiver._came:
                    receiver.received.append(Received(self.path, headers, body))
                    some = receiver.answers
                    answer = some.pop(0) if len(some) > 1 else some[0]
                    receiver._came.notify_all()
                with suppress(OSError):
                    answer(self)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def close(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()


def unused_port() -> int:
    """Where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def eventually(condition: Callable[[], bool]) -> None:
    """It must become so."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not become so"
        time.sleep(0.01)
