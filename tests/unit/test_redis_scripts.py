"""How scripts for Redis are put together."""

from __future__ import annotations

import re

import pytest

from stayer.stores.redis.keys import KEYS, with_keys
from stayer.stores.redis.scripts import names, script


@pytest.mark.parametrize(
    ("code", "put_together"),
    [
        ("call('GET', key_last())", "call('GET', (PREFIX .. ':last'))"),
        ("key_task(ids[number])", "(PREFIX .. ':task:' .. ids[number])"),
        ("key_lane(queue, name)", "(PREFIX .. ':{' .. tag(queue) .. '}:lane:' .. name)"),
        (
            "key_state(r[1], held and 'held' or f(a, {b, c}))",
            "(PREFIX .. ':{' .. tag(r[1]) .. '}:state:' .. (held and 'held' or f(a, {b, c})))",
        ),
        ("key_task('), (')", "(PREFIX .. ':task:' .. ('), ('))"),
        ("key_flow(call('GET', key_task(id)))",
         "(PREFIX .. ':flow:' .. (call('GET', (PREFIX .. ':task:' .. id))))"),
    ],
)  # fmt: skip
def test_keys_stand_in_the_place_of_their_calls(code: str, put_together: str) -> None:
    assert with_keys(code).endswith(f"end\n{put_together}")


@pytest.mark.parametrize("code", ["key_task(id, more)", "key_lane(queue)", "key_nonsense(id)"])
def test_a_key_that_is_not_in_the_map_like_that_is_refused(code: str) -> None:
    with pytest.raises((TypeError, KeyError)):
        with_keys(code)


@pytest.mark.parametrize("name", names())
def test_no_script_is_left_with_a_call_for_a_key(name: str) -> None:
    assert not re.search(rf"\bkey_({'|'.join(KEYS)})\(", script(name).text)


def test_what_many_functions_use_is_around_them() -> None:
    """Lua takes it as it is then, instead of looking for it."""
    text = script("turn").text
    assert 2 < text.count("return (function()\n") == text.count("end)()\n")
    assert text.index("local call = redis.call") < text.index("return (function()\n")


def test_no_list_is_searched() -> None:
    """Removal from a list and the listing of all keys cost more the more there is."""
    for name in names():
        commands = set(re.findall(r"call\('(\w+)'", script(name).text))
        assert not commands & {"LREM", "LPOS", "LINSERT", "KEYS", "SCAN", "SORT"}
