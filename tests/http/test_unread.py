"""Clients that ask and do not read: they keep nobody out, and leave nothing behind."""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from contextlib import ExitStack
from pathlib import Path

from stayer.http.limits import Limits
from stayer.store import Store
from tests.contract.builders import PATIENCE, new, submit
from tests.faults.fleet import until
from tests.http.serving import Process, Site, served_here
from tests.http.test_limits import said

LARGE = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
PIPELINED = 20


def connect_narrow(site: Site) -> socket.socket:
    """Takes hardly anything that is not read."""
    host, _, port = site.host.partition(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(PATIENCE)
    connection.connect((host, int(port)))
    return connection


def submit_much(store: Store) -> None:
    """A list of them is more than the kernel keeps for a client."""
    submit(store, *(new(parameters="a" * 900_000) for _ in range(9)))


def is_reset(connection: socket.socket) -> bool:
    """Looked at without reading anything."""
    poll = select.poll()
    poll.register(connection, 0)
    return bool(poll.poll(0))


def test_who_does_not_read_is_closed(tmp_path: Path, store: Store, url: str) -> None:
    limits = Limits(idle_time=0.5)
    with served_here(tmp_path, url, limits=limits) as site, connect_narrow(site) as unread:
        unread.sendall(LARGE * PIPELINED)
        until(lambda: is_reset(unread), "for it to be closed")


def test_who_does_not_read_the_last_answer_is_closed(
    tmp_path: Path, store: Store, url: str
) -> None:
    submit_much(store)
    limits = Limits(idle_time=0.5)
    with served_here(tmp_path, url, limits=limits) as site, connect_narrow(site) as unread:
        unread.sendall(
            f"GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Authorization: Bearer {site.tokens['read']}\r\n\r\n".encode()
        )
        until(lambda: is_reset(unread), "for it to be closed")


def test_who_reads_slowly_gets_everything(tmp_path: Path, store: Store, url: str) -> None:
    with served_here(tmp_path, url, limits=Limits(idle_time=1.0)) as site:
        size = len(site("GET", "/openapi.json", role=None).body)
        with connect_narrow(site) as slow:
            slow.sendall(LARGE * PIPELINED)
            begun, got = time.monotonic(), 0
            while got < size * PIPELINED:
                piece = slow.recv(65536)
                assert piece
                got += len(piece)
                if time.monotonic() - begun < 3.0:  # three times as long as it may do nothing
                    time.sleep(0.01)


def test_who_does_not_read_makes_room(tmp_path: Path, store: Store, url: str) -> None:
    limits = Limits(connections=5, stall_time=0.1)
    with served_here(tmp_path, url, limits=limits) as site, ExitStack() as opened:
        for _ in range(5):
            opened.enter_context(connect_narrow(site)).sendall(LARGE * PIPELINED)
        until(lambda: site("GET", "/healthz", role=None).status == 200, "for room")


def test_what_comes_behind_an_unread_answer_waits(site: Site, store: Store) -> None:
    submit_much(store)
    body = json.dumps({"id": "next", "queue": "q", "command": ["true"]})
    head = f"Host: localhost\r\nAuthorization: Bearer {site.tokens['operate']}\r\n"
    with connect_narrow(site) as hasty:
        hasty.sendall(
            f"GET /v1/tasks HTTP/1.1\r\n{head}\r\nPOST /v1/tasks HTTP/1.1\r\n{head}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            f"Connection: close\r\n\r\n{body}".encode()
        )
        assert hasty.recv(1, socket.MSG_PEEK)
        for _ in range(20):  # each takes as long as it would take to begin the next
            assert site("GET", "/v1/tasks?limit=1&state=failed").status == 200
        assert store.get(["next"]) == [None]
        answers = said(hasty)
    assert answers.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 201 " in answers
    assert store.get(["next"]) != [None]


def test_who_hangs_up_is_no_error(process: tuple[Process, Site]) -> None:
    server, site = process
    for each in range(4):
        gone = connect_narrow(site)
        gone.sendall(LARGE * PIPELINED)
        assert gone.recv(1, socket.MSG_PEEK)
        for _ in range(PIPELINED):  # meanwhile its own come to where nothing more is taken
            assert site("GET", "/openapi.json", role=None).status == 200
        if each % 2:  # with a reset
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.close()
    for _ in range(10):
        assert site("GET", "/openapi.json", role=None).status == 200
    server.stop()
    assert "Traceback" not in server.log.read_text()
