"""The key map in the docs is the one in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stayer.stores.redis import RedisStore, keys
from stayer.stores.redis.keys import KEYS
from tests.contract.builders import get
from tests.docs.pages import text


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
