"""The key map in the docs is the one in the code."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shlex import quote

import pytest
import redis

from stayer import Client
from stayer.stores import open_store
from stayer.stores.redis import RedisStore, keys
from stayer.stores.redis.keys import KEYS
from stayer.stores.redis.scripts import FOLDER
from tests.contract.builders import get, new, submit
from tests.docs.pages import blocks, steps, text
from tests.servers.redis import RedisServer


@pytest.mark.parametrize("key", KEYS.values())
def test_every_key_is_documented(key: str) -> None:
    assert f"`{key}`" in text("reference/redis-keys.md")
    assert key in (keys.__doc__ or "")


def test_no_other_key_is_documented() -> None:
    documented = set(re.findall(r"`(\{?<prefix>:[^`]*)`", text("reference/redis-keys.md")))
    assert documented == set(KEYS.values())


def test_no_script_makes_up_a_key() -> None:
    for path in FOLDER.rglob("*.lua"):
        made_up = "PREFIX" in path.read_text().replace("F_PREFIX", "")
        assert made_up is (path.name == "keys.lua"), path.name


def test_the_how_to_moves_a_file_to_a_server(store: RedisStore, url: str, tmp_path: Path) -> None:
    with Client(f"sqlite:///{tmp_path}/tasks.db") as client:
        client.get_queue("encode").enqueue({"file": "a.mov"}, id="film")
    [command] = [
        step.command
        for block in blocks("how-to/move-to-another-store.md")
        if block.language == "console"
        for step in steps(block)
        if "--to" in step.command
    ]
    asked = command.replace("redis://queue.example.com:6379/0", quote(url))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-c", asked], cwd=tmp_path, check=True, capture_output=True,
        env={"HOME": str(tmp_path), "PATH": path},
    )  # fmt: skip
    assert get(store, "film").parameters == {"file": "a.mov"}


def test_what_the_how_to_pushes_is_a_task(store: RedisStore) -> None:
    page = text("how-to/use-redis.md")
    [item] = re.findall(r"LPUSH stayer:incoming '(.*)'", page)
    [deletion] = re.findall(r'`(\{"delete": .*?\})`', page)
    incoming = f"{store._server.address.prefix}:incoming"
    store._server.ask("LPUSH", incoming, item)
    store.promote(10)
    [queued] = store.peek("encode", 10)
    assert queued.parameters == {"file": "a.mov"}
    store._server.ask("LPUSH", incoming, '{"id": "film-1", "queue": "encode"}', deletion)
    while store.promote(10) is not None:
        pass
    assert get(store, "film-1").state == "cancelled"


def test_a_user_who_may_push_may_do_nothing_else(
    own_server: Callable[..., RedisServer],
) -> None:
    [rights] = re.findall("`redis-cli (ACL SETUSER pusher .*)`", text("how-to/use-redis.md"))
    server = own_server()
    root = redis.Redis(unix_socket_path=server.socket)
    root.execute_command(*shlex.split(rights))
    pusher = redis.Redis(unix_socket_path=server.socket, username="pusher", password="PASSWORD")
    store = open_store(server.url("stayer"))
    submit(store, new("a"))
    pusher.execute_command("LPUSH", "stayer:incoming", '{"delete": "a"}')
    pusher.execute_command("PUBLISH", "stayer:incoming", "now")
    store.promote(10)
    assert get(store, "a").state == "cancelled", "as the page on security says"
    for command in ("RPOP stayer:incoming", "LPUSH stayer:refused x", "GET stayer:last", "INFO"):
        with pytest.raises(redis.exceptions.NoPermissionError):
            pusher.execute_command(*command.split())
    store.close()


def test_a_task_can_be_read_with_redis_cli_alone(
    shared_server: RedisServer, store: RedisStore
) -> None:
    submit(
        store,
        new("read me", parameters={"n": 1}, priority=7, tags=("a", "b"), owner="ann", delay=60.0),
    )
    [script] = [
        block.code for block in blocks("reference/redis-keys.md") if block.language == "lua"
    ]
    task = get(store, "read me")
    place = keys.key("task", store._server.address.prefix, id="read me")
    found = json.loads(store._server.ask("EVAL", script, 1, place))
    names = ("id", "queue", "state", "priority", "tags", "owner")
    assert {name: found[name] for name in names} == {
        "id": "read me", "queue": task.queue, "state": "scheduled", "priority": 7,
        "tags": ["a", "b"], "owner": "ann",
    }  # fmt: skip
    assert json.loads(found["parameters"]) == {"n": 1}
    assert found["created"] == pytest.approx(task.created, abs=0.01)
    assert found["eta"] == pytest.approx(task.eta, abs=0.01)
    gone = keys.key("task", store._server.address.prefix, id="nobody")
    assert store._server.ask("EVAL", script, 1, gone) == b"there is no such task"
