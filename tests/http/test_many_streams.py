"""Many who listen leave nothing behind: no stream, no thread, no descriptor, little memory."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from stayer.http.limits import Limits
from stayer.store import Store
from tests.contract.builders import PATIENCE, new, submit
from tests.faults.fleet import until
from tests.http.serving import Process, Site


async def connect(
    site: Site, number: int
) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """So many streams, each of which has begun; of as many tokens as that takes."""
    host, _, port = site.host.partition(":")
    for each in range(len(site.spare), number // Limits().streams_by_token + 1):
        site.spare.append(site.access.add(f"spare {each}", "read"))

    async def one(token: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"GET /v1/events HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n"
            f"Authorization: Bearer {token}\r\n\r\n".encode()
        )
        await asyncio.wait_for(reader.readuntil(b"id: "), PATIENCE)
        return reader, writer

    return [await one(site.spare[each % len(site.spare)]) for each in range(number)]


async def crowd(site: Site, store: Store, number: int, id: str) -> None:
    """They come, all hear of a task, and go."""
    opened = await connect(site, number)
    submit(store, new(id))
    for reader, _ in opened:
        await asyncio.wait_for(reader.readuntil(f'"id":"{id}"'.encode()), PATIENCE)
    for _, writer in opened:
        writer.close()


def streams(site: Site) -> int:
    found = re.search(r"^stayer_event_streams (\d+)", site("GET", "/metrics").body.decode(), re.M)
    assert found is not None
    return int(found[1])


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def memory(pid: int) -> int:
    """Bytes."""
    status = Path(f"/proc/{pid}/statm").read_text().split()
    return int(status[1]) * 4096


def come_and_go(server: Process, site: Site, store: Store, number: int, rounds: int) -> None:
    pid = server.process.pid
    for each in range(2):  # the first make what stays: threads, connections to the store
        asyncio.run(crowd(site, store, number, f"warm-{each}"))
        until(lambda: streams(site) == 0, "for the streams to end")
    before = threads(pid), descriptors(pid), memory(pid)
    for each in range(rounds):
        asyncio.run(crowd(site, store, number, f"t{each}"))
        until(lambda: streams(site) == 0, "for the streams to end")
    until(lambda: descriptors(pid) <= before[1] + 10, "for the connections to be closed")
    assert threads(pid) <= before[0] + 2
    assert memory(pid) - before[2] < 20_000_000


def test_streams_leave_nothing_behind(process: tuple[Process, Site], store: Store) -> None:
    come_and_go(*process, store, 40, 3)


@pytest.mark.long
def test_many_streams_leave_nothing_behind(process: tuple[Process, Site], store: Store) -> None:
    come_and_go(*process, store, 200, 20)
