"""A bare HTTP client that keeps so many connections busy: cheap, not to hide what it measures.

`python -m bench.http_client PORT TOKEN CONNECTIONS SECONDS [RATE]` prints a JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from typing import cast

_PATIENCE = 30.0


@dataclass
class Found:
    """What came back."""

    times: list[float] = field(default_factory=list)
    refused: int = 0


class Client(asyncio.Protocol):
    """One connection: the next request follows the answer, or waits for its turn."""

    def __init__(
        self, request: bytes, until: float, pace: float, begin: float, found: Found
    ) -> None:
        self.done = asyncio.get_running_loop().create_future()
        self._request = request
        self._until = until
        self._pace = pace
        self._due = begin
        self._found = found
        self._sent = 0.0
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._next()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, found, body = self._answer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        if len(body) < length:
            return
        self._found.times.append(time.perf_counter() - self._sent)
        self._found.refused += not head.startswith(b"HTTP/1.1 2")
        self._answer = b""
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _next(self) -> None:
        now = time.perf_counter()
        if now >= self._until:
            self._transport.close()
        elif self._pace and now < self._due:
            asyncio.get_running_loop().call_later(self._due - now, self._send)
        else:
            self._send()

    def _send(self) -> None:
        # With a pace, what waits for a slow server counts as waiting.
        now = time.perf_counter()
        self._sent = min(now, self._due) if self._pace else now
        self._due += self._pace
        self._transport.write(self._request)


def post(path: str, token: str, body: bytes) -> bytes:
    """A request, as bytes."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def load(port: int, request: bytes, connections: int, seconds: float, rate: float) -> Found:
    """Ask as fast as it goes, or with so many requests a second in all."""
    found = Found()
    loop = asyncio.get_running_loop()
    begin = time.perf_counter()
    clients = []
    for number in range(connections):
        pace = connections / rate if rate else 0.0
        _, client = await loop.create_connection(
            lambda start=begin + pace * number / connections, pace=pace: Client(  # type: ignore[misc]
                request, begin + seconds, pace, start, found
            ),
            "127.0.0.1", port,
        )  # fmt: skip
        clients.append(client)
    await asyncio.wait_for(
        asyncio.gather(*(client.done for client in clients)), seconds + _PATIENCE
    )
    return found


def main() -> None:
    """For a process of its own, so that it has a core of its own."""
    port, token, connections, seconds, *rate = sys.argv[1:]
    body = json.dumps({"queue": "q", "parameters": {"file": "a.mov", "n": 1}}).encode()
    import uvloop

    found = uvloop.run(
        load(
            int(port), post("/v1/tasks", token, body), int(connections), float(seconds),
            float(rate[0]) if rate else 0.0,
        )
    )  # fmt: skip
    times = sorted(found.times) or [0.0]
    report = {
        "rate": len(found.times) / float(seconds),
        "p50": times[len(times) // 2],
        "p99": times[int(len(times) * 0.99)],
        "refused": found.refused,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
