"""The page that explains the API, made of its description: plain HTML, nothing from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any

import msgspec

from stayer.http.openapi import describe

Schema = dict[str, Any]


def page() -> str:
    """Make the page: all routes by group, then all records."""
    api = describe()
    info = api["info"]
    parts = [
        "<!doctype html>",
        '<html lang="en"><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<title>Stayer: HTTP API</title>",
        '<link rel="stylesheet" href="assets/plain.css">',
        "<main>",
        "<h1>Stayer: HTTP API</h1>",
        f"<p>{_mark_code(info['description'])}</p>",
        '<p>For programs: <a href="openapi.json">openapi.json</a>.</p>',
    ]
    for tag in api["tags"]:
        parts.append(f"<h2>{escape(tag['name'])}</h2>")
        parts += [
            _operation(method.upper(), path, operation)
            for path, methods in api["paths"].items()
            for method, operation in methods.items()
            if operation["tags"] == [tag["name"]]
        ]
    parts.append("<h2>Records</h2>")
    for name, schema in api["components"]["schemas"].items():
        parts.append(
            f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>'
            f"{_json(schema)}</details>"
        )
    return "\n".join((*parts, "</main></html>", ""))


def _mark_code(text: str) -> str:
    """Mark what is in backticks as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if n % 2 else part for n, part in enumerate(parts))


def _operation(method: str, path: str, operation: Schema) -> str:
    role = operation.get("x-role", "anybody")
    body = operation.get("requestBody")
    parts = [
        f'<details id="{escape(operation["operationId"])}"><summary>'
        f'<span class="role">{escape(role)}</span><span class="method">{method}</span> '
        f"<code>{escape(path)}</code><br>{_mark_code(operation['summary'])}</summary>",
        _parameters(operation["parameters"]),
    ]
    if body is not None:
        schema = next(iter(body["content"].values()))["schema"]
        parts.append(f"<h3>Body</h3>{_shape(schema)}")
    parts.append(f"<h3>Answers</h3>{_answers(operation['responses'])}</details>")
    return "\n".join(parts)


def _parameters(parameters: list[Schema]) -> str:
    if not parameters:
        return ""
    rows = "".join(
        f"<tr><td><code>{escape(each['name'])}</code></td><td>{escape(each['in'])}</td>"
        f"<td>{_mark_code(each.get('description', ''))}</td></tr>"
        for each in parameters
    )
    return f"<table><tr><th>parameter</th><th>in</th><th>what</th></tr>{rows}</table>"


def _answers(responses: Schema) -> str:
    rows = "".join(
        f"<tr><td>{escape(status)}</td><td>{_mark_code(answer['description'])}</td>"
        f"<td>{_medias(answer.get('content', {}))}</td></tr>"
        for status, answer in responses.items()
    )
    return f"<table>{rows}</table>"


def _medias(content: Schema) -> str:
    medias = []
    for media, inside in content.items():
        reference = inside.get("schema", {}).get("$ref", "").rpartition("/")[2]
        link = f' <a href="#{escape(reference)}">{escape(reference)}</a>' if reference else ""
        medias.append(f"<code>{escape(media)}</code>{link}")
    return "<br>".join(medias)


def _shape(schema: Schema) -> str:
    if reference := schema.get("$ref", "").rpartition("/")[2]:
        return f'<p><a href="#{escape(reference)}">{escape(reference)}</a></p>'
    return _json(schema)


def _json(schema: Schema) -> str:
    text = msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()
    return f"<pre>{escape(text)}</pre>"
