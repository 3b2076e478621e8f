"""What other queues of a cluster have to hear of, or to be asked, when somebody is late."""

from __future__ import annotations

import pytest

from stayer.core.happenings import Done, Fail
from stayer.core.lifecycle import decide
from stayer.core.model import FINISHED, Fault
from stayer.service.control import edits as edit_control
from stayer.stores import open_store
from stayer.stores.redis.record import pack
from stayer.stores.redis_cluster import ClusterStore
from tests.contract.builders import get, new, register, submit, take_one
from tests.contract.test_flows import after, pass_on
from tests.servers.cluster import Cluster


def test_who_is_late_with_an_end_does_not_take_away_the_note_of_the_next(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(cluster.url())
    assert isinstance(store, ClusterStore)
    monkeypatch.setattr(store, "_relay", lambda: None)
    register(store, queues=("q", "r"))
    submit(store, new("a"), after("b", "a", queue="r"))
    pass_on(store)  # that it has been looked at, and has not ended

    # Given somebody who has seen a note of an end that was taken back
    store.commit([decide(take_one(store), Fail(Fault("Boom")))])
    shard = store._shards.server_of("q")
    [[id, note, *_]] = shard.run("outbox", 10, pack({}))[3]
    edit_control.retry(store, "a")
    store.commit([decide(take_one(store), Done())])

    # When it says that it was passed on
    shard.run("passed_on", id, note)

    # Then others hear of the end that followed
    pass_on(store)
    assert get(store, "b").state == "pending"
    store.close()


def test_who_is_late_with_leave_to_forget_does_not_speak_for_those_who_came_since(
    cluster: Cluster,
) -> None:
    store = open_store(cluster.url())
    assert isinstance(store, ClusterStore)
    register(store, queues=("q", "r"))
    submit(store, new("a"), after("b", "a", queue="r"))
    store.commit([decide(take_one(store), Done())])
    pass_on(store)
    store.commit([decide(take_one(store, queue="r"), Done())])

    # Given somebody who has asked all that listen whether they need it
    shard, server = store._shards.of("q"), store._shards.server_of("q")
    assert shard.purge(["a"], FINISHED, store.now() + 10, 9) == []
    [[id, heard, _]] = server.run("asked", 9)

    # When it says so after another has come to need it
    submit(store, after("c", "a", queue="r"))
    server.run("free", id, heard)

    # Then it stays, until that one has ended
    assert shard.purge(["a"], FINISHED, store.now() + 10, 9) == []
    pass_on(store)
    store.commit([decide(take_one(store, queue="r"), Done())])
    assert store.purge(["a"], FINISHED, store.now() + 10, 9) == ["a"]
    store.close()
