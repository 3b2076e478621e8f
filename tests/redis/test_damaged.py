"""Garbage under every key: nothing stops for it, and `doctor` names it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from stayer.stores import open_store
from stayer.stores.redis import RedisStore, damage, missing_records, strict_numbers
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.damaged_keys import Damage, find_damage
from tests.contract.builders import get, new, register, submit, take
from tests.contract.damaged import GOOD, goes_on, look_at_everything, scene
from tests.servers.finding import redis_binary
from tests.servers.redis import RedisServer, serving

GARBAGE = b"\xff\xfeg\x00arbage"


def spoil(raw: Any, name: bytes, how: str) -> None:
    """What is under a key becomes of another type, or garbage, or is cut."""
    kind = raw.type(name)
    if how == "type":
        raw.delete(name)
        raw.lpush(name, "foreign") if kind == b"string" else raw.set(name, "foreign")
    elif kind == b"string":
        raw.set(name, GARBAGE if how == "garbage" else raw.get(name)[:9])
    elif kind == b"hash":
        value = GARBAGE if how == "garbage" else ""
        raw.hset(name, mapping=dict.fromkeys(raw.hkeys(name), value))
    elif kind == b"zset":
        raw.zadd(name, {GARBAGE if how == "garbage" else b"": 0})
    elif kind == b"set" and how == "garbage":  # the empty word is as good as any other
        raw.sadd(name, GARBAGE)
    elif kind == b"list":
        raw.lpush(name, GARBAGE if how == "garbage" else b"")


class Scene:
    """A store with something of everything, which can be had again and again."""

    def __init__(self, server: RedisServer) -> None:
        self.url = server.url("scene")
        self.raw = redis.Redis(unix_socket_path=server.socket)
        self.raw.flushall()
        store = open_store(self.url)
        store.setup()
        scene(store)
        store.close()
        names = sorted(self.raw.keys("*"))
        self._kept = {name: self.raw.dump(name) for name in names}
        self.names = [name for name in names if GOOD.encode() not in name]

    def again(self) -> None:
        self.raw.flushall()
        for name, value in self._kept.items():
            self.raw.restore(name, 0, value)


@pytest.fixture(scope="module")
def prepared() -> Iterator[Scene]:
    with serving(redis_binary()) as server:
        yield Scene(server)


@pytest.mark.parametrize("how", ["type", "garbage", "cut"])
def test_garbage_under_any_key_stops_nothing(prepared: Scene, how: str) -> None:
    for name in prepared.names:
        prepared.again()
        spoil(prepared.raw, name, how)
        store = open_store(prepared.url)
        try:
            look_at_everything(store)
            goes_on(store)
            look_at_everything(store)
        except BaseException as error:
            error.add_note(f"{how} at {name!r}")
            raise
        finally:
            store.close()


def test_a_damaged_record_is_named_and_kept_and_what_stands_behind_it_is_taken(
    store: RedisStore, caplog: pytest.LogCaptureFixture
) -> None:
    prefix = store._server.address.prefix
    register(store)
    submit(store, new("bad"), new("good"))
    store._server.ask("SET", f"{prefix}:task:bad", GARBAGE)
    with caplog.at_level(logging.WARNING):
        assert [task.id for task in take(store, limit=9)] == ["good"]
        store.promote(10)
    assert "tasks lost" in caplog.text
    [found] = [each for each in store.check() if each.check == "records"]
    assert found.status == "warn"
    [line] = store._server.ask("LRANGE", f"{prefix}:missing", 0, -1)
    assert json.loads(line)["id"] == "bad"
    assert store._server.ask("GET", f"{prefix}:task:bad") == GARBAGE
    submit(store, new("bad"))
    assert get(store, "bad").state == "pending"


def test_doctor_names_a_key_of_another_type_and_goes_on(store: RedisStore) -> None:
    prefix = store._server.address.prefix
    store._server.ask("SET", f"{prefix}:incoming", "foo")
    found = {each.check: each for each in store.check()}
    assert found["keys"].status == "fail"
    assert f"{prefix}:incoming is a string, not a list" in found["keys"].message
    assert {"version", "memory"} <= found.keys() or len(found) > 3


def test_an_error_of_a_script_names_no_script(
    store: RedisStore, caplog: pytest.LogCaptureFixture
) -> None:
    prefix = store._server.address.prefix
    store._server.ask("SET", f"{prefix}:incoming", "foo")
    with caplog.at_level(logging.WARNING):
        store.promote(10)
    assert f"the key {prefix}:incoming is a string, not a list" in caplog.text
    assert store._server.ask("GET", f"{prefix}:damaged:incoming") == b"foo"


def test_what_was_set_aside_before_stays(store: RedisStore) -> None:
    ask, prefix = store._server.ask, store._server.address.prefix
    for value in ("foo", "bar"):
        ask("SET", f"{prefix}:incoming", value)
        store.promote(10)
    assert ask("GET", f"{prefix}:damaged:incoming") == b"foo"
    assert ask("GET", f"{prefix}:damaged:incoming~2") == b"bar"


def test_what_is_sound_is_left_alone(prepared: Scene) -> None:
    prepared.again()
    store = open_store(prepared.url)
    assert isinstance(store, RedisStore)
    missing_records.look(store._server)
    assert store._server.ask("HEXISTS", "scene:meta", "looked_through") == 1
    assert not store.mending.mend()
    store.close()


def test_what_somebody_else_set_aside_and_made_anew_meanwhile_stays(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = store._server.address.prefix
    incoming = f"{prefix}:incoming"
    store._server.ask("SET", incoming, "foo")

    def others_are_faster(server: Server) -> Iterator[Damage]:
        found = list(find_damage(server))
        monkeypatch.setattr("stayer.stores.redis.damage.find_damage", find_damage)
        assert damage.Mending(server).mend()
        server.ask("RPUSH", incoming, json.dumps({"id": "fine", "queue": "q"}))
        yield from found

    monkeypatch.setattr("stayer.stores.redis.damage.find_damage", others_are_faster)
    store.promote(10)
    assert get(store, "fine").state == "pending"
    assert store._server.ask("GET", f"{prefix}:damaged:incoming") == b"foo"


def test_a_setting_that_was_mended_meanwhile_stays(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = f"{store._server.address.prefix}:queue:q"
    store.set_queue("q", limit=7)
    store._server.ask("HSET", queue, "limit", GARBAGE)

    def somebody_mends_it(server: Server) -> Iterator[Damage]:
        found = list(find_damage(server))
        assert [each.name for each in found] == [queue]
        server.ask("HSET", queue, "limit", 7)
        yield from found

    monkeypatch.setattr("stayer.stores.redis.damage.find_damage", somebody_mends_it)
    store.mending.mend()
    assert store._server.ask("HGET", queue, "limit") == b"7"


@pytest.mark.parametrize("value", [GARBAGE, b"", b"1 2", b"- - - x x x x x x x"])
def test_figures_that_cant_be_read_are_counted_anew(url: str, value: bytes) -> None:
    minute = Minutes()
    store = open_store(url, minute)
    store.setup()
    assert isinstance(store, RedisStore)
    store.sample()
    ask, prefix = store._server.ask, store._server.address.prefix
    for at in range(2):
        submit(store, new(f"t{at}"))
        minute.now += 60
        store.sample()
        if at == 0:
            ask("HSET", f"{prefix}:figures:3600:0", "q", value, "", value)
    assert ask("HGET", f"{prefix}:figures:3600:0", "q").split()[3] == b"1"
    assert [each.submitted for each in store.figures(0, 180, 60, ["q"])] == [1, 1]
    store.close()


class Minutes:
    """A clock that stands until it is set."""

    now = 60.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("value", ["1_0", "inf", "-inf", "nan", " 7", "0x10", str(2**63), "1.5"])
def test_what_only_python_takes_for_a_number_is_none(store: RedisStore, value: str) -> None:
    ask, prefix = store._server.ask, store._server.address.prefix
    submit(store, new("a"))
    last = ask("GET", f"{prefix}:last")
    numbers = {
        f"{prefix}:{{q}}:queue": ("limit", "wakes", "rate"),
        f"{prefix}:meta": ("schema",),
        f"{prefix}:{{q}}:key_limits": ("k",),
    }
    for name, fields in numbers.items():
        for field in fields:
            ask("HSET", name, field, value)
    ask("SET", f"{prefix}:last", value)
    assert store.mending.mend()
    for name, fields in numbers.items():
        assert ask("HMGET", name, *fields) == [None] * len(fields)
    assert ask("GET", f"{prefix}:last") is None
    submit(store, new("b"))
    assert int(ask("GET", f"{prefix}:last")) == int(last) + 1


@pytest.mark.parametrize("value", ["0", "-3", "12.5", "1e-05", "1.2345678901234567e+15", repr(0.1)])
def test_numbers_are_as_scripts_write_them(value: str) -> None:
    assert strict_numbers.number(value.encode()) == float(value)
