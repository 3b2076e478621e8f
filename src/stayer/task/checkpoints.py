r"""The `checkpoint` file: a state that a task saved, and the results of its finished steps.

Without steps the file is the state itself: JSON text or raw bytes, so that programs in any language
read and write it. Otherwise, and where bytes would be mistaken for JSON, it is

    \xfe\xd7stayer-checkpoint 1\n              no text begins so
    {"state": "json", "steps": {"fetch": {"json": [1, 2]}, "draw": {"base64": "iVBORw=="}}}\n
    the state                                  as JSON, or as bytes if "state" is "bytes"

where "state" is null if only steps were saved.
"""

from __future__ import annotations

import threading
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

from stayer.core import codec
from stayer.core.decoding import decode_json
from stayer.core.errors import BadInput, TooLarge
from stayer.core.model import JSON, Value
from stayer.core.units import format_size
from stayer.task import atomic_files

_MAGIC_PREFIX = b"\xfe\xd7stayer-checkpoint "
_MAGIC = _MAGIC_PREFIX + b"1\n"

Kind: TypeAlias = Literal["json", "bytes"] | None


class _Step(Struct, frozen=True):
    """What came out of a step: one of the two."""

    json: JSON | UnsetType = UNSET
    base64: bytes | UnsetType = UNSET  # msgspec writes bytes so


class _Header(Struct, frozen=True):
    state: Kind = None
    steps: dict[str, _Step] = {}


class Checkpoints:
    """The `checkpoint` file of a task. It is read anew each time: others may write it too."""

    def __init__(self, path: str) -> None:
        self._where = path
        self._lock = threading.RLock()

    def state(self) -> Value | UnsetType:
        """Return what was saved last, by this attempt or one before; UNSET if nothing was."""
        kind, _, body = self._read()
        if kind == "json":
            value: JSON = msgspec.json.decode(body)
            return value
        return UNSET if kind is None else body

    def steps(self) -> dict[str, Value]:
        """Return the results of finished steps."""
        _, steps, _ = self._read()
        return {
            name: step.json if step.base64 is UNSET else step.base64  # type: ignore[misc]
            for name, step in steps.items()
        }

    def save(self, state: object) -> None:
        """Keep a state for the next attempt; raises BadInput, TooLarge."""
        kind, body = _encode(state, "the checkpoint")
        with self._lock:
            self._write(kind, self._read()[1], body)

    def save_bytes(self, state: bytes) -> None:
        """Keep bytes just as they are, for a program that will read the file itself."""
        with self._lock:
            if steps := self._read()[1]:
                self._write("bytes", steps, state)
            else:
                self._replace(state)

    def save_step(self, name: str, result: object) -> Value:
        """Keep the result of a step; what the next attempt will get. Raises BadInput, TooLarge."""
        kind, form = _encode(result, f"the result of step {name!r}")
        value: JSON = msgspec.json.decode(form) if kind == "json" else None
        step = _Step(base64=form) if kind == "bytes" else _Step(json=value)
        with self._lock:
            state, steps, body = self._read()
            self._write(state, {**steps, name: step}, body)
        return form if kind == "bytes" else value

    def _read(self) -> tuple[Kind, dict[str, _Step], bytes]:
        data = self._load()
        if not data.startswith(_MAGIC_PREFIX):
            return _kind(data), {}, data
        head, _, body = data[len(_MAGIC) :].partition(b"\n")
        try:
            if not data.startswith(_MAGIC):
                raise ValueError("its version is not 1")
            header = decode_json(head, _Header)
        except ValueError as error:
            raise BadInput(
                f"the checkpoint {self._where} can't be read ({error}): it was written by a newer "
                "Stayer, or is damaged. Upgrade this node, or submit the task anew"
            ) from None
        return header.state, header.steps, body

    def _write(self, kind: Kind, steps: dict[str, _Step], body: bytes) -> None:
        if steps or kind != _kind(body) or body.startswith(_MAGIC_PREFIX):
            head = msgspec.json.encode(_Header(kind, steps))
            body = b"".join((_MAGIC, head, b"\n", body))
        self._replace(body)

    def _replace(self, data: bytes) -> None:
        if len(data) > codec.CHECKPOINT_LIMIT:
            raise TooLarge(
                f"a checkpoint of {format_size(len(data))} is over the limit of "
                f"{format_size(codec.CHECKPOINT_LIMIT)}: save the data to a file of your own, and "
                "keep where it is"
            )
        self._save(data)

    def _load(self) -> bytes:
        """Return what is there now; empty if there is nothing."""
        try:
            with open(self._where, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def _save(self, data: bytes) -> None:
        atomic_files.replace(self._where, data)


def _encode(value: object, what: str) -> tuple[Kind, bytes]:
    if isinstance(value, bytes | bytearray | memoryview):
        return "bytes", bytes(value)
    codec.pack(value, what, codec.CHECKPOINT_LIMIT)  # type: ignore[arg-type]  # it complains well
    return "json", codec.encode(value).encode()  # type: ignore[arg-type]


def _kind(data: bytes) -> Kind:
    """Return what a file without our magic holds."""
    if not data:
        return None
    try:
        msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return "bytes"
    return "json"
