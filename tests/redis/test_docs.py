"""The key map in the docs is the one in the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stayer import Client
from stayer.core import codec
from stayer.core.model import Filter
from stayer.stores.redis import RedisStore, keys
from stayer.stores.redis.keys import KEYS
from tests.cli.running import Apart
from tests.contract.builders import get
from tests.docs.pages import blocks, text


@pytest.mark.parametrize("key", KEYS.values())
def test_every_key_is_documented(key: str) -> None:
    assert f"`{key}`" in text("reference/redis-keys.md")
    assert key in (keys.__doc__ or "")


def test_no_other_key_is_documented() -> None:
    documented = set(re.findall(r"`(\{?<prefix>:[^`]*)`", text("reference/redis-keys.md")))
    assert documented == set(KEYS.values())


def test_no_script_makes_up_a_key() -> None:
    folder = Path(keys.__file__).parent / "scripts"
    for path in folder.rglob("*.lua"):
        assert "PREFIX" not in path.read_text().replace("F_PREFIX", ""), path.name


def test_what_waits_can_be_taken_along(store: RedisStore, url: str, tmp_path: Path) -> None:
    # Given tasks of all sorts in a file
    [code] = [each.code for each in blocks("how-to/move-to-redis.md") if each.language == "python"]
    (tmp_path / "again.py").write_text(code)
    old = f"sqlite:///{tmp_path}/old.db"
    with Client(old) as client:
        encode = client.get_queue("encode")
        encode.enqueue({"file": "a.mov"}, id="plain")
        encode.enqueue(b"\x00", id="bytes", priority=5, tags=["x"], owner="ada", retries=3, key="k")
        encode.enqueue(id="later", delay="2h", unique="w", unique_for="1h", held=True)
        encode.enqueue(id="limits", time_limit="1h", memory_limit="1G", expire="1d")
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    stayer = Apart(environment, tmp_path)

    # When they are taken along, twice
    states = ("--state", "pending", "--state", "scheduled")
    listed = stayer("--store", old, "ls", *states, "--limit", "0", "--jsonl").out
    again = subprocess.run(
        [sys.executable, "again.py"], input=listed, cwd=tmp_path, capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip
    for _ in range(2):
        assert stayer("--store", url, "add", "--jsonl", "-", input=again).code == 0

    # Then they are the same in the same order
    with Client(old) as client:
        was = {task.id: codec.record(task.record) for task in client.find()}
    assert [task.id for task in store.peek("encode", 9)] == ["bytes", "plain", "limits"]
    for task in store.find(Filter(), None, 9).tasks:
        is_now = codec.record(task)
        assert {
            field
            for field, value in is_now.items()
            if value != was[task.id][field] and field not in ("created", "updated")
        } == set()
    assert len(was) == 4


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
