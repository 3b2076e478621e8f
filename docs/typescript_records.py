"""Writes the records of the HTTP API as TypeScript, for `clients/js`, from the OpenAPI document.

`python docs/typescript_records.py` writes them, `--check` only says whether they are up to date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stayer.http.openapi import describe

FILE = Path(__file__).parents[1] / "clients" / "js" / "src" / "records.d.ts"
NAMES = {
    "Task": "What a task is, and how it stands.",
    "Submission": "What is submitted.",
    "Edits": "What is to be different; null stands for the default.",
    "AcceptedTask": "A task, and whether this submission made it.",
    "TaskWithHistory": "A task with its attempts and events.",
    "TaskPage": "A page of tasks.",
    "Attempt": "A try at a task.",
    "Event": "Something that happened to a task.",
    "Explanation": "Why a task waits, or what it does.",
    "Queue": "A queue with its counts.",
    "QueueDefaults": "What tasks of a queue have unless they say otherwise.",
    "Worker": "Who takes tasks.",
    "FlowSubmission": "What a flow.json says.",
    "Flow": "A flow: its parts, and how many tasks are in each state.",
    "AcceptedFlow": "A flow, and whether this submission made it.",
    "Sweep": "The runs of a sweep, to be compared.",
    "Problem": "What went wrong (RFC 9457).",
}
"""The records that the client's methods take and return. What these name is written too."""
_MOMENTS = ("since", "until")
"""Parameters that may be numbers, too: epoch seconds."""
_REF = "#/components/schemas/"
_PLAIN = {
    "string": "string", "integer": "number", "number": "number", "boolean": "boolean",
    "null": "null",
}  # fmt: skip

Schema = dict[str, Any]


def text() -> str:
    """Return what the file should hold."""
    document = describe()
    schemas = document["components"]["schemas"]
    wanted, declared = list(NAMES), {}
    while wanted:
        name = wanted.pop(0)
        if name not in declared:
            declared[name] = list(_declaration(name, schemas[name]))
            wanted += _named(schemas[name])
    lines = ["// Written by docs/typescript_records.py from the OpenAPI document.", ""]
    lines += ["/** Any JSON value. */"]
    lines += [
        "export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };"
    ]
    for name in (*NAMES, *sorted(set(declared) - set(NAMES))):
        lines += ["", *declared[name]]
    lines += ["", *_filter(document["paths"]["/v1/tasks"]["get"]["parameters"])]
    return "\n".join(lines) + "\n"


def _filter(parameters: list[Schema]) -> Iterator[str]:
    """Declare the query of a list of tasks; the client itself sees to cursors."""
    yield "/** Which tasks: the query of GET /v1/tasks. */"
    yield "export interface TaskFilter {"
    for each in parameters:
        if each["name"] == "cursor":
            continue
        kind = _type(each["schema"])
        if each["schema"].get("type") == "array":
            kind = "string | string[]"
        elif each["name"] in _MOMENTS:
            kind += " | number"
        if each.get("description"):
            yield f"  /** {each['description']} */"
        yield f"  {each['name']}?: {kind};"
    yield "  [other: string]: unknown;"
    yield "}"


def _named(schema: Any) -> list[str]:
    """Return the names of all schemas that this one names."""
    if isinstance(schema, list):
        return [name for each in schema for name in _named(each)]
    if not isinstance(schema, dict):
        return []
    found = [schema["$ref"].removeprefix(_REF)] if "$ref" in schema else []
    return found + [name for each in schema.values() for name in _named(each)]


def _declaration(name: str, schema: Schema) -> Iterator[str]:
    if name in NAMES:
        yield f"/** {NAMES[name]} */"
    if schema.get("type") == "object" and "properties" in schema:
        yield f"export interface {name} {{"
        yield from _properties(schema)
        yield "}"
    else:
        yield f"export type {name} = {_type(schema)};"


def _properties(schema: Schema) -> Iterator[str]:
    required = {*schema.get("required", ())}
    for name, each in schema["properties"].items():
        if "description" in each:
            yield f"  /** {each['description']} */"
        yield f"  {name}{'' if name in required else '?'}: {_type(each)};"


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].removeprefix(_REF))
    if "const" in schema or "enum" in schema:
        return " | ".join(map(json.dumps, schema.get("enum", [schema.get("const")])))
    for key, between in (("anyOf", " | "), ("oneOf", " | "), ("allOf", " & ")):
        if key in schema:
            return between.join(dict.fromkeys(map(_type, schema[key])))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_PLAIN[each] for each in kind)
    if kind == "array":
        inner = _type(schema.get("items") or {})
        return f"({inner})[]" if " " in inner else f"{inner}[]"
    if kind == "object":
        if "properties" in schema:
            return "{ " + " ".join(line.strip() for line in _properties(schema)) + " }"
        values = schema.get("additionalProperties")
        return f"{{ [key: string]: {_type(values) if isinstance(values, dict) else 'Json'} }}"
    return _PLAIN.get(kind, "Json") if isinstance(kind, str) else "Json"


def main() -> None:
    """Write the file, or check it."""
    fresh = text()
    if "--check" not in sys.argv:
        FILE.write_text(fresh)
    elif FILE.read_text() != fresh:
        sys.exit(
            "clients/js/src/records.d.ts is out of date: run python docs/typescript_records.py"
        )


if __name__ == "__main__":
    main()
