"""Items of the list that are far too long: each is refused, what stands behind it is taken."""

from __future__ import annotations

import json

from stayer.core.written import WrittenSubmission
from stayer.stores.redis import RedisStore
from tests.contract.builders import get
from tests.contract.long_inputs import long_values
from tests.redis import pushing


def test_every_text_that_is_too_long_is_refused_and_nothing_waits_for_it(store: RedisStore) -> None:
    items = [
        {"command": ["true"], name: value} | ({"command": value} if name == "command" else {})
        for name, value in long_values(WrittenSubmission, ("parameters", "name"))
    ]
    pushing.push(store, *items, {"id": "good", "queue": "q"})
    prefix = store._server.address.prefix
    while store._server.ask("LLEN", f"{prefix}:incoming"):
        store.promote(100)
    assert get(store, "good").state == "pending"
    said = [json.loads(line) for line in store._server.ask("LRANGE", f"{prefix}:refused", 0, -1)]
    assert len(said) == len(items)
    assert all(len(each["error"]) <= 1000 and len(each["item"]) <= 10_000 for each in said)
