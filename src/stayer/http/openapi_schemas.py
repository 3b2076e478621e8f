"""Records as schemas, for the description of the API: made of the types that they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from stayer.core import codec, fields, limits
from stayer.core.flows.model import Part
from stayer.core.flows.sweep import Run
from stayer.core.insight.explanation import Reason
from stayer.core.insight.failures import Failure
from stayer.core.insight.queue_stats import Figures
from stayer.core.limits import Most
from stayer.core.liveness.lost_workers import LostWorker
from stayer.core.model import (
    STATES,
    Attempt,
    Checkpoint,
    Code,
    Event,
    Fault,
    LogPiece,
    Metric,
    Order,
    Pinned,
    Policy,
    Progress,
    SentFile,
    Series,
    Step,
    Task,
    Usage,
)
from stayer.core.notify.notices import Notice
from stayer.core.queue_model import QueueInfo
from stayer.core.schedules.model import Schedule
from stayer.core.schedules.parse import WrittenSchedule
from stayer.core.submit.edits import MERGED
from stayer.core.submit.json import WrittenSubmission
from stayer.core.worker_model import Handles, Worker, WorkerOrder
from stayer.http import work_bodies
from stayer.http.submit import BATCH_LIMIT

Schema = dict[str, Any]

REF = "#/components/schemas/"
_STRING: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_INTEGER: Schema = {"type": "integer"}
_TIME: Schema = {"type": "string", "format": "date-time"}
_BYTES: Schema = {
    "type": "object",
    "properties": {"base64": {"type": "string", "contentEncoding": "base64"}},
    "required": ["base64"],
}
_POINTS: Schema = {
    "description": "Seconds since the attempt began, x, value; the newest last.",
    "type": "array",
    "items": {
        "type": "array", "items": {"type": ["number", "null"]}, "minItems": 3, "maxItems": 3,
    },
}  # fmt: skip


@cache
def struct_schema(kind: type) -> Schema:
    """The schema of a Struct, with nothing to be looked up elsewhere."""
    [schema], components = msgspec.json.schema_components([kind], ref_template="{name}")
    found = components.get(kind.__name__, schema)
    return {name: value for name, value in found.items() if name != "title"}


def with_limits(kind: type, table: Mapping[str, Most]) -> Schema:
    """The schema of a Struct, with how long its texts and lists may be."""
    found = struct_schema(kind)
    properties = {
        name: _at_most(schema, table[name]) if name in table else schema
        for name, schema in found.get("properties", {}).items()
    }
    return {**found, "properties": properties}


def _at_most(schema: Schema, most: Most) -> Schema:
    if "anyOf" in schema:
        return {**schema, "anyOf": [_at_most(each, most) for each in schema["anyOf"]]}
    match schema.get("type"):
        case "string":
            return {**schema, "maxLength": most.characters}
        case "array":
            return {**schema, "maxItems": most.items, "items": _at_most(schema["items"], most)}
        case "object" if most.items is not None:
            return {**schema, "maxProperties": most.items}
        case _:
            return schema


def _record(kind: type[Struct], names: Sequence[str] = (), **others: Schema) -> Schema:
    """A record as `codec` shows it: every key is always there, times are text."""
    names = names or kind.__struct_fields__
    declared = struct_schema(kind)["properties"]
    properties = {name: others.get(name) or _field(name, declared[name]) for name in names}
    return {"type": "object", "properties": properties, "required": list(names)}


def _field(name: str, declared: Schema) -> Schema:
    schema = {key: value for key, value in declared.items() if key != "default"}
    if name in codec.TIMES or name.endswith("_at"):
        optional = "anyOf" in declared
        return {"anyOf": [_TIME, {"type": "null"}]} if optional else _TIME
    if "$ref" in schema:
        return {"$ref": REF + schema["$ref"]}
    if "anyOf" in schema:
        return {"anyOf": [_field("", each) for each in schema["anyOf"]]}
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            return {**schema, inner: _field("", schema[inner])}
    return schema


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _array(name: str) -> Schema:
    return {"type": "array", "items": {"$ref": REF + name}}


def _by_name(name: str) -> Schema:
    return {"type": "object", "additionalProperties": {"$ref": REF + name}}


def _optional(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _partly(**properties: Schema) -> Schema:
    """What may leave out queues that can't be reached, and then says so."""
    return {"allOf": [_object(**properties), {"$ref": f"{REF}Away"}]}


def _with(name: str, required: Mapping[str, Schema], **optional: Schema) -> Schema:
    more = {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
    }
    return {"allOf": [{"$ref": REF + name}, more]}


def _submission() -> Schema:
    written = with_limits(WrittenSubmission, fields.MOST)
    code = {**written["properties"]["code"], "anyOf": [{"$ref": f"{REF}Code"}, {"type": "null"}]}
    return {
        **written,
        "properties": {**written["properties"], "code": code},
        "description": f"Without its parameters at most {limits.RECORD:,} bytes as JSON.",
    }


def _queue_defaults() -> Schema:
    written = _submission()["properties"]
    return {
        "description": "What tasks of the queue have unless they say otherwise.",
        "type": "object",
        "properties": {name: written[name] for name in fields.OF_QUEUE},
    }


def _edits() -> Schema:
    written = _submission()
    merged: Schema = {
        "type": "object",
        "description": "Parameters that are set one by one; the others stay.",
    }
    fixed = [name for name in fields.SUBMISSION if name not in fields.EDITABLE]
    return {
        **written,
        "description": "What is to be different; null stands for the default. Only a clone may "
        f"have another {', '.join(fixed)}.",
        "properties": {**written["properties"], MERGED: merged},
    }


def _flow_schemas(counts: Schema) -> Schema:
    """What is about flows; `counts` says how many tasks are in each state."""
    names: Schema = {"type": "array", "items": _STRING}
    part = _record(Part)
    part["properties"] |= {"state": {"enum": list(STATES)}, "counts": counts}
    part["required"] += ["state", "counts"]
    about = {"id": _STRING, "name": _STRING, "owner": _optional(_STRING)}
    ties: Schema = {
        "after": {**names, "description": "Parts of this flow that it runs after."},
        "after_tasks": {**names, "description": "Ids of tasks outside the flow."},
        "map": {"oneOf": [{"type": "array"}, _STRING], "description": "A task for each item."},
        "at_once": {"type": "integer", "minimum": 1},
        "near": {
            **_STRING,
            "description": "One of those that it runs after: on whose node to run.",
        },
    }
    written = _submission()
    fields = {**{k: v for k, v in written["properties"].items() if k != "id"}, **ties}
    task: Schema = {"type": "object", "properties": fields, "additionalProperties": False}
    return {
        "FlowPart": part,
        "FlowTask": task,
        "Flow": _object(
            **about, created=_TIME, state={"enum": list(STATES)}, counts=counts,
            parts=_array("FlowPart"),
        ),
        "FlowPage": _object(flows=_array("Flow"), next=_optional(_STRING)),
        "AcceptedFlow": _with("Flow", {"fresh": {"type": "boolean"}}),
        "Run": _record(Run, parameters={"type": "object"}, result={}),
        "Sweep": _object(
            id=_STRING, name=_STRING, state={"enum": list(STATES)}, counts=counts,
            parameters=names, figures=names, metrics=names, runs=_array("Run"),
        ),
        "FlowTold": _object(id=_STRING, tasks=_INTEGER),
        "Upstreams": _object(after=names, behind=names, waits=names, waiting_for=_INTEGER),
        "FlowSubmission": {
            "description": f"At most {limits.FLOW_TASKS:,} tasks of {limits.FLOW_BYTES:,} bytes in "
            f"all, and {limits.FLOW_TIES:,} pairs of a task and one that it runs after.",
            "type": "object",
            "properties": {
                **about, "defaults": {"$ref": f"{REF}FlowTask"}, "tasks": _by_name("FlowTask"),
            },
            "required": ["name", "tasks"],
            "additionalProperties": False,
        },
    }  # fmt: skip


_WORDS: Schema = {"type": "array", "items": _STRING}
_HELD = _object(id=_STRING, attempt=_INTEGER)
"""An attempt that a worker holds."""


def _extended(schema: Schema, **properties: Schema) -> Schema:
    """Return an object that has these properties too, or instead."""
    return {**schema, "properties": {**schema["properties"], **properties}}


def _what_workers_send() -> Schema:
    """It may have more fields: these are ignored."""
    handles: Schema = {
        "type": "object",
        "properties": {"plain": {"type": "boolean"}, "names": _WORDS, "programs": _WORDS},
    }
    error: Schema = {
        "type": "object",
        "properties": {
            "type": _STRING, "message": _STRING, "traceback": _optional(_STRING),
            "exit_code": _optional(_INTEGER), "signal": _optional(_INTEGER),
        },
        "required": ["type"],
    }  # fmt: skip
    reports: Schema = {"type": "array", "items": {"$ref": f"{REF}ToldRunning"}}
    return {
        "ToldProgress": struct_schema(work_bodies.ProgressBody),
        "ToldRunning": _extended(
            _HELD, acknowledged=_INTEGER, paused={"type": "boolean"},
            progress={"$ref": f"{REF}ToldProgress"}, usage={"type": "object"},
        ),
        "BeatToSend": _extended(
            struct_schema(work_bodies.BeatBody), handles=handles, running=reports, news=reports
        ),
        "TakeToSend": _extended(struct_schema(work_bodies.TakeBody), handles=handles),
        "FailureToSend": _extended(struct_schema(work_bodies.FailBody), error=error),
    }  # fmt: skip


def _what_workers_hear() -> Schema:
    orders = _object(**_HELD["properties"], orders=_array("Order"))
    return {
        "Beat": _object(
            now=_NUMBER, lease=_NUMBER, drain={"type": "boolean"}, watched={"type": "boolean"},
            order=_optional({"type": "object", "properties": {
                "number": _INTEGER, "queues": _optional(_WORDS), "slots": _optional(_INTEGER),
                "grace": _optional(_NUMBER), "ends_at": _optional(_NUMBER),
            }}),
            orders={"type": "array", "items": orders}, lost={"type": "array", "items": _HELD},
            away=_WORDS, undelivered=_WORDS, proven=_optional(_WORDS),
        ),
        "WorkWait": _object(news={"type": "boolean"}, position=_STRING),
        "Ties": _object(after=_WORDS, behind=_WORDS),
        "ChangedTasks": _object(
            tasks={"type": "array", "items": _optional({"$ref": f"{REF}Task"})}
        ),
    }  # fmt: skip


def schemas() -> Schema:
    """Describe all records by name."""
    counts = _object(**dict.fromkeys(STATES, _INTEGER))
    return {
        "Any": {},
        "Problem": _object(type=_STRING, title=_STRING, status=_INTEGER, detail=_STRING),
        **_report_schemas(),
        **_task_schemas(),
        **_history_schemas(),
        **_flow_schemas(counts),
        **_queue_schemas(),
        **_worker_schemas(),
        **_what_workers_send(),
        **_what_workers_hear(),
        **_server_schemas(counts),
    }


def _report_schemas() -> Schema:
    """Describe what tasks report of themselves."""
    return {
        "Fault": _record(Fault),
        "Progress": _record(Progress),
        "Usage": _record(Usage),
        "Metric": _record(Metric, last=_optional(_NUMBER)),
        "Series": _record(Series, last=_optional(_NUMBER), points=_POINTS),
        "Step": _record(Step),
        "Comparison": _object(
            ids={"type": "array", "items": _STRING},
            rows={
                "type": "array",
                "items": _object(
                    name=_STRING, values={"type": "array"}, differs={"type": "boolean"}
                ),
            },
        ),
        "Statistics": _object(
            attempt=_INTEGER, metrics=_by_name("Series"), steps=_array("Step"), left_out=_INTEGER,
            at=_optional(_TIME),
        ),
    }  # fmt: skip


def _task_schemas() -> Schema:
    policy = struct_schema(Policy)["properties"]
    task = _record(Task, fields.RECORD)
    for name in fields.POLICY:
        task["properties"][name] = _field(name, policy[name])
        task["required"].append(name)
    return {
        "Order": _record(Order),
        "Code": {
            **struct_schema(Code),
            "properties": {**struct_schema(Code)["properties"], "files": _array("SentFile")},
        },
        "SentFile": struct_schema(SentFile),
        "Pinned": _record(Pinned),
        "Task": task,
        "Tasks": _object(tasks=_array("Task")),
        "TaskPage": _object(tasks=_array("Task"), next=_optional(_STRING)),
        "Away": {
            "type": "object",
            "properties": {"away": {"type": "object", "additionalProperties": _STRING}},
        },
        "FoundTasks": {"allOf": [{"$ref": f"{REF}TaskPage"}, {"$ref": f"{REF}Away"}]},
        "TaskWithHistory": _with(
            "Task", {"attempts": _array("Attempt"), "events": _array("Event")}
        ),
        **_submission_schemas(),
        "Purged": _object(purged={"type": "array", "items": _STRING}),
    }


def _submission_schemas() -> Schema:
    each = {"oneOf": [{"$ref": f"{REF}AcceptedTask"}, {"$ref": f"{REF}RefusedTask"}]}
    return {
        "AcceptedTask": _with(
            "Task",
            {"fresh": {"type": "boolean"}},
            warning=_STRING,
            purged={"type": "boolean"},
        ),
        "RefusedTask": _object(id=_STRING, fresh={"const": False}, refused=_STRING),
        "Accepted": {
            "oneOf": [
                {"$ref": f"{REF}AcceptedTask"},
                _object(tasks={"type": "array", "items": each}),
            ]
        },
        "Submission": _submission(),
        "Edits": _edits(),
        "QueueDefaults": _queue_defaults(),
        "Submissions": {
            "oneOf": [
                {"$ref": f"{REF}Submission"},
                {**_array("Submission"), "maxItems": BATCH_LIMIT},
                {
                    **_object(tasks={**_array("Submission"), "maxItems": BATCH_LIMIT}),
                    "additionalProperties": False,
                },
            ]
        },
    }


def _history_schemas() -> Schema:
    """Describe what became of tasks, and why they are where they are."""
    return {
        "Reason": _record(Reason),
        "Span": _object(low=_TIME, likely=_TIME, high=_TIME),
        "Forecast": _object(
            starts=_optional({"$ref": f"{REF}Span"}), ends=_optional({"$ref": f"{REF}Span"}),
            samples=_INTEGER,
        ),
        "Explanation": _object(
            id=_STRING, state=_STRING, reasons=_array("Reason"), ahead=_optional(_INTEGER),
            forecast=_optional({"$ref": f"{REF}Forecast"}),
        ),
        "Attempt": _record(Attempt),
        "Attempts": _object(attempts=_array("Attempt")),
        "Event": _record(Event),
        "Events": _object(events=_array("Event")),
        "EventPage": _object(events=_array("Event"), next=_INTEGER),
        "UsageSeries": _object(attempt=_INTEGER, usage=_array("Usage")),
        "LogPiece": _record(LogPiece, data=_BYTES),
        "LogPieces": _object(attempt=_INTEGER, pieces=_array("LogPiece"), next=_INTEGER),
        "Checkpoint": _record(
            Checkpoint, attempt=_optional(_INTEGER), at=_optional(_TIME), data=_optional(_BYTES)
        ),
        "Failure": _record(
            Failure, first=_TIME, last=_TIME, queues={"type": "array", "items": _STRING},
            lately={
                "type": "array", "items": _INTEGER,
                "description": "How many failed in each half hour of the last day.",
            },
        ),
        "Failures": _partly(failures=_array("Failure"), faults=_INTEGER, tasks=_INTEGER),
    }  # fmt: skip


def _queue_schemas() -> Schema:
    """Describe queues, schedules and notices."""
    schedule = _record(Schedule, task={"$ref": f"{REF}Submission"})
    return {
        "Queue": _record(
            QueueInfo, rate=_optional(_STRING), defaults={"$ref": f"{REF}QueueDefaults"}
        ),
        "Queues": _partly(queues=_array("Queue")),
        "Dropped": _object(name=_STRING, left=_INTEGER),
        "ScheduleToMake": with_limits(WrittenSchedule, limits.SCHEDULE),
        "Schedule": {
            **schedule,
            "properties": {**schedule["properties"], "last_state": _optional(_STRING)},
            "required": [*schedule["required"], "last_state"],
        },
        "Schedules": _object(schedules=_array("Schedule")),
        "ScheduleWithTicks": _with("Schedule", {"following": {"type": "array", "items": _TIME}}),
        "Notice": _record(Notice, tuple(n for n in Notice.__struct_fields__ if n != "record")),
        "NoticePage": _object(notices=_array("Notice"), next=_optional(_STRING)),
        "NoticesTold": _object(notices=_INTEGER),
    }


def _worker_schemas() -> Schema:
    lost_worker = _record(LostWorker)
    return {
        "Handles": _record(Handles),
        "WorkerOrder": _record(WorkerOrder),
        "Worker": _record(Worker),
        "LostWorker": {
            **lost_worker,
            "properties": {**lost_worker["properties"], "state": {"const": "DOWN"}, "why": _STRING},
            "required": [*lost_worker["required"], "state", "why"],
        },
        "Workers": _partly(workers=_array("Worker"), down=_array("LostWorker")),
        "Work": _object(
            protocol=_INTEGER, name=_STRING, queues={"type": "array", "items": _STRING},
            workers=_array("Worker"),
        ),
        "DroppedWorker": _object(id=_STRING, returned=_INTEGER),
    }  # fmt: skip


def _server_schemas(counts: Schema) -> Schema:
    """Describe the server itself, and figures of the whole store."""
    return {
        "Stats": _partly(
            now=_TIME, tasks=counts, queues=_INTEGER, paused_queues=_INTEGER,
            oldest=_optional(_TIME),
            workers={"type": "object", "additionalProperties": _INTEGER},
            slots=_INTEGER, running=_INTEGER, last_event=_optional(_INTEGER),
            rates=_optional(_object(
                window=_NUMBER, per_minute={"type": "object", "additionalProperties": _NUMBER}
            )),
            history=_optional(_object(step=_NUMBER, points=_array("Figures"))),
        ),
        "Figures": _record(Figures, queue=_optional(_STRING)),
        "Clock": _object(now=_TIME, epoch=_NUMBER, last_event=_INTEGER, version=_STRING,
            store=_STRING),
        "Who": _object(name=_STRING, role=_STRING),
        "Opened": _object(name=_STRING, role=_STRING, page=_STRING),
        "Sessions": _object(sessions={"type": "array", "items": _object(
            id=_STRING, name=_STRING, role=_STRING, token=_optional(_STRING), since=_TIME,
            used=_TIME, address=_STRING, this={"type": "boolean"},
        )}),
        "Health": _object(status=_STRING),
    }  # fmt: skip
