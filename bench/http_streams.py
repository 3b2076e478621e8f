"""Many who listen to events: what it costs while nothing happens."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench.http_speed import Server, served
from bench.kinds import KINDS
from bench.measure import say

CLIENTS = 200
SECONDS = 60.0


def streams() -> None:
    """The aim: under 5 % of a core for 200 streams at rest."""
    print(f"{CLIENTS} event streams at rest, for {SECONDS:.0f} s")
    with KINDS["sqlite"].fresh() as (store, _), served(store.url) as server:
        used = asyncio.run(_listen(server))
    part = used / SECONDS
    say("CPU of the server", f"{100 * part:.1f} % of a core", "aim < 5 %", part < 0.05)


async def _listen(server: Server) -> float:
    tokens = (server.token, *server.more)
    opened = [await _open(server, tokens[each % len(tokens)]) for each in range(CLIENTS)]
    _say_threads(server)
    before, begin = server.cpu(), time.monotonic()
    await asyncio.sleep(SECONDS - (time.monotonic() - begin))
    used = server.cpu() - before
    for writer in opened:
        writer.close()
    return used


async def _open(server: Server, token: str) -> asyncio.StreamWriter:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(
        b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
        b"Authorization: Bearer " + token.encode() + b"\r\n\r\n"
    )
    assert b" 200 " in await reader.readline()
    return writer


def _say_threads(server: Server) -> None:
    status = Path(f"/proc/{server.pid}/status").read_text()
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    say("threads, memory", f"{lines['Threads'].strip()}, {lines['VmRSS'].strip()}")
