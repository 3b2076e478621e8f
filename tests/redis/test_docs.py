"""The key map in the docs is the one in the code."""

from __future__ import annotations

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

from stayer import Client, Flow
from stayer.core import codec
from stayer.core.lifecycle import Done
from stayer.core.model import Filter
from stayer.stores import open_store
from stayer.stores.redis import RedisStore, keys
from stayer.stores.redis.keys import KEYS
from stayer.stores.redis.scripts import FOLDER
from tests.contract.builders import apply, get, ids, new, register, started, submit
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


class Mover:
    """Moves from a file to a server by what the how-to says, as it stands there."""

    PAGE = "how-to/move-to-redis.md"

    def __init__(self, folder: Path, url: str) -> None:
        self.old = f"sqlite:///{folder}/old.db"
        self._folder, self._url = folder, url
        [script] = [each for each in blocks(self.PAGE) if each.language == "python"]
        (folder / script.title).write_text(script.code)

    def take_along(self) -> None:
        [commands] = [
            steps(each)
            for each in blocks(self.PAGE)
            if each.language == "console" and "again.py" in each.code
        ]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        for step in commands:
            asked = step.command.replace("redis://queue.example.com:6379/0", quote(self._url))
            subprocess.run(
                ["bash", "-c", asked], cwd=self._folder, check=True, capture_output=True,
                env={"HOME": str(self._folder), "PATH": path},
            )  # fmt: skip


def test_what_waits_can_be_taken_along(store: RedisStore, url: str, tmp_path: Path) -> None:
    # Given tasks of all sorts in a file
    mover = Mover(tmp_path, url)
    with Client(mover.old) as client:
        encode = client.get_queue("encode")
        encode.enqueue({"file": "a.mov"}, id="plain")
        encode.enqueue(b"\x00", id="bytes", priority=5, tags=["x"], owner="ada", retries=3, key="k")
        encode.enqueue(id="later", delay="2h", unique="w", unique_for="1h", held=True)
        encode.enqueue(id="it's a limit", time_limit="1h", memory_limit="1G", expire="1d")
        was = {task.id: codec.record(task.record) for task in client.find()}

    # When they are taken along, twice
    for _ in range(2):
        mover.take_along()

    # Then they are the same in the same order, and will not run in the old store
    assert [task.id for task in store.peek("encode", 9)] == ["bytes", "plain", "it's a limit"]
    found = store.find(Filter(), None, 9).tasks
    for task in found:
        is_now = codec.record(task)
        assert {
            field
            for field, value in is_now.items()
            if value != was[task.id][field] and field not in ("created", "updated")
        } == set()
    assert len(found) == len(was) == 4
    with Client(mover.old) as client:
        assert {task.state for task in client.find()} == {"cancelled"}


def test_what_waits_for_others_stays_with_them(store: RedisStore, url: str, tmp_path: Path) -> None:
    # Given tasks that wait for others, one that has waited and has their results, and a flow
    mover = Mover(tmp_path, url)
    with Client(mover.old) as client:
        register(client.store)
        apply(client.store, started(client.store, id="ended"), Done(42))
        queue = client.get_queue("q")
        queue.enqueue(id="alone")
        queue.enqueue(id="first")
        queue.enqueue(id="then", after=["first"])
        queue.enqueue(id="last", after=["then"])
        queue.enqueue(id="has-inputs", after=["ended"])
        flow = Flow("nightly")
        flow.add(command=["true"])
        client.submit(flow)
        was = {task.id: task.state for task in client.find()}

    # When what can be is taken along
    mover.take_along()

    # Then they are as they were
    assert ids(store.find(Filter(), None, 9).tasks) == ["alone"]
    with Client(mover.old) as client:
        assert {task.id: task.state for task in client.find()} == {**was, "alone": "cancelled"}


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
