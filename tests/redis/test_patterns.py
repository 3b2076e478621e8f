"""Shell-style patterns, as Lua understands them."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stayer.core.errors import BadInput
from stayer.core.model import Handles
from stayer.stores.redis import RedisStore
from stayer.stores.redis.handles import lua_patterns, packed
from tests.contract.builders import ids, new, register, submit, take

_MATCH = "return string.find(ARGV[1], (string.gsub(ARGV[2], '\\1', '\\128-\\191'))) and 1 or 0"

patterns = st.text("ab.-*?[]!é^%", max_size=8)
words = st.text("abc.-]!é☃^%", max_size=6)


def matches(store: RedisStore, word: str, pattern: str) -> bool:
    return any(
        store._server.ask("EVAL", _MATCH, 0, word, each) == 1 for each in lua_patterns(pattern)
    )


@settings(max_examples=1000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pattern=patterns, word=words)
def test_they_match_what_the_shell_matches(store: RedisStore, pattern: str, word: str) -> None:
    try:
        found = matches(store, word, pattern)
    except BadInput:
        return
    assert found == fnmatchcase(word, pattern)


@pytest.mark.parametrize("pattern", ["[à-ü]*", "[!é]x"])
def test_what_lua_cannot_say_is_refused(pattern: str) -> None:
    with pytest.raises(BadInput, match="ASCII"):
        packed(Handles(names=(pattern,)))


def test_a_character_may_be_of_several_bytes(store: RedisStore) -> None:
    register(store)
    submit(store, new("a", name="größe"), new("b", name="grosse"), new("c", name="grö"))
    assert ids(take(store, limit=9, handles=Handles(names=("gr?ße", "gr[öx]")))) == ["a", "c"]
