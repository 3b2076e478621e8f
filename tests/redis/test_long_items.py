"""Items of the list that are far too long: each is refused, what stands behind it is taken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stayer.core import codec, limits
from stayer.core.errors import BadInput
from stayer.core.submit.json import WrittenSubmission
from stayer.stores.redis import RedisStore, incoming
from tests.contract.builders import counts, get
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


def take_all(store: RedisStore) -> None:
    while store._server.ask("LLEN", f"{store._server.address.prefix}:incoming"):
        store.promote(100)


def sent(store: RedisStore) -> int:
    """How many bytes the server has sent to anybody."""
    [told] = [
        line
        for line in store._server.ask("INFO", "stats").splitlines()
        if line.startswith(b"total_net_output_bytes:")
    ]
    return int(told.partition(b":")[2])


@pytest.mark.parametrize("letter", [b"x", b"\xff"])
def test_an_item_longer_than_any_task_never_leaves_the_server(
    store: RedisStore, letter: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    long = letter * (limits.WRITTEN + 1)
    padded = b'{"id": "padded", "queue": "q"}'.ljust(limits.WRITTEN + 1)
    pushing.push(store, {"id": "before", "queue": "q"}, long, padded, {"id": "after", "queue": "q"})
    before = sent(store)
    take_all(store)
    assert sent(store) - before < limits.WRITTEN
    assert counts(store) == {"pending": 2}
    refused = store._server.ask("LRANGE", f"{store._server.address.prefix}:refused", 0, -1)
    said = [json.loads(line) for line in refused]
    assert [each["error"] for each in said] == [incoming.too_long(limits.WRITTEN + 1)] * 2
    assert [len(each["item"]) for each in said] == [incoming.SHOWN] * 2
    assert "6,400,001 bytes" in caplog.text


def test_what_is_written_in_the_longest_way_is_taken(store: RedisStore) -> None:
    """Each letter of the parameters with six."""
    text = b'"%b"' % (b"\\u0061" * (codec.PARAMETERS_LIMIT - 100))
    assert 6 * (codec.PARAMETERS_LIMIT + limits.RECORD) <= limits.WRITTEN
    pushing.push(store, b'{"id": "long", "queue": "q", "parameters": %b}' % text)
    take_all(store)
    assert get(store, "long").parameters == "a" * (codec.PARAMETERS_LIMIT - 100)


def test_nothing_is_decoded_that_is_too_long() -> None:
    assert incoming.id_to_delete(b'{"delete": "a"}'.ljust(limits.WRITTEN + 1)) is None
    with pytest.raises(BadInput, match="6,400,001 bytes"):
        incoming.task_of(b'{"queue": "q"}'.ljust(limits.WRITTEN + 1))


def test_no_more_is_read_at_once_than_one_item_may_have(store: RedisStore) -> None:
    pushing.push(store, *(json.dumps({"parameters": "x" * 900_000}).encode() for _ in range(20)))
    run, read = store._server.run, list[int]()

    def spy(name: str, *arguments: Any, **rest: Any) -> Any:
        answer = run(name, *arguments, **rest)
        if name == "read_incoming":
            read.append(sum(map(len, answer[0])))
        return answer

    store._server.run = spy  # type: ignore[method-assign]
    store.promote(100)
    assert (len(read), counts(store, "default")) == (2, {"pending": 14}), "the rest: later"
    take_all(store)
    assert max(read) <= limits.WRITTEN
    assert counts(store, "default") == {"pending": 20}
