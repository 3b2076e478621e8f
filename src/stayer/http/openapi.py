"""The description of the API, made of the table of routes and of the records."""

from __future__ import annotations

from stayer.core import fields, limits
from stayer.http import problem
from stayer.http.openapi_schemas import REF, Schema, schemas, struct_schema, with_limits
from stayer.http.route import JSON_MEDIA, Route
from stayer.http.routes import GROUPS

_BY_NAME = fields.MOST | limits.SCHEDULE | limits.QUEUE
_ALWAYS = (400, 401, 403, 421, 429, 431, 500, 503)
_MEANING = {
    200: "Done.",
    201: "Accepted: this request made it.",
    202: "A part of it is done.",
    204: "Done.",
    307: "Elsewhere.",
}


def describe(prefix: str = "") -> Schema:
    """The OpenAPI document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Stayer",
            "version": "1",
            "description": "A job queue for work that takes minutes, hours or days. Words and "
            "records are those of `stayer … --json`. Errors are problem+json (RFC 9457), with what "
            "to do in `detail`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": prefix or "/"}],
        "tags": [{"name": name} for name in GROUPS],
        "paths": _paths(),
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {
                    "type": "apiKey", "in": "cookie", "name": "stayer-session",
                    "description": "Begun by POST /v1/session, which gives the cookie its name. "
                    "Every request needs the header X-Stayer-Request too, with the `page` of its "
                    "answer.",
                },
            },
        },
    }  # fmt: skip


def _paths() -> Schema:
    paths: Schema = {}
    for group, routes in GROUPS.items():
        for route in routes:
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(group, route)
    return paths


def _operation(group: str, route: Route) -> Schema:
    words = [part.strip("{}.") for part in route.path.split("/") if part and part != "v1"]
    operation: Schema = {
        "operationId": "_".join([route.method.lower(), *words]).replace(".", "_"),
        "tags": [group],
        "summary": route.summary,
        "parameters": [*_in_path(route), *_in_query(route)],
        "responses": _responses(route),
    }
    if route.role is None:
        operation["security"] = []
    else:
        operation["security"] = [{"token": []}, {"session": []}]
        operation["x-role"] = route.role
    if route.body is not None:
        operation["requestBody"] = {
            "required": route.body_needed,
            "content": {route.body_media: {"schema": _body(route)}},
        }
    return operation


def _in_path(route: Route) -> list[Schema]:
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    return [
        {
            "name": name, "in": "path", "required": True,
            "schema": {"type": "string", "minLength": 1},
        }
        for name in names
    ]  # fmt: skip


def _in_query(route: Route) -> list[Schema]:
    if route.query is None:
        return []
    return [
        _parameter(name, schema)
        for name, schema in struct_schema(route.query)["properties"].items()
    ]


def _parameter(name: str, schema: Schema) -> Schema:
    kinds = schema.get("anyOf", [schema])
    [kind] = [dict(each) for each in kinds if each.get("type") != "null"]
    if "default" in schema and schema["default"] not in (None, []):
        kind["default"] = schema["default"]
    else:
        kind.pop("default", None)
    description = kind.pop("description", schema.get("description", ""))
    return {"name": name, "in": "query", "schema": kind, "description": description}


def _body(route: Route) -> Schema:
    if route.body_schema is not None:
        return dict(route.body_schema)
    assert route.body is not None
    return with_limits(route.body, _BY_NAME)


def _responses(route: Route) -> Schema:
    answers: Schema = {}
    for status in route.status:
        answers[str(status)] = {"description": _MEANING[status]}
        if status not in (204, 307):
            answers[str(status)]["content"] = {
                media: _content(route, media) for media in route.media
            }
    for status in sorted({*route.problems, *_ALWAYS}):
        answers[str(status)] = {
            "description": "A problem.",
            "content": {problem.MEDIA: {"schema": {"$ref": f"{REF}Problem"}}},
        }
    return answers


def _content(route: Route, media: str) -> Schema:
    if media == JSON_MEDIA:
        return {"schema": {"$ref": f"{REF}{route.answer}"}}
    return {"schema": {"type": "string"}} if media.startswith("text/") else {}
