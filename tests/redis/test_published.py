"""What is published of every change, for anyone to hear."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from stayer.core.happenings import Done, Start
from stayer.core.model import FINISHED
from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from stayer.stores.redis_cluster import ClusterStore
from tests.contract.builders import apply, get, new, register, submit, take_one
from tests.docs.pages import text
from tests.servers.cluster import Cluster
from tests.servers.redis import RedisServer


class Listener:
    """Somebody who knows no more than the docs say."""

    def __init__(self, connection: Any, command: str, channel: str) -> None:
        self._connection = connection
        connection.send_command(command, channel)
        connection.read_response()

    def events(self) -> list[dict[str, Any]]:
        """All that was published until now."""
        return [event for message in self.messages() for event in message]

    def messages(self) -> list[Any]:
        """The same, as it came."""
        found = []
        while self._connection.can_read(0.1):
            _, _, message = self._connection.read_response()
            found.append(json.loads(message))
        return found

    def close(self) -> None:
        self._connection.disconnect()


@pytest.fixture(params=["one server", "cluster"])
def heard(
    request: pytest.FixtureRequest, shared_server: RedisServer
) -> Iterator[tuple[RedisStore | ClusterStore, Listener]]:
    """A store, and who listens to the queue `q` of it."""
    if request.param == "cluster":
        cluster: Cluster = request.getfixturevalue("cluster")
        store = open_store(cluster.url(prefix="told"))
        assert isinstance(store, ClusterStore)
        channel = "told:{q}:events"
        listener = Listener(
            store._nodes.server_of(channel).open_connection(), "SSUBSCRIBE", channel
        )
    else:
        store = open_store(shared_server.url("told"))
        assert isinstance(store, RedisStore)
        listener = Listener(store._server.open_connection(), "SUBSCRIBE", "told:events")
    store.setup()
    yield store, listener
    listener.close()
    store.close()


def test_every_change_is_told(heard: tuple[RedisStore | ClusterStore, Listener]) -> None:
    store, listener = heard
    register(store)
    submit(store, new("a"), new("later", delay=1000))
    apply(store, take_one(store), Start())
    apply(store, get(store, "a"), Done())
    known = [*store.events("a"), *store.events("later")]
    store.purge(["a"], FINISHED, float("inf"), 1)
    *told, last = listener.events()

    # As the log of events has it, but for parts of a millisecond, under the names of the docs
    expected = sorted(map(msgspec.to_builtins, known), key=lambda event: event["number"])
    for event, same in zip(told, expected, strict=True):
        assert event == same | {"at": pytest.approx(same["at"], abs=0.001)}
    assert (last["id"], last["event"]) == ("a", "deleted")
    [fields] = re.findall(r"`<prefix>:events` \| the events (.*)", text("reference/redis-keys.md"))
    assert set(re.findall(r"`(\w+)`", fields)) == set(last)
