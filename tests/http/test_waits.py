"""Requests that wait, and logs that are read slowly, count as streams do."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stayer.http.limits import Limits, Streams
from stayer.http.problem import Problem
from stayer.service.control import tasks as control
from stayer.store import Store
from stayer.stores.remote.store import open_server
from tests.contract.builders import PATIENCE, new, register, started, submit
from tests.faults.fleet import until
from tests.http.serving import Site, served_here
from tests.http.test_limits import connect
from tests.http.test_many_streams import streams

WAITS = ("/v1/events?wait=60s", "/v1/events?since=0&wait=60s", "/v1/tasks/a/result?wait=60s")


@contextmanager
def waiting(site: Site, path: str) -> Iterator[socket.socket]:
    """A request that waits for something, counted by the server."""
    before = streams(site)
    with connect(site) as opened:
        opened.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n"
            f"Authorization: Bearer {site.tokens['read']}\r\n\r\n".encode()
        )
        until(lambda: streams(site) > before, "for it to wait")
        yield opened


@pytest.mark.parametrize("path", WAITS)
def test_who_waits_is_counted_and_let_go(tmp_path: Path, store: Store, url: str, path: str) -> None:
    if "since" not in path:
        submit(store, new("a"))
    with served_here(tmp_path, url, limits=Limits(streams_by_token=1)) as site:
        with waiting(site, path) as first:
            site("GET", path, role="read", Accept="application/json").is_problem(
                429, "too-many-streams", "token"
            )
            # What does not wait is no stream.
            short = path.replace("60s", "0s")
            assert site("GET", short, role="read", Accept="application/json").status < 429
            if "since" in path:
                submit(store, new("a"))
            else:
                control.cancel(store, "a")
            assert first.recv(100).startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 409 "))
        until(lambda: streams(site) == 0, "for it to be over")


def test_who_waits_and_goes_is_not_counted_any_more(tmp_path: Path, store: Store, url: str) -> None:
    submit(store, new("a"))
    with served_here(tmp_path, url) as site:
        for path in ("/v1/events?wait=60s", "/v1/tasks/a/result?wait=60s"):
            with waiting(site, path):
                pass
            until(lambda: streams(site) == 0, "for it to be missed")


def test_who_may_not_wait_looks_now_and_then(
    tmp_path: Path, store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client behind a server that lets no more requests wait."""
    with served_here(tmp_path, url, limits=Limits(streams_by_token=1)) as site:
        client = open_server(site.url, site.tokens["read"])
        pauses: list[float] = []

        here, sleep = threading.get_ident(), time.sleep

        def pause(seconds: float) -> None:
            if threading.get_ident() != here:  # of the server, or the like
                sleep(seconds)
                return
            pauses.append(seconds)
            submit(store, new("a"))

        monkeypatch.setattr("stayer.stores.remote.store.time.sleep", pause)
        with waiting(site, "/v1/events?wait=60s"):
            seen = client.last_event()
            events = client.watch(seen, PATIENCE, 10)
        assert [event.id for event in events] == ["a"]
        assert len(pauses) == 1
        client.close()


def test_a_log_is_counted_while_it_is_read(tmp_path: Path, store: Store, url: str) -> None:
    register(store)
    started(store, id="a")
    with served_here(tmp_path, url, limits=Limits(streams_by_token=1)) as site:
        with waiting(site, "/v1/events?wait=60s"):
            refused = site("GET", "/v1/tasks/a/log", role="read")
            refused.is_problem(429, "too-many-streams", "token")
        until(lambda: streams(site) == 0, "for it to be over")
        assert site("GET", "/v1/tasks/a/log", role="read").status == 200
        until(lambda: streams(site) == 0, "for the log to be over")


@pytest.mark.parametrize(
    ("connections", "in_all", "by_token"), [(4000, 1000, 200), (924, 693, 200), (10, 7, 4)]
)
def test_streams_leave_connections_for_others(connections: int, in_all: int, by_token: int) -> None:
    counted = Streams(Limits(), connections)
    for each in range(in_all):
        counted.begin(str(each // by_token), "127.0.0.1")
        if each == by_token - 1:
            with pytest.raises(Problem, match="token"):
                counted.begin("0", "127.0.0.1")
    with pytest.raises(Problem, match="too many streams"):
        counted.begin("new", "127.0.0.1")
