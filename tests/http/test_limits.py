"""How much anybody may take of a server: connections, headers, bodies, streams."""

from __future__ import annotations

import resource
import socket
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from stayer.http.limits import Limits, client_of
from stayer.store import Store
from tests.contract.builders import PATIENCE, new, submit
from tests.faults.fleet import until
from tests.http.serving import Process, Site, log_in, served_here
from tests.http.test_many_streams import memory

MB = 1_000_000


def connect(site: Site) -> socket.socket:
    host, _, port = site.host.partition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def said(connection: socket.socket) -> bytes:
    """All until the server closes; nothing, if it just does."""
    found = b""
    with suppress(ConnectionError):
        while piece := connection.recv(65536):
            found += piece
    return found


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_descriptors")
def test_a_thousand_half_open_connections_lock_nobody_out(
    tmp_path: Path, store: Store, url: str
) -> None:
    """With the descriptors that a service has, and so fewer than connections."""
    server = Process(tmp_path, url, descriptors=1024)
    site = Site(server.url, access=None)  # type: ignore[arg-type]
    try:
        with ExitStack() as opened:
            for _ in range(1100):
                half = opened.enter_context(connect(site))
                half.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            for _ in range(3):
                assert site("GET", "/healthz", role=None).status == 200
            assert site("GET", "/readyz", role=None).status == 200
    finally:
        server.stop()


def test_a_server_takes_as_many_descriptors_as_it_may(
    tmp_path: Path, store: Store, url: str
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        server = Process(tmp_path, url)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    try:
        limits = Path(f"/proc/{server.process.pid}/limits").read_text()
        [line] = [each for each in limits.splitlines() if each.startswith("Max open files")]
        assert int(line.split()[3]) == min(before[1], 65536)
    finally:
        server.stop()


def test_who_is_being_answered_is_not_closed_for_others(
    tmp_path: Path, store: Store, url: str
) -> None:
    with served_here(tmp_path, url, limits=Limits(connections=5)) as site, ExitStack() as opened:
        stream = opened.enter_context(site.stream("/v1/events"))
        stream.until_id()
        halves = [opened.enter_context(connect(site)) for _ in range(10)]
        for half in halves:
            half.sendall(b"GET ")
        assert site("GET", "/healthz", role=None).status == 200
        submit(store, new("a"))
        message = stream.message()
        assert message is not None
        assert message.data["id"] == "a"
        assert said(halves[0]) == b""


@contextmanager
def request_under_way(folder: Path, site: Site) -> Iterator[None]:
    """A request for task `t` that waits for the store. Needs a limit of one request by token."""
    with (
        ThreadPoolExecutor(1) as pool,
        closing(sqlite3.connect(folder / "stayer.db", isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")  # who writes waits
        first = pool.submit(site, "POST", "/v1/tasks/t/hold")

        def is_under_way() -> bool:
            nonlocal first
            if first.done():  # the look before was under way itself, and kept it out
                first = pool.submit(site, "POST", "/v1/tasks/t/hold")
            return site("GET", "/v1/tasks/t").status == 503

        until(is_under_way, "for the first to be under way")
        try:
            yield
        finally:
            other.execute("ROLLBACK")
        assert first.result().status == 200


def test_where_all_are_being_answered_the_next_one_is_told(
    tmp_path: Path, store: Store, url: str
) -> None:
    submit(store, new("t"))
    limits = Limits(connections=3, requests_by_token=1)
    with served_here(tmp_path, url, limits=limits) as site, ExitStack() as opened:
        opened.enter_context(site.stream("/v1/events")).until_id()
        with request_under_way(tmp_path, site):
            opened.enter_context(site.stream("/v1/events", role="operate")).until_id()
            answer = said(opened.enter_context(connect(site)))
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"urn:stayer:problem:busy" in answer


def test_one_address_has_so_many_connections(tmp_path: Path, store: Store, url: str) -> None:
    limits = Limits(connections_by_address=3, local_too=True)
    with served_here(tmp_path, url, limits=limits) as site, ExitStack() as opened:
        halves = [opened.enter_context(connect(site)) for _ in range(4)]
        assert said(halves[0]) == b""
        for half in halves[1:]:
            half.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert said(half).startswith(b"HTTP/1.1 200 ")


def test_a_header_that_does_not_end_in_time_is_closed(
    tmp_path: Path, store: Store, url: str
) -> None:
    with served_here(tmp_path, url, limits=Limits(header_time=0.3)) as site:
        with connect(site) as silent, connect(site) as half:
            half.sendall(b"GET /healthz HTTP/1.1\r\nHo")
            assert said(silent) == b""
            assert said(half) == b""
        with connect(site) as second:  # also after a first request
            second.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he")
            assert said(second).count(b"HTTP/1.1 200 ") == 1


def test_a_connection_without_requests_is_closed(tmp_path: Path, store: Store, url: str) -> None:
    with served_here(tmp_path, url, limits=Limits(idle_time=0.3)) as site, connect(site) as idle:
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert said(idle).startswith(b"HTTP/1.1 200 ")


LOGIN = (
    b"POST /v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n"
)


def test_a_body_that_does_not_come_is_closed(tmp_path: Path, store: Store, url: str) -> None:
    limits = Limits(body_silence=0.3)
    with served_here(tmp_path, url, limits=limits) as site, connect(site) as slow:
        slow.sendall(LOGIN % 1000 + b'{"token":')
        assert said(slow) == b""


@contextmanager
def trickling(connection: socket.socket, what: bytes) -> Iterator[None]:
    """A little now and then, for ever."""
    done = threading.Event()

    def trickle() -> None:
        with suppress(OSError):
            while not done.wait(0.05):
                connection.sendall(what)

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_a_body_that_comes_byte_by_byte_is_closed(tmp_path: Path, store: Store, url: str) -> None:
    limits = Limits(body_silence=0.3)
    with served_here(tmp_path, url, limits=limits) as site, connect(site) as slow:
        slow.sendall(LOGIN % 4000)
        with trickling(slow, b" "):
            assert said(slow) == b""


def test_a_body_after_the_answer_has_to_end(tmp_path: Path, store: Store, url: str) -> None:
    head = (LOGIN % 100_000_000).replace(b"/v1/session", b"/v1/tasks")
    with served_here(tmp_path, url, limits=Limits(header_time=0.3)) as site:
        for piece in (b"", b" ", b" " * 10_000):
            with connect(site) as slow:
                slow.sendall(head + b"{")
                with trickling(slow, piece):
                    assert said(slow).startswith(b"HTTP/1.1 401 ")


def test_who_has_not_sent_a_whole_request_makes_room(
    tmp_path: Path, store: Store, url: str
) -> None:
    with served_here(tmp_path, url, limits=Limits(connections=3)) as site, ExitStack() as opened:
        slow = [opened.enter_context(connect(site)) for _ in range(3)]
        for each in slow:
            each.sendall(LOGIN % 4000 + b"{")
        assert site("GET", "/healthz", role=None).status == 200
        assert said(slow[0]) == b""


def poured(connection: socket.socket, piece: bytes, most: int) -> int:
    """Send a piece again and again; how many bytes were taken."""
    sent = 0
    with suppress(OSError):
        while sent < most:
            connection.sendall(piece)
            sent += len(piece)
    return sent


@pytest.mark.parametrize(
    "piece", [b"X-A: b\r\n" * 1000, b"a" * 8000, b"X-Long: " + b"a" * 8000 + b"\r\n"]
)
def test_a_header_without_end_is_refused(site: Site, piece: bytes) -> None:
    with connect(site) as endless:
        endless.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
        assert poured(endless, piece, 50 * MB) < 20 * MB
    with connect(site) as large:
        large.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + piece * 9 + b"\r\n\r\n")
        with suppress(ConnectionError):
            found = large.recv(65536)
            assert found.startswith(b"HTTP/1.1 431 ")
            assert b"urn:stayer:problem:header-too-large" in found
    assert site("GET", "/healthz", role=None).status == 200


def test_a_long_path_is_refused_and_a_usual_header_is_not(site: Site) -> None:
    assert site("GET", "/healthz", role=None, X_Long="a" * 50_000).status == 200
    with connect(site) as long:
        long.sendall(b"GET /healthz?" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert said(long).startswith(b"HTTP/1.1 431 ")


def test_requests_before_the_first_answer_are_limited(site: Site) -> None:
    with connect(site) as hasty:
        with suppress(ConnectionError):
            hasty.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5000)
        assert said(hasty).count(b"HTTP/1.1 200 ") < 100
    with connect(site) as two:
        two.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
        two.shutdown(socket.SHUT_WR)
        assert two.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_bodies_of_nobody_take_no_memory(process: tuple[Process, Site]) -> None:
    server, site = process
    assert site("GET", "/readyz", role=None).status == 200
    before = memory(server.process.pid)
    with ExitStack() as opened:
        taken = 0
        for _ in range(40):
            endless = opened.enter_context(connect(site))
            with suppress(OSError):
                endless.sendall(LOGIN % (15 * MB) + b'{"token":"')
            taken += poured(endless, b"a" * 100_000, 15 * MB - 100_000)
        assert memory(server.process.pid) - before < 100 * MB
        assert taken < 400 * MB
    assert site("GET", "/healthz", role=None).status == 200


def test_a_login_that_is_too_large_is_refused(site: Site) -> None:
    for size in (5000, 500_000):
        reply = site("POST", "/v1/session", {"token": "a" * size}, role=None)
        reply.is_problem(413, "body-too-large", "4 kB")
    site("POST", "/v1/session", {"token": "a" * 100}, role=None).is_problem(401, "unauthorized")


def test_one_token_sends_so_much_at_once(tmp_path: Path, store: Store, url: str) -> None:
    head = (
        "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Authorization: Bearer {}\r\nContent-Length: 1000000\r\n\r\n"
    )
    limits = Limits(bodies_by_token=1_500_000)
    with served_here(tmp_path, url, limits=limits) as site, ExitStack() as opened:
        mine = head.format(site.tokens["submit"]).encode()
        first = opened.enter_context(connect(site))
        first.sendall(mine + b"[" + b" " * 900_000)
        second = opened.enter_context(connect(site))
        with suppress(OSError):
            second.sendall(mine + b"[" + b" " * 900_000)
        assert b" 503 " in second.recv(65536)
        other = opened.enter_context(connect(site))
        other.sendall(head.format(site.tokens["operate"]).encode() + b"[" + b" " * 999_998 + b"]")
        assert other.recv(65536).startswith(b"HTTP/1.1 200 ")
        first.sendall(b" " * 99_998 + b"]")
        assert first.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_one_token_has_so_many_requests_under_way(tmp_path: Path, store: Store, url: str) -> None:
    submit(store, new("t"))
    with served_here(tmp_path, url, limits=Limits(requests_by_token=1)) as site:
        with request_under_way(tmp_path, site):
            assert site("GET", "/v1/tasks/t", role="read").status == 200
        assert site("GET", "/v1/tasks/t").status == 200


def test_one_token_has_so_many_streams(tmp_path: Path, store: Store, url: str) -> None:
    limits = Limits(streams_by_token=2)
    with served_here(tmp_path, url, limits=limits) as site:
        with ExitStack() as opened:
            for _ in range(2):
                opened.enter_context(site.stream("/v1/events")).until_id()
            refused = site("GET", "/v1/events", role="read", Accept="text/event-stream")
            refused.is_problem(429, "too-many-streams", "token")
            assert "retry-after" in refused.headers
            opened.enter_context(site.stream("/v1/events", role="operate")).until_id()
        until(
            lambda: b"stayer_event_streams 0" in site("GET", "/metrics").body, "for them to be over"
        )
        with site.stream("/v1/events") as again:
            again.until_id()


def test_one_address_has_so_many_streams(tmp_path: Path, store: Store, url: str) -> None:
    limits = Limits(streams_by_address=1, local_too=True)
    with served_here(tmp_path, url, limits=limits) as site, site.stream("/v1/events") as first:
        first.until_id()
        refused = site("GET", "/v1/events", Accept="text/event-stream")
        refused.is_problem(429, "too-many-streams", "address")


def test_the_usual_limits_leave_room_for_others() -> None:
    limits = Limits()
    assert limits.streams_by_token * 4 <= limits.streams
    assert limits.streams_by_address * 4 <= limits.streams
    assert limits.connections_by_address * 4 <= limits.connections
    assert limits.bodies_by_token * 4 <= limits.bodies
    assert limits.streams + 1000 <= limits.connections


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1:2:3", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
    ],
)
def test_the_addresses_of_one_customer_count_as_one(one: str, other: str, same: bool) -> None:
    assert (client_of(one) == client_of(other)) == same


def test_the_sessions_of_one_token_share_its_streams(
    tmp_path: Path, store: Store, url: str
) -> None:
    with served_here(tmp_path, url, limits=Limits(streams_by_token=1)) as site:
        visitors = [log_in(site, token=site.tokens["read"]) for _ in range(2)]
        headers: Any = {**visitors[0].headers, "Authorization": ""}
        with site.stream("/v1/events", **headers) as first:
            first.until_id()
            refused = site("GET", "/v1/events", role=None, **visitors[1].headers)
            refused.is_problem(429, "too-many-streams")
