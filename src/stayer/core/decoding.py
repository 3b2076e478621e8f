"""Decoders of msgspec, made by one thread at a time.

msgspec looks a class up when it is first decoded, and marks it as known before that is done.
Another thread that decodes the same class at that moment finds half of it, and the process crashes
(seen with 0.22, in a worker). So whatever decodes into a type asks here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

_making = threading.RLock()
_known: set[object] = set()

# A child of a fork would find a class as half known for as long as it lives.
os.register_at_fork(
    before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release
)


@overload
def json_decoder(type: type[T]) -> msgspec.json.Decoder[T]: ...
@overload
def json_decoder(type: Any) -> msgspec.json.Decoder[Any]: ...
def json_decoder(type: Any) -> msgspec.json.Decoder[Any]:
    """Make a decoder from JSON, for any thread."""
    with _making:
        return msgspec.json.Decoder(type)


@overload
def msgpack_decoder(type: type[T]) -> msgspec.msgpack.Decoder[T]: ...
@overload
def msgpack_decoder(type: Any) -> msgspec.msgpack.Decoder[Any]: ...
def msgpack_decoder(type: Any) -> msgspec.msgpack.Decoder[Any]:
    """Make a decoder from MessagePack, for any thread."""
    with _making:
        return msgspec.msgpack.Decoder(type)


@overload
def decode_json(data: bytes | str, type: type[T]) -> T: ...
@overload
def decode_json(data: bytes | str, type: Any) -> Any: ...
def decode_json(data: bytes | str, type: Any) -> Any:
    """Decode JSON once."""
    _prepare(type)
    return msgspec.json.decode(data, type=type)


@overload
def decode_msgpack(data: bytes, type: type[T]) -> T: ...
@overload
def decode_msgpack(data: bytes, type: Any) -> Any: ...
def decode_msgpack(data: bytes, type: Any) -> Any:
    """Decode MessagePack once."""
    _prepare(type)
    return msgspec.msgpack.decode(data, type=type)


@overload
def convert(value: Any, type: type[T], **how: Any) -> T: ...
@overload
def convert(value: Any, type: Any, **how: Any) -> Any: ...
def convert(value: Any, type: Any, **how: Any) -> Any:
    """Make plain data a value of this type; `how` is passed on to msgspec."""
    _prepare(type)
    return msgspec.convert(value, type, **how)


def converter(type: Any) -> Callable[[Any], Any]:
    """Make a function that converts into this type: `convert`, without a look at what is known."""
    _prepare(type)
    return partial(msgspec.convert, type=type)


def _prepare(type: Any) -> None:
    """Have msgspec look up all classes that are in this type."""
    try:
        if type in _known:
            return
    except TypeError:  # what annotates it can't be hashed: looked up each time
        _look_up(type)
        return
    _look_up(type)
    _known.add(type)


def _look_up(type: Any) -> None:
    # What is no type that can be decoded is for whoever decodes into it to say.
    with _making, suppress(TypeError):
        msgspec.msgpack.Decoder(type)
