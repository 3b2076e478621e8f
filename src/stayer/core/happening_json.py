"""What workers tell of their tasks, as JSON between them and a server."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from stayer.core import code, codec, limits, meta
from stayer.core.decoding import convert
from stayer.core.errors import BadInput, TooLarge
from stayer.core.fault_text import cut_fault
from stayer.core.happenings import (
    Done,
    Fail,
    Happening,
    Interrupt,
    Note,
    Pin,
    SetMeta,
    Snooze,
    Start,
    Stop,
    WorkerLost,
)
from stayer.core.images import is_digest
from stayer.core.model import JSON, Value
from stayer.core.units import CENTURY

H = TypeVar("H", bound=Happening)

HAPPENINGS_BY_NAME: dict[str, type[Happening]] = {
    "start": Start,
    "done": Done,
    "fail": Fail,
    "interrupt": Interrupt,
    "lost": WorkerLost,
    "snooze": Snooze,
    "stop": Stop,
    "note": Note,
    "meta": SetMeta,
    "pin": Pin,
}
"""What a worker may tell of a task that it holds; nothing else can come from one."""
_PYTHON = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_NAMES = {kind: name for name, kind in HAPPENINGS_BY_NAME.items()}


def happening_json(happening: Happening) -> dict[str, JSON] | None:
    """Write what happened; None if it is nothing that a worker tells."""
    name = _NAMES.get(type(happening))
    if name is None:
        return None
    if isinstance(happening, Done):
        return {"what": name, "result": codec.shown_value(happening.result)}
    fields: dict[str, JSON] = msgspec.to_builtins(happening)
    return {"what": name, **fields}


def read_happening(written: Mapping[str, Any]) -> Happening:
    """Read what happened; BadInput if it makes no sense."""
    kind = HAPPENINGS_BY_NAME.get(str(written.get("what")))
    if kind is None:
        raise BadInput(f"what: say one of {', '.join(HAPPENINGS_BY_NAME)}")
    if kind is Done:
        return Done(read_result(written.get("result")))
    try:
        return cut_to_fit(convert(written, kind))
    except msgspec.ValidationError as error:
        raise BadInput(f"{written['what']}: {error}") from None


def cut_to_fit(happening: H) -> H:
    """Cut the texts that a worker sends to what a record can carry: an end that was refused for a
    long message would never be told. BadInput if something else makes no sense.
    """
    match happening:
        case Fail(error=error, after=after, bases=bases):
            known = bases[: limits.ERROR_BASES]
            bases = tuple(limits.cut(each, limits.ERROR_TYPE) for each in known)
            after = None if after is None else _wait(after)
            return replace(happening, error=cut_fault(error), after=after, bases=bases)
        case Snooze(delay=delay, note=note, error=error):
            error = None if error is None else cut_fault(error)
            return replace(happening, delay=_wait(delay), note=_note(note), error=error)
        case SetMeta(fields=fields):
            meta.check_names("meta", fields)
        case Interrupt(note=note) | WorkerLost(note=note):
            return replace(happening, note=_note(note))
        case Note(event=event, note=note):
            return replace(happening, event=limits.cut(event, limits.WORD), note=_note(note))
        case Start(pid=pid) if pid is not None and not 0 <= pid <= 2**53:
            raise BadInput(f"pid: {limits.quote(pid)} is none")
        case Pin():
            _check_pin(happening)
        case _:
            pass
    return happening


def _note(note: str | None) -> str | None:
    return None if note is None else limits.cut(note, limits.NOTE)


def _wait(seconds: float) -> float:
    """Bring a wait to one that ends at a moment that stores can keep, and lists can show."""
    return min(max(seconds, 0.0), CENTURY)


def _check_pin(pin: Pin) -> None:
    """Others install what it says: it has to be of the form that workers find out."""
    about, lock = pin.pinned, pin.lock or ""
    if len(lock) > limits.LOCK:
        raise TooLarge(f"pin: the lock is {len(lock):,} characters, at most {limits.LOCK:,} fit")
    if about.image is not None:
        if not is_digest(about.image) or about.python or about.commit or about.lock or lock:
            raise BadInput("pin: with an image, write its digest (sha256:…), and nothing else")
        return
    if not _PYTHON.fullmatch(about.python):
        raise BadInput(f"pin: python {limits.quote(about.python)}: write a version, as in 3.12")
    if about.commit is not None and not _COMMIT.fullmatch(about.commit):
        raise BadInput(f"pin: {limits.quote(about.commit)} is not a commit")
    if about.git is not None and (
        about.commit is None or code.repository(about.git).ref != code.Repository(about.git).ref
    ):
        raise BadInput(f"pin: git {limits.quote(about.git)}: write URL[#FOLDER], and its commit")
    if about.lock != (hashlib.sha256(lock.encode()).hexdigest() if lock else None):
        raise BadInput("pin: pinned.lock is not the sha256 of the lock")
    for line in code.lines_of(lock):
        code.requirement_name(line)


def read_result(shown: JSON) -> Value:
    """Read what a task returned; raises TooLarge and BadInput as a submission does."""
    value: Value = shown
    if isinstance(shown, dict) and shown.keys() == {"base64"} and isinstance(shown["base64"], str):
        try:
            value = base64.b64decode(shown["base64"], validate=True)
        except ValueError:
            value = shown
    codec.pack(value, "the result", codec.RESULT_LIMIT)
    return value
