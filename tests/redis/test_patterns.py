"""Patterns of what a worker runs: the same in Lua as in Python, and cheap for any word."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stayer.core.ordering.lanes import handles_lane
from stayer.core.worker_model import Handles
from stayer.stores.redis import RedisStore, record, scripts
from stayer.stores.redis.pack.handles import pack_handles
from tests.contract.builders import ids, new, register, submit, take

_LIBRARY = scripts.FOLDER / "lib" / "patterns.lua"
_ASK = "\nreturn handles_lane(ARGV[1], cmsgpack.unpack(ARGV[2])) and 1 or 0"

patterns = st.text("ab./-*?[]!é^%", max_size=8)
words = st.text("abc./-]!éç☃😀^%", max_size=6)


def in_lua(store: RedisStore, lane: str, handles: Handles) -> bool:
    code = scripts.with_values(_LIBRARY.read_text()) + _ASK
    answer = store._server.ask("EVAL", code, 0, lane, record.pack(pack_handles(handles)))
    return bool(answer)


@settings(max_examples=1500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pattern=patterns, word=words)
def test_lua_and_python_agree(store: RedisStore, pattern: str, word: str) -> None:
    handles = Handles(names=(pattern,), programs=(pattern,))
    for lane in (f"name {word}", f"command {word}"):
        assert in_lua(store, lane, handles) == handles_lane(lane, handles), (pattern, word)


@pytest.mark.parametrize(
    ("pattern", "word", "found"),
    [
        ("[à-ü]x", "çx", True),
        ("[à-ü]x", "zx", False),
        ("[!é]x", "☃x", True),
        ("[!é]x", "éx", False),
        ("[😀-😂]", "😁", True),
        ("[一-龥]?", "中文", True),
    ],
)
def test_brackets_are_for_all_characters(
    store: RedisStore, pattern: str, word: str, found: bool
) -> None:
    handles = Handles(names=(pattern,))
    assert in_lua(store, f"name {word}", handles) == handles_lane(f"name {word}", handles) == found


@pytest.mark.parametrize("length", [4096, 4097])
def test_a_word_that_is_longer_than_any_path_matches_nothing(
    store: RedisStore, length: int
) -> None:
    lane = "command /opt/" + "a" * (length - len("/opt/"))
    handles = Handles(programs=("/opt/*",))
    assert in_lua(store, lane, handles) == handles_lane(lane, handles) == (length == 4096)
    assert in_lua(store, lane, Handles(programs=("*",)))


def test_a_character_may_be_of_several_bytes(store: RedisStore) -> None:
    register(store)
    submit(store, new("a", name="größe"), new("b", name="grosse"), new("c", name="grö"))
    assert ids(take(store, limit=9, handles=Handles(names=("gr?ße", "gr[öx]")))) == ["a", "c"]
