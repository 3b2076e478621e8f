"""Streams while their store does not answer: they say so, and when it does again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.core.units import instant
from stayer.stores import open_store
from tests.contract.builders import new, submit
from tests.http.serving import Message, Site, Stream, served_here
from tests.servers.finding import redis_binary
from tests.servers.redis import RedisServer, serving

KEEPING = ("--appendonly", "yes", "--appendfsync", "always")
"""What it has, it has also after it was killed."""


@pytest.fixture
def keeps(request: pytest.FixtureRequest) -> bool:
    return getattr(request, "param", True)


@pytest.fixture
def redis(keeps: bool) -> Iterator[RedisServer]:
    with serving(redis_binary(), *(KEEPING if keeps else ())) as server:
        yield server


@pytest.fixture
def url(redis: RedisServer) -> str:
    return redis.url()


@pytest.fixture
def site(tmp_path: Path, url: str) -> Iterator[Site]:
    with served_here(tmp_path, url) as site:
        yield site


def put(url: str, *ids: str) -> None:
    store = open_store(url)
    submit(store, *(new(id) for id in ids))
    store.close()


def next_of(stream: Stream) -> Message:
    message = stream.message()
    assert message is not None
    return message


def test_a_stream_tells_that_the_store_is_gone_and_back(
    site: Site, redis: RedisServer, url: str
) -> None:
    with site.stream("/v1/events") as stream:
        stream.until_id()
        redis.stop(signal.SIGKILL)
        silent = next_of(stream)
        assert (silent.event, silent.data["answers"]) == ("store", False)
        assert "can't be reached" in silent.data["detail"]
        assert url not in silent.data["detail"], "where it is is nobody's business"
        assert instant(silent.data["since"]) > 0
        with site.stream("/v1/events") as later:  # by somebody who comes meanwhile
            again = next_of(later)
            assert (again.event, again.data) == (silent.event, silent.data)

        redis.start()
        back = next_of(stream)
        assert (back.event, back.data) == ("store", {"answers": True})
        put(url, "a")
        assert next_of(stream).data["id"] == "a"


def test_a_stream_tells_that_the_store_hangs(site: Site, redis: RedisServer) -> None:
    with site.stream("/v1/events") as stream:
        stream.until_id()
        os.kill(redis.pid, signal.SIGSTOP)
        silent = next_of(stream)
        os.kill(redis.pid, signal.SIGCONT)
        assert silent.event == "store"
        assert "has not answered for" in silent.data["detail"]
        assert next_of(stream).data == {"answers": True}


@pytest.mark.parametrize("keeps", [False], indirect=True)
def test_a_stream_ends_when_the_store_has_lost_what_was_told(
    site: Site, redis: RedisServer, url: str
) -> None:
    with site.stream("/v1/events") as stream:
        stream.until_id()
        put(url, "a", "b", "c")
        assert [next_of(stream).data["id"] for _ in "abc"] == ["a", "b", "c"]
        last = stream.id
        redis.stop(signal.SIGKILL)
        assert next_of(stream).data["answers"] is False
        redis.start()
        assert stream.message() is None
    assert last is not None
    with site.stream("/v1/events", Last_Event_ID=last) as stream:
        assert stream.until_id() == "0"
        put(url, "d")
        assert next_of(stream).data["id"] == "d"
