"""Users with rights of their own: too few are told of before half of something is done."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest

from stayer.core.errors import StoreUnusable
from stayer.core.happenings import Done
from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from stayer.stores.redis.health import rights
from stayer.stores.redis.scripts import names, script
from stayer.stores.redis_cluster import ClusterStore
from tests.contract.builders import PATIENCE, apply, counts, in_thread, new, register, submit, take
from tests.contract.test_waiter import calm
from tests.docs.pages import text
from tests.servers.cluster import Cluster
from tests.servers.finding import oldest_redis_binary, redis_binary, valkey_binary
from tests.servers.redis import RedisServer, serving


@pytest.fixture(
    scope="module",
    params=[redis_binary, oldest_redis_binary, pytest.param(valkey_binary, marks=pytest.mark.long)],
)
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with serving(request.param()) as server:
        yield server


def opened(server: RedisServer, user: str, *rules: str) -> RedisStore:
    """As this user, whom the rules are for."""
    admin = open_store(server.url("p"))
    assert isinstance(admin, RedisStore)
    admin._server.ask("ACL", "SETUSER", user, "reset", "on", ">secret", *rules)
    admin.close()
    store = open_store(server.url("p").replace("unix://", f"unix://{user}:secret@"))
    assert isinstance(store, RedisStore)
    return store


def keys_of(server: RedisServer) -> list[bytes]:
    admin = open_store(server.url("p"))
    assert isinstance(admin, RedisStore)
    found: list[bytes] = admin._server.ask("KEYS", "*")
    admin.close()
    return found


def test_the_rights_of_the_how_to_are_enough(server: RedisServer) -> None:
    page = text("how-to/use-redis.md").replace("'", "")
    assert rights("stayer") in page
    store = opened(server, "enough", *rights("p").split())
    store.setup()
    register(store)
    waiter = store.waiter("w", ["q"])
    calm(waiter)
    woken = in_thread(lambda: waiter.wait(PATIENCE))
    submit(store, new("a", parameters="x" * 5000))
    assert woken()
    waiter.close()
    [task] = take(store)
    apply(store, task, Done())
    assert store.watch(0, 0, 10)[-1].event == "complete"
    assert "server" not in {each.check for each in store.check() if each.status == "fail"}
    assert not [each for each in store.check() if "does not tell" in each.message]
    store.drop_queue("q", 10)
    store.close()


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("~p:* resetchannels &p:* +@all -zadd", "ZADD"),
        ("~p:* resetchannels +@all", "PUBLISH"),
        (
            "~other:* resetchannels &p:* +@all",
            "all commands on keys: is the pattern ~p:* missing?)",
        ),
        ("~p:* resetchannels &p:* +@all -@write", "SET, EXPIRE"),
        ("~p:* resetchannels &p:* +@all -evalsha", "EVALSHA"),
        ("~p:* resetchannels &p:* +@all -@scripting", "EVALSHA"),
    ],
)
def test_too_few_are_told_before_anything_is_done(
    server: RedisServer, rules: str, said: str
) -> None:
    before = keys_of(server)
    store = opened(server, "poor", *rules.split())
    with pytest.raises(StoreUnusable) as refused:
        store.setup()
    assert f"({said}" in str(refused.value)
    assert len(str(refused.value)) < 400
    line = str(refused.value).partition("needs, ")[2]
    assert shlex.split(line) == ["redis-cli", "ACL", "SETUSER", "poor", *rights("p").split()]
    assert "'~p:*'" in line
    assert "secret" not in str(refused.value)
    assert keys_of(server) == before
    store.close()


def test_whoever_loses_some_later_is_told_so(server: RedisServer) -> None:
    store = opened(server, "later", *rights("p").split())
    store.setup()
    opened(server, "later", *rights("p").split(), "-msetnx").close()
    with pytest.raises(StoreUnusable, match="fix the user's rights"):
        submit(store, new("b"))
    assert counts(store) == {}
    store.close()


def test_all_that_scripts_do_is_tried() -> None:
    wanted = {
        command
        for name in names()
        for command in re.findall(r"(?:call|in_parts)\('(\w+)'", script(name).text)
    }
    tried = set(re.findall(r"\{'(\w+)'", script("rights").text))
    assert wanted - tried == {"TIME"}, "which each of them begins with"


def test_on_a_cluster(cluster: Cluster) -> None:
    for node in cluster.nodes:
        node.ask("ACL", "SETUSER", "enough", "on", ">pw", *rights("acl").split(), password="")
        node.ask("ACL", "SETUSER", "poor", "on", ">pw", "~acl:*", "+@all", password="")
    url = cluster.url(prefix="acl")
    poor = open_store(url.replace("//", "//poor:pw@"))
    with pytest.raises(StoreUnusable, match=r"\(SPUBLISH\)"):
        poor.setup()
    poor.close()
    store = open_store(url.replace("//", "//enough:pw@"))
    assert isinstance(store, ClusterStore)
    store.setup()
    register(store)
    waiter = store.waiter("w", ["q"])
    store._nodes.ask("acl:incoming", "LPUSH", "acl:incoming", '{"queue": "q"}')
    store.promote(10)
    assert waiter.wait(PATIENCE)
    waiter.close()
    assert apply(store, take(store)[0], Done()).state == "complete"
    store.close()
    for node in cluster.nodes:
        node.ask("ACL", "DELUSER", "enough", "poor", password="")
