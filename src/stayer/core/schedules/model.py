"""The records of schedules, and a schedule's task as text for the stores."""

from __future__ import annotations

import base64
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stayer.core import codec
from stayer.core.decoding import json_decoder
from stayer.core.model import NewTask

Overlap = Literal["skip", "queue", "cancel"]
CatchUp = Literal["none", "last", "all"]
OVERLAPS: tuple[Overlap, ...] = ("skip", "queue", "cancel")
CATCH_UPS: tuple[CatchUp, ...] = ("none", "last", "all")


class Schedule(Struct, frozen=True, kw_only=True):
    """Tasks to be submitted by the clock; the last five fields are the store's."""

    name: str
    cron: str
    task: NewTask
    """What each tick submits; its id is made of the schedule's name and the tick."""
    zone: str = "UTC"
    overlap: Overlap = "skip"
    """If the task of an earlier tick has not ended: leave the tick out, submit it all the same, or
    cancel the earlier one first."""
    catch_up: CatchUp = "last"
    """Which of the ticks that came while nobody looked are made up for."""
    jitter: float = 0.0
    """Over how many seconds the tasks are spread."""
    paused: bool = False
    origin: str | None = None
    """The file, or app, that declares it; None: somebody added it."""
    next: float | None = None
    """When it is to be looked at again; None: never."""
    created: float = 0.0
    updated: float = 0.0
    last: float | None = None
    """The last tick that was seen to; at first, and after a pause, when it began to count."""
    last_task: str | None = None
    """The newest task that a tick has submitted."""
    waiting: bool = False
    """A tick waits for the end of what it has cancelled: it was not missed, however late."""


class Firing(Struct, frozen=True, kw_only=True):
    """What becomes of a schedule that is due, decided from what it was."""

    name: str
    updated: float
    seen: float | None
    """The `updated` and the `last` of the schedule that this was decided from."""
    last: float | None
    next: float | None
    tasks: tuple[NewTask, ...] = ()
    waiting: bool = False


def explain_conflict(name: str) -> str:
    """Say that the schedule was changed since whoever changes it looked."""
    return f"schedule {name} has been changed or removed meanwhile: look at it and try again"


_decode = json_decoder(NewTask).decode


def pack_task(task: NewTask) -> str:
    """Write what a schedule submits as JSON. Raises BadInput for parameters that can't be kept."""
    parameters = task.parameters
    codec.pack(parameters, "parameters", codec.PARAMETERS_LIMIT)  # says what is wrong with it
    kept: Any = {"json": parameters}
    if isinstance(parameters, bytes | bytearray | memoryview):
        kept = {"base64": base64.b64encode(parameters).decode()}
    return msgspec.json.encode(replace(task, parameters=kept)).decode()


def unpack_task(text: str | bytes) -> NewTask:
    """Read what `pack_task` wrote."""
    task = _decode(text)
    kept: Any = task.parameters
    value = base64.b64decode(kept["base64"]) if "base64" in kept else kept["json"]
    return replace(task, parameters=value)
