"""Decoding in several threads at once."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import stayer

_RACE = """
import threading
from typing import Optional
import msgspec
from stayer.core import decoding

is_looked_up, is_decoded = threading.Event(), threading.Event()

def text_later():
    # While msgspec looks the class up, here and only here: let the other thread try.
    is_looked_up.set()
    is_decoded.wait(0.2)
    return Optional[str]

class Inner(msgspec.Struct):
    a: "text_later()" = None

class Outer(msgspec.Struct):
    inner: Inner

def decode():
    is_looked_up.wait()
    CALL
    is_decoded.set()

other = threading.Thread(target=decode)
other.start()
decoding.json_decoder(Outer)
other.join()
print("whole")
"""
_CALLS = [
    'decoding.json_decoder(Outer).decode(b\'{"inner": {"a": "b"}}\')',
    "decoding.msgpack_decoder(Outer).decode(msgspec.msgpack.encode({'inner': {'a': 'b'}}))",
    'decoding.decode_json(b\'{"inner": {"a": "b"}}\', Outer)',
    "decoding.decode_msgpack(msgspec.msgpack.encode({'inner': {'a': 'b'}}), Outer)",
    "decoding.convert({'inner': {'a': 'b'}}, Outer)",
    "decoding.converter(list[Outer])([{'inner': {'a': 'b'}}])",
]


@pytest.mark.parametrize("call", _CALLS)
def test_a_class_can_be_decoded_for_the_first_time_by_several_threads(call: str) -> None:
    script = _RACE.replace("CALL", call)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


def test_whatever_decodes_into_a_type_asks_for_its_decoder() -> None:
    source = Path(stayer.__file__).parent
    for path in source.rglob("*.py"):
        if path == source / "core" / "decoding.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _is_typed(node):
                name = ast.unparse(node.func)
                raise AssertionError(f"{path}:{node.lineno}: use core/decoding.py, not {name}")


def _is_typed(call: ast.Call) -> bool:
    """Whether it has msgspec decode into a type."""
    name = ast.unparse(call.func)
    if name in ("msgspec.json.Decoder", "msgspec.msgpack.Decoder"):
        return bool(call.args or call.keywords)
    if name in ("msgspec.json.decode", "msgspec.msgpack.decode"):
        return any(each.arg == "type" for each in call.keywords)
    return name == "msgspec.convert"
