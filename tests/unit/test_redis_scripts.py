"""How scripts for Redis are put together."""

from __future__ import annotations

import re

import pytest

from stayer.stores.redis.keys import lua_key
from stayer.stores.redis.scripts import CHANGES, CONSTANTS, FOLDER, names, script, sources


@pytest.mark.parametrize(
    ("name", "arguments", "put_together"),
    [
        ("last", "", "(PREFIX .. ':last')"),
        ("task", "ids[number]", "(PREFIX .. ':task:' .. ids[number])"),
        ("lane", "queue, name", "(PREFIX .. ':{' .. tag(queue) .. '}:lane:' .. name)"),
        ("state", "r[7], 'held'", "(PREFIX .. ':{' .. tag(r[7]) .. '}:state:' .. 'held')"),
    ],
)
def test_a_key_is_put_together_where_it_is_used(
    name: str, arguments: str, put_together: str
) -> None:
    assert lua_key(name, arguments) == put_together


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("task", "id, more"),
        ("lane", "queue"),
        ("nonsense", "id"),
        ("task", "a or b"),
        ("task", "1"),
    ],
)
def test_a_key_that_is_not_in_the_map_like_that_is_refused(name: str, arguments: str) -> None:
    with pytest.raises((TypeError, KeyError)):
        lua_key(name, arguments)


@pytest.mark.parametrize("name", names())
def test_no_script_is_left_with_a_placeholder(name: str) -> None:
    assert not re.search(r"@\w", script(name).text)


@pytest.mark.parametrize("name", names())
def test_a_script_includes_each_library_once(name: str) -> None:
    defined = re.findall(r"^local function (\w+)\(", script(name).text, re.MULTILINE)
    assert len(defined) == len(set(defined))


def test_every_library_and_every_constant_is_used() -> None:
    code = "".join(path.read_text() for path in FOLDER.rglob("*.lua"))
    included = {
        each for line in re.findall("^-- include: (.*)$", code, re.M) for each in line.split(", ")
    }
    assert included == {path.stem for path in (FOLDER / "lib").glob("*.lua")}
    used = set(re.findall(r"@([A-Z][A-Z_]*)", code))
    assert {name for name in CONSTANTS if name.startswith(("G_", "T_"))} <= used


def test_scopes_are_closed() -> None:
    text = script("turn").text
    assert 2 < text.count("return (function()\n") == text.count("end)()\n")
    assert text.index("local call = redis.call") < text.index("return (function()\n")


@pytest.mark.parametrize("name", names())
def test_a_script_that_only_reads_calls_nothing_that_writes(name: str) -> None:
    text = re.sub("--.*", "", script(name).text)
    function = re.compile(r"^local function (\w+)\((?:[^\n]* end\n|.*?^end\n)", re.M | re.S)
    bodies = {found[1]: found[0] for found in function.finditer(text)}
    reached, left = "", function.sub("", text)
    while left:  # what it does itself, then what is called from there
        reached += left
        called = [each for each in bodies if re.search(rf"\b{each}\b", left)]
        left = "".join(bodies.pop(each) for each in called)
    writes = not CHANGES.isdisjoint(re.findall("'([A-Z]+)'", reached))
    assert script(name).reads is not writes


def test_what_is_shared_in_a_file_stands_before_its_scripts() -> None:
    common, own = sources()["drop_worker"]
    assert "local function mark_dead" in common
    assert "mark_dead(ARGV[3])" in own
    assert "mark_dead" in script("declare_lost").text


def test_no_list_is_searched() -> None:
    """Removal from a list and the listing of all keys cost more the more there is."""
    for name in names():
        commands = set(re.findall(r"call\('(\w+)'", script(name).text))
        assert not commands & {"LREM", "LPOS", "LINSERT", "KEYS", "SCAN", "SORT"}
