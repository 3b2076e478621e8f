"""Programs that push to the incoming list, and takers that die."""

from __future__ import annotations

import json
import os
from typing import Any

from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from tests.contract.actors import Ready


def push(store: RedisStore, *items: dict[str, Any] | bytes) -> None:
    """As a client in any language does it."""
    forms = [item if isinstance(item, bytes) else json.dumps(item) for item in items]
    store._server.ask("LPUSH", f"{store._server.address.prefix}:incoming", *forms)


def take_and_die(ready: Ready, url: str, when: str) -> None:
    """Die right before or right after the script that takes the items."""
    store = open_store(url)
    assert isinstance(store, RedisStore)
    run = store._server.run

    def fatal(name: str, *arguments: Any, **rest: Any) -> Any:
        if name == "take_incoming":
            if when == "after":
                run(name, *arguments, **rest)
            os._exit(0)
        return run(name, *arguments, **rest)

    store._server.run = fatal  # type: ignore[method-assign]
    ready()
    store.promote(100)


def take_for_ever(url: str) -> None:
    """Until killed."""
    store = open_store(url)
    while True:
        store.promote(7)
