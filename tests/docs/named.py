"""What pages name in passing, looked up in the software itself."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from urllib.parse import parse_qsl

import click

import stayer
from stayer.cli.main import cli
from stayer.client.submit import Options
from stayer.core.model import Task
from stayer.http.route import Found, Routes
from stayer.http.routes import ROUTES
from tests.docs.pages import text

_COMMAND = re.compile(
    r"`(?:/opt/[\w/-]+/)?stayer ([a-z][^`]*)`|^\s*\$ (?:/\S+/)?stayer (.*)$", re.M
)
_ROUTES = Routes(ROUTES)


def commands(page: str) -> list[list[str]]:
    """Return the words of each command of ours that a page names."""
    found = (one or other for one, other in _COMMAND.findall(text(page)))
    return [shlex.split(each.replace("…", "")) for each in found]


def look_up_command(words: list[str]) -> tuple[click.Command, list[str]]:
    """Find a command in the tree, and the words that are left for it; its options are there."""
    command: click.Command | None = cli
    rest = words
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        command = command.get_command(None, rest[0])  # type: ignore[arg-type]
        rest = rest[1:]
    assert command is not None, words
    known = {option for each in command.params for option in (*each.opts, "--store")}
    given = rest[: rest.index("--")] if "--" in rest else rest
    unknown = {
        word for word in given if re.fullmatch(r"-[a-z]|--[a-z-]+", word) and word not in known
    }
    assert not unknown, words
    return command, rest


def look_up_python(code: str) -> None:
    """Find a public name, or an attribute of one; if it is called, it takes these arguments."""
    tree = ast.parse(code, mode="eval").body
    call = tree if isinstance(tree, ast.Call) else None
    named = ast.unparse(call.func if call else tree)
    name, _, attribute = named.partition(".")
    assert name in stayer.__all__, code
    found = getattr(stayer, name)
    if attribute and not (name == "TaskHandle" and attribute in Task.__struct_fields__):
        assert attribute in {*dir(found), *getattr(found, "__annotations__", ())}, code
        found = inspect.getattr_static(found, attribute, None)
    if call is not None:
        assert callable(found), code
        signature = inspect.signature(found)
        places = [None] * (len(call.args) + bool(attribute))
        words = {word.arg: None for word in call.keywords if word.arg}
        bound = signature.bind(*places, **words)
        further = next(
            (each.name for each in signature.parameters.values() if each.kind is each.VAR_KEYWORD),
            None,
        )
        known = {*Options.__optional_keys__, "limit", "key_limit", "key_limits", "rate", "fair"}
        assert {*bound.arguments.get(further or "", ())} <= known, code


def look_up_route(request: str) -> None:
    """Find a route by its method and path, and its query parameters."""
    method, _, target = request.partition(" ")
    path, _, query = target.partition("?")
    found = _ROUTES.find(method, path)
    assert isinstance(found, Found), request
    assert found.route.path == path, request
    known = found.route.query.__struct_encode_fields__ if found.route.query else ()
    assert {name for name, _ in parse_qsl(query)} <= {*known}, request


def rows(page: str) -> Iterator[tuple[str, str]]:
    """Yield the first and the last cell of each row of the tables of a page."""
    for line in text(page).splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            yield cells[0], cells[-1]


def spans(cell: str) -> list[str]:
    """Return what is set as code."""
    return re.findall(r"`([^`]+)`", cell)
