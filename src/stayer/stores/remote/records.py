"""Records from the JSON that shows them: the way back from `core.codec`."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from stayer.core import codec
from stayer.core.decoding import convert
from stayer.core.errors import Refused
from stayer.core.fields import POLICY, field_names
from stayer.core.flows.model import FlowInfo, NewFlow, Part
from stayer.core.insight.failures import Failures
from stayer.core.model import JSON, NewTask, Submitted, Task, Value
from stayer.core.notify.notices import Notice
from stayer.core.ordering import rate_limit
from stayer.core.queue_model import QueueInfo
from stayer.core.schedules import parse
from stayer.core.schedules.model import Schedule
from stayer.core.submit.checks import submission_json
from stayer.core.units import instant

T = TypeVar("T", bound=Struct)

_STATES_OF_FLOWS = ("state", "counts")
_FREE = field_names("value")
"""Values of users: what is in them is not ours to read."""


def task(shown: Mapping[str, Any]) -> Task:
    """Read a task from its record."""
    found = {name: value for name, value in shown.items() if name not in POLICY}
    policy = {name: shown[name] for name in POLICY if shown.get(name) is not None}
    orders = shown.get("orders", ())
    last = shown.get("last_order", max((order["number"] for order in orders), default=0))
    values = {name: _value(found.pop(name, None)) for name in _FREE}
    decoded = read(Task, {**found, "policy": policy, "last_order": last})
    return msgspec.structs.replace(decoded, **values)


def read_submitted(shown: Mapping[str, Any]) -> Submitted:
    """Read the answer to a submission."""
    return Submitted(task(shown), shown["fresh"], shown.get("purged", False))


def check_refused(url: str, answers: Sequence[Mapping[str, Any]]) -> None:
    """Raise Refused if an id is taken in queues that the token is not for."""
    refused = [str(each["refused"]) for each in answers if "refused" in each]
    if refused:
        more = f" (and {len(refused) - 1:,} more)" if len(refused) > 1 else ""
        others = len(answers) - len(refused)
        rest = f"; the other {others:,} of its request are accepted" if others else ""
        raise Refused(f"{url}: {refused[0]}{more}{rest}")


def queue(shown: Mapping[str, Any]) -> QueueInfo:
    """Read a queue from its record."""
    rate = shown.get("rate")
    known = read(QueueInfo, {**shown, "rate": None})
    return known if rate is None else msgspec.structs.replace(known, rate=rate_limit.parse(rate))


def schedule(shown: Mapping[str, Any]) -> Schedule:
    """Read a schedule from its record."""
    written_fields = {name: shown[name] for name in parse.WrittenSchedule.__struct_fields__}
    times = {name: shown[name] for name in ("next", "created", "updated", "last")}
    found = parse.parse(written_fields, "the server's answer", {})
    known = {name: value and instant(value) for name, value in times.items()}
    return msgspec.structs.replace(found, **known, last_task=shown["last_task"])


def notice(shown: Mapping[str, Any]) -> Notice:
    """Read a notice from its record."""
    return read(Notice, shown)


def flow(shown: Mapping[str, Any]) -> FlowInfo:
    """Read a flow from its record."""
    parts = tuple(
        convert({k: v for k, v in part.items() if k not in _STATES_OF_FLOWS}, Part)
        for part in shown["parts"]
    )
    return FlowInfo(
        id=shown["id"],
        name=shown["name"],
        owner=shown["owner"],
        created=instant(shown["created"]),
        parts=parts,
        counts={
            part["name"]: {state: number for state, number in part["counts"].items() if number}
            for part in shown["parts"]
        },
    )


def failures(shown: Mapping[str, Any]) -> Failures:
    """Read what failed, by fault."""
    found = [
        {**each, "first": instant(each["first"]), "last": instant(each["last"])}
        for each in shown["failures"]
    ]
    return convert({**shown, "failures": found}, Failures)


def flow_submission(new: NewFlow, tasks: Sequence[NewTask]) -> dict[str, Any]:
    """Write what asks for this flow."""
    laid_out = [
        {
            **submission_json(task),
            "part": task.part,
            "behind": list(task.behind),
            "over": task.policy.over,
        }
        for task in tasks
    ]
    parts = [msgspec.to_builtins(part) for part in new.parts]
    about = {"id": new.id, "name": new.name, "owner": new.owner}
    return {**about, "parts": parts, "laid_out": laid_out}


def read(kind: type[T], shown: Mapping[str, Any]) -> T:
    """Read any other record."""
    return convert(_times_read(shown), kind)


def _times_read(shown: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _field(name, value) for name, value in shown.items()}


def _field(name: str, value: Any) -> Any:
    if isinstance(value, str) and (name in codec.TIMES or name.endswith("_at")):
        return instant(value)
    if name in ("error", "progress", "usage", "handles") and isinstance(value, dict):
        return _times_read(value)
    if name == "data":
        return _value(value)
    return value


def _value(value: Any) -> Value:
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return base64.b64decode(value["base64"])
    found: JSON = value
    return found
