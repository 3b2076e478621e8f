"""What `stayer doctor` finds on a Redis server."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stayer.core.insight.health import Finding
from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from stayer.stores.redis.health import _memory, _version
from tests.cli.running import Apart
from tests.contract.builders import PATIENCE, new, submit
from tests.redis import pushing
from tests.servers.finding import valkey_binary
from tests.servers.redis import RedisServer, free_port, serving
from tests.servers.sentinel import until

Starts = Callable[..., RedisServer]
DURABLE = ("--appendonly", "yes")


def findings(server: RedisServer, options: str = "") -> dict[str, Finding]:
    store = open_store(f"{server.url()}{options}")
    assert isinstance(store, RedisStore)
    found = {finding.check: finding for finding in store.check()}
    store.close()
    return found


def setting(server: RedisServer, name: str, value: str) -> None:
    store = open_store(server.url())
    assert isinstance(store, RedisStore)
    store._server.ask("CONFIG", "SET", name, value)
    store.close()


def test_a_server_that_keeps_what_it_is_given_is_fine(own_server: Starts) -> None:
    found = findings(own_server(*DURABLE))
    assert list(found) == ["server", "memory", "persistence", "incoming"]
    assert {finding.status for finding in found.values()} == {"ok"}
    assert "Redis" in found["server"].message
    assert "redis-py" in found["server"].message
    assert "second" in found["persistence"].message


def test_valkey_says_its_name() -> None:
    with serving(valkey_binary()) as server:
        assert "Valkey" in findings(server)["server"].message


@pytest.mark.parametrize(
    ("policy", "status", "what"),
    [
        ("allkeys-lru", "fail", "throws tasks away"),
        ("volatile-ttl", "warn", "ids of deleted tasks"),
    ],
)
def test_one_that_throws_something_away_is_not(
    own_server: Starts, policy: str, status: str, what: str
) -> None:
    server = own_server(*DURABLE, "--maxmemory-policy", policy)
    assert findings(server)["memory"].status == "warn"
    setting(server, "maxmemory", "1gb")
    found = findings(server)["memory"]
    assert (found.status, policy in found.message, what in found.message) == (status, True, True)
    assert "noeviction" in (found.todo or "")


def test_one_that_is_full_takes_no_more(own_server: Starts) -> None:
    server = own_server(*DURABLE, "--maxmemory", "1gb")
    assert findings(server)["memory"].status == "ok"
    setting(server, "maxmemory", "500kb")
    found = findings(server)["memory"]
    assert (found.status, "no task is taken" in found.message) == ("fail", True)
    assert "stayer purge --older 1d" in (found.todo or "")
    assert "stayer cancel" in (found.todo or "")


def test_one_that_is_nearly_full_is_warned_of() -> None:
    found = _memory({"maxmemory": "100", "used_memory": "99"})
    assert (found.status, "a full server takes no tasks" in found.message) == ("warn", True)


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        ((), "fail", "restart loses every task"),
        (("--save", "3600", "1"), "warn", "snapshot"),
        (("--appendonly", "yes", "--appendfsync", "always"), "ok", "nothing"),
        (("--appendonly", "yes", "--appendfsync", "no"), "warn", "fsync no"),
    ],
)
def test_what_a_crash_can_lose_is_said(
    own_server: Starts, options: tuple[str, ...], status: str, said: str
) -> None:
    found = findings(own_server(*options))["persistence"]
    assert (found.status, said in found.message) == (status, True)


def test_a_primary_that_does_not_need_its_replicas_is_warned_of(own_server: Starts) -> None:
    # Given a primary with a replica
    port = free_port()
    primary = own_server(*DURABLE, "--port", str(port))
    assert "replicas" not in findings(primary)
    replica = own_server("--replicaof", "127.0.0.1", str(port))
    deadline = time.monotonic() + PATIENCE
    while "replicas" not in findings(primary):
        assert time.monotonic() < deadline, "the replica does not come"

    # Then it is warned of, until it needs the replica
    found = findings(primary)["replicas"]
    assert (found.status, "min-replicas-to-write 1" in (found.todo or "")) == ("warn", True)
    assert findings(replica)["replicas"].status == "fail"
    found = findings(primary, "&wait=1")["replicas"]
    assert (found.status, "renewing leases" in found.message) == ("warn", True)
    assert "add a replica" in (found.todo or "")
    setting(primary, "min-replicas-to-write", "1")

    # And so are fewer replicas than have to confirm, and just as many
    for options in ("", "&wait=1"):
        found = findings(primary, options)["replicas"]
        assert (found.status, "when one of them is away" in found.message) == ("warn", True)
    found = findings(primary, "&wait=2")["replicas"]
    assert (found.status, "wait=1" in (found.todo or "")) == ("fail", True)
    assert "who submits or takes tasks gets an error" in found.message
    own_server("--replicaof", "127.0.0.1", str(port))
    until(lambda: findings(primary)["replicas"].status == "ok", "for another replica")
    assert "1 to confirm" in findings(primary, "&wait=1")["replicas"].message


def test_what_was_refused_is_shown(own_server: Starts) -> None:
    server = own_server(*DURABLE)
    store = open_store(server.url("p"))
    assert isinstance(store, RedisStore)
    pushing.push(store, b"no JSON")
    store.promote(10)
    [found] = [finding for finding in store.check() if finding.check == "incoming"]
    assert (found.status, found.message) == ("warn", "1 item was of no use")
    assert "p:refused" in (found.todo or "")


def test_other_prefixes_are_told_of_where_nothing_is(own_server: Starts) -> None:
    server = own_server(*DURABLE)
    store, slip = open_store(server.url("films")), open_store(server.url("fims"))
    assert isinstance(store, RedisStore)
    assert isinstance(slip, RedisStore)
    store.setup()
    slip.setup()
    submit(store, new())
    [found] = [each for each in slip.check() if each.check == "prefix"]
    assert (found.status, found.todo) == (
        "warn",
        "if these are meant, write prefix=films in the URL",
    )
    assert not [each for each in store.check() if each.check == "prefix"]
    store.close()
    slip.close()


def test_old_versions_are_warned_of() -> None:
    assert _version({"redis_version": "6.2.14"}).status == "warn"
    assert _version({"redis_version": "7.2.4"}).status == "ok"
    valkey = _version({"redis_version": "7.2.4", "valkey_version": "9.1.0"})
    assert "Valkey 9.1.0" in valkey.message


def test_doctor_tells(own_server: Starts, tmp_path: Path) -> None:
    server = own_server()
    environment = {
        "STAYER_STORE": server.url("p"),
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
    }
    done = Apart(environment, tmp_path)("doctor", "--json")
    found = {finding["check"]: finding for finding in json.loads(done.out)}
    assert done.code == 1
    assert (found["persistence"]["status"], found["store"]["status"]) == ("fail", "ok")
    assert "SQLite" not in found["versions"]["message"]
