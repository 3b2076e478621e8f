"""Changes to a task that is there: for `edit`, for `retry`, and for the copy that `clone` submits.

All three go through the checks of a submission: what comes out could have been submitted so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from stayer.core import codec, meta
from stayer.core.decoding import decode_json
from stayer.core.errors import BadInput
from stayer.core.field_text import field_text
from stayer.core.fields import EDITABLE, OF_QUEUE, SUBMISSION, Field
from stayer.core.flows.model import SWEEP_PART, sweep_key
from stayer.core.happenings import Edit
from stayer.core.limits import quote
from stayer.core.model import JSON, NewTask, Policy, Task, Value
from stayer.core.submit import checks
from stayer.core.submit.json import parse_submission
from stayer.core.submit.policy import named_fields

MERGED = "set_parameters"
"""What JSON calls the parameters that are set one by one."""
_NEW_EACH_TIME = (
    "id",
    "delay",
    "eta",
    "expire",
    "start_before",
    "held",
    "owner",
    "cloned_from",
    "submitted_by",
    "source_commit",
)
"""What a clone does not take over: its own id and times, and whose it is."""
_SET_AS_SUBMITTED = tuple(
    name
    for name in EDITABLE
    if SUBMISSION[name].home is Task and name not in ("parameters", "eta", "start_before")
)
"""What an edit sets to what a submission says; times count from now, parameters stand apart."""
_LIMITS = ("time_limit", "silence_limit", "memory_limit")
_NOTE_LIMIT = 60
"""How many characters of a value the history shows."""
_NOT_SHOWN = ("env",)
"""Fields of which the history says only that they have changed."""


class Edits(Struct, frozen=True, kw_only=True):
    """What somebody wants to be different."""

    fields: Mapping[str, Any] = {}
    """Fields of a submission as `checks.new_task` takes them; None: back to the default."""
    parameters: Mapping[str, JSON] = {}
    """Single parameters, for tasks whose parameters are an object."""

    def __bool__(self) -> bool:
        return bool(self.fields or self.parameters)


def parse_edits(text: str | bytes, what: str) -> Edits:
    """Read edits from a JSON object; null takes a field back to its default. Raises BadInput."""
    try:
        written = decode_json(text or b"{}", dict[str, Raw])
    except codec.UNREADABLE:
        codec.parse(text, what)  # says what is wrong with it, and where
        raise BadInput(f"{what}: give an object of named fields") from None
    merged = written.pop(MERGED, None)
    cleared = {name: None for name, value in written.items() if bytes(value) == b"null"}
    _refuse_unknown(cleared, what)
    rest = {name: value for name, value in written.items() if name not in cleared}
    given = parse_submission(msgspec.json.encode(rest), what)
    return Edits(fields={**cleared, **given}, parameters=_merged(merged, what))


def written(edits: Edits) -> dict[str, JSON]:
    """Give the edits as the JSON that `parse_edits` reads."""
    found: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in edits.fields.items()
    }
    if isinstance(value := found.get("parameters"), bytes | dict):
        found["parameters"] = checks.written_value(value)
    if (code := found.get("code")) is not None:
        found["code"] = msgspec.to_builtins(code)
    if edits.parameters:
        found[MERGED] = dict(edits.parameters)
    return found


def _merged(written: Raw | None, what: str) -> dict[str, JSON]:
    if written is None or bytes(written) == b"null":
        return {}
    try:
        return decode_json(written, dict[str, Any])
    except msgspec.DecodeError:
        raise BadInput(f"{what}: {MERGED}: give an object, parameters by their names") from None


def _refuse_unknown(names: Mapping[str, object], what: str) -> None:
    for name in names:
        if name not in SUBMISSION:
            raise BadInput(
                f"{what}: no field is called {quote(name)}: allowed are {', '.join(SUBMISSION)}"
            )


def apply_edits(task: Task, edits: Edits, now: float) -> Edit | None:
    """Work out what an edit does to a task, now that it is so late by the store's clock; None if
    that is nothing. Raises BadInput.
    """
    fixed = [name for name in edits.fields if name not in EDITABLE]
    if fixed:
        raise BadInput(
            f"{fixed[0]} of a task that is there can't be changed: clone it with another "
            f"{fixed[0]}. What can be is {', '.join(EDITABLE)}"
        )
    asked = _with_moments(edits.fields, now)
    new = _made({**_submission(task), "id": task.id, **_times(task), **asked}, task, edits)
    sets: dict[str, Any] = {
        name: value
        for name in _SET_AS_SUBMITTED
        if (value := getattr(new, name)) != getattr(task, name)
    }
    for name in ("eta", "start_before"):
        if name in asked and (moment := getattr(new, name)) != getattr(task, name):
            sets[name] = None if moment is None else float(moment)
    if new.policy != (known := replace(task.policy, near=None, near_wait=None, over=None)):
        tied = {name: getattr(task.policy, name) for name in ("near", "near_wait", "over")}
        sets["policy"] = replace(new.policy, losses=known.losses, **tied)
    parameters: Value | UnsetType = UNSET
    if codec.encode(checks.written_value(new.parameters)) != codec.encode(
        checks.written_value(task.parameters)
    ):
        parameters = new.parameters
    dates = _with_deadline(task, asked, now)
    if not sets and not dates and parameters is UNSET:
        return None
    eta = sets.get("eta", task.eta)
    return Edit(
        sets={**sets, **dates},
        parameters=parameters,
        note=_note(task, sets, parameters) or "its deadline counts anew",
        is_early=eta is not None and eta > now,
    )


def make_clone(
    task: Task, edits: Edits, after: Sequence[str], *, owner: str | None, now: float
) -> NewTask:
    """Make the copy of a task that is to be submitted, with these changes. `after` are the tasks
    that the first one ran after. Raises BadInput.
    """
    asked: dict[str, Any] = {**_submission(task), "owner": owner, "cloned_from": task.id}
    if after:
        asked |= {"after": after, "near": task.policy.near, "near_wait": task.policy.near_wait}
    if task.flow is not None and task.key == sweep_key(task.flow):
        asked["key"] = None  # the throttle is for the sweep, which the clone is no part of
    if "after" in edits.fields:  # what it is to run near is one of them
        asked |= {"near": None, "near_wait": None}
    new = _made({**asked, **_with_moments(edits.fields, now)}, task, edits)
    # What the first one had, it had by its queue's defaults, or in spite of them.
    cleared = [name for name, value in edits.fields.items() if value is None]
    return replace(new, said=tuple(name for name in OF_QUEUE if name not in cleared))


def _submission(task: Task) -> dict[str, Any]:
    """Say what submits this task again: what it is to do, not when, nor what became of it."""
    policy = named_fields(task.policy)
    left_out = {*_NEW_EACH_TIME, "after", "near", "near_wait"}
    return {
        name: policy[name] if field.home is Policy else getattr(task, name)
        for name, field in SUBMISSION.items()
        if name not in left_out and (field.home is not Policy or name in policy)
    }


def _times(task: Task) -> dict[str, Any]:
    return {"eta": task.eta, "start_before": task.start_before}


def _with_deadline(task: Task, asked: Mapping[str, Any], now: float) -> dict[str, float | None]:
    """Let a deadline that is edited count from now. What was to expire earlier still does."""
    if "deadline" not in asked:
        return {}
    seconds = asked["deadline"]
    finish = None if seconds is None else float(now + seconds)
    start = asked.get("start_before", task.start_before)
    if start == task.finish_before:
        start = None
    if start is None or finish is None:
        return {"finish_before": finish, "start_before": finish if start is None else start}
    return {"finish_before": finish, "start_before": min(start, finish)}


def _with_moments(fields: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Let `delay` and `expire` count from now, as moments."""
    found = dict(fields)
    for length, moment in (("delay", "eta"), ("expire", "start_before")):
        if length not in found:
            continue
        seconds = found.pop(length)
        if seconds is not None:
            if found.get(moment) is not None:
                raise BadInput(f"give either {moment} or {length}, not both")
            found[moment] = now + seconds
        else:
            found.setdefault(moment, None)
    return found


def _made(asked: dict[str, Any], task: Task, edits: Edits) -> NewTask:
    """Check all of it as if it were submitted, with the single parameters that are set."""
    _check_filled_in(task, edits)
    if edits.fields.get("command") is not None and "name" not in edits.fields:
        asked["name"] = None
    if edits.fields.get("name") is not None and "command" not in edits.fields:
        asked["command"] = None
    if asked.get("command") is None:
        asked["cwd"] = edits.fields.get("cwd")
    if asked.get("unique") is None:
        asked |= {name: edits.fields.get(name) for name in ("unique_while", "unique_for")}
    if "meta" in edits.fields:
        asked["meta"] = meta.merge(task.meta, edits.fields["meta"])
    if edits.parameters:
        asked["parameters"] = _with_parameters(asked.get("parameters"), edits.parameters, task.id)
    # 0 is what `stayer set --time-limit none` leaves: it may stay, though nobody submits it.
    unlimited = {name: 0 for name in _LIMITS if asked.get(name) == 0 and name not in edits.fields}
    asked = {name: None if name in unlimited else value for name, value in asked.items()}
    new = checks.new_task(**asked)
    codec.pack(new.parameters, "parameters", codec.PARAMETERS_LIMIT)
    return replace(new, policy=replace(new.policy, **unlimited)) if unlimited else new


def _check_filled_in(task: Task, edits: Edits) -> None:
    """Refuse other parameters for the command of a sweep that is not known any more: it has the old
    ones in its words, would run with those, and be shown with the others.
    """
    changes_parameters = bool(edits.parameters) or "parameters" in edits.fields
    keeps_command = task.command is not None and not {"command", "name"} & edits.fields.keys()
    if changes_parameters and keeps_command and task.part == SWEEP_PART:
        raise BadInput(
            f"the parameters of {task.id} are part of its command, which would stay as it is: "
            "give the whole command too, such as -p lr=0.05 -- python train.py --lr 0.05"
        )


def _with_parameters(known: Value, wanted: Mapping[str, JSON], id: str) -> Value:
    if known is None:
        return dict(wanted)
    if not isinstance(known, dict):
        raise BadInput(
            f"the parameters of task {id} are {_kind(known)}, not an object with names: give all "
            "of them with --data"
        )
    return {**known, **wanted}


def _kind(value: Value) -> str:
    names = {bytes: "bytes", str: "a text", list: "a list", bool: "true or false"}
    return names.get(type(value), "a number")


def _note(task: Task, sets: Mapping[str, Any], parameters: Value | UnsetType) -> str:
    """Say what changes, in the order of the fields: old and new where they are short."""
    parts = []
    for name, value in sets.items():
        if name == "policy":
            parts += [
                _changed(SUBMISSION[each], getattr(task.policy, each), new)
                for each in Policy.__struct_fields__
                if (new := getattr(value, each)) != getattr(task.policy, each)
                and each in SUBMISSION
            ]
        else:
            parts.append(_changed(SUBMISSION[name], getattr(task, name), value))
    if parameters is not UNSET:
        parts.append(_changed(SUBMISSION["parameters"], task.parameters, parameters))
    return "; ".join(parts)


def _changed(field: Field, old: Any, new: Any) -> str:
    if field.name in _NOT_SHOWN:
        return field.name
    return f"{field.name} {_text(field, old)} → {_text(field, new)}"


def _text(field: Field, value: Any) -> str:
    text = field_text(field, value)
    return text if len(text) <= _NOTE_LIMIT else text[: _NOTE_LIMIT - 1] + "…"
