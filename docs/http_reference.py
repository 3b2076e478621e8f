"""Writes the reference of the HTTP API from its table of routes: `docs/reference/http.md`.

`python docs/http_reference.py` writes it, `--check` only says whether it is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from stayer.core import errors
from stayer.core.errors import StayerError
from stayer.http import problem
from stayer.http.openapi import describe
from stayer.http.route import Route
from stayer.http.routes import GROUPS

PAGE = Path(__file__).parent / "reference" / "http.md"

OPENING = """\
# HTTP

<!-- Written by docs/http_reference.py from the routes themselves. -->

What [`stayer serve`](../how-to/serve-over-http.md) answers. `/openapi.json` says the same for
programs (OpenAPI 3.1), `/docs` for people. The words are those of the command line and the
records those of [`--json`](json.md): a task is the same object in `show --json` and in `GET
/v1/tasks/{id}`. Bodies are JSON (`Content-Type: application/json`); ids in paths are
percent-encoded.

## Who may

Each request shows a token, `Authorization: Bearer stayer_…`, or is of a session: then it has the
cookie and the header `X-Stayer-Request` with the `page` that the login has answered. Roles:
`read`, `submit` (may also read), `operate` (may do everything but work), and apart from these
`work`: [the worker protocol](worker-protocol.md). The `Host` must be a name of the server's.
Header, body, connections and streams have
[limits](../how-to/serve-over-http.md#how-much-anybody-may-take).

## Lists

`{"tasks": […], "next": cursor}`: give `next` as `cursor` to go on; `null` is the end. `limit` is
100 unless said, at most 1,000, and less if the records are large (about 10 MB). Answers to GET
have an `ETag`: with `If-None-Match` what has not changed is 304, without a body. Large answers are
compressed for who accepts gzip.

## Streams

Server-sent events. `/v1/events` sends an event each, its number as `id`;
`/v1/tasks/{id}/log?follow` messages `log` (`attempt`, `start`, `text`), with an `id` to go on
from, and at last `end` with the record. Who reconnects with `Last-Event-ID` misses nothing. A
comment comes every 15 seconds if nothing else does.

"""


def problems() -> Iterator[str]:
    """What can go wrong."""
    yield "## Problems\n"
    yield (
        "Whatever goes wrong is `application/problem+json` (RFC 9457): `type` is one of these "
        f"after `{problem.URN}`,\n`detail` says what to do. 503 has `Retry-After`. "
        'With `"unsure": true` it may have been done all the same;\n'
        "`drawn` has the ids that were drawn for tasks of such a request: submitted again under "
        "these, none is there twice.\n"
    )
    yield "| status | type | what |"
    yield "|---|---|---|"
    kinds = {kind: (status, title) for kind, (status, title) in problem.KINDS.items()}
    known: list[type[StayerError]] = list(StayerError.__subclasses__())
    for each in known:
        known += each.__subclasses__()
        kinds[errors.kind(each)] = (problem.status_of(each), (each.__doc__ or "").splitlines()[0])
    for kind, (status, title) in sorted(kinds.items(), key=lambda entry: (entry[1][0], entry[0])):
        yield f"| {status} | `{kind}` | {title} |"
    yield ""


def section(route: Route) -> Iterator[str]:
    """One route."""
    api = describe()
    operation = api["paths"][route.path][route.method.lower()]
    yield f"### {route.method} {route.path}\n"
    yield f"{route.summary}\n"
    role = f"Role `{route.role}`." if route.role else "For anybody."
    statuses = ", ".join(str(status) for status in route.status)
    own = f" Problems of its own: {', '.join(map(str, route.problems))}." if route.problems else ""
    yield f"{role} Status {statuses}.{own}\n"
    asked = [each for each in operation["parameters"] if each["in"] == "query"]
    if asked:
        yield "| parameter | what |"
        yield "|---|---|"
        yield from (f"| `{each['name']}` | {each['description']} |" for each in asked)
        yield ""
    body = operation.get("requestBody")
    if body is not None:
        [(media, content)] = body["content"].items()
        if media != "application/json":
            what = "bytes, as they are" if route.role == "work" else "the bytes of the file"
            yield f"Body: {what}.\n"
            return
        schema = content["schema"]
        if route.role == "work" and "$ref" in schema:
            schema = api["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        if schema.get("properties") == {}:
            return
        properties = schema.get("properties") or schema.get("required")
        fields = ", ".join(f"`{name}`" for name in properties or ())
        yield f"Body: {fields or 'a task, an array of tasks, or `tasks` with an array'}.\n"


def page() -> str:
    """The whole page."""
    lines = [OPENING.rstrip("\n"), "", *problems()]
    for group, routes in GROUPS.items():
        lines.append(f"## {group}\n")
        for route in routes:
            lines += section(route)
    return "\n".join(lines).rstrip("\n") + "\n"


def main() -> int:
    """Write the page, or say that it is old."""
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
            print(f"{PAGE} is not up to date: run python docs/http_reference.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
