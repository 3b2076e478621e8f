"""How the code asks a store what it is: by what every store says of itself, never by its class."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import stayer
from stayer.service.operator import LocalOperator
from stayer.store import Operator
from stayer.stores.remote.operator import RemoteOperator

SOURCE = Path(stayer.__file__).parent
VERBS = {name for name in vars(Operator) if not name.startswith("_")}
CONTROL = {"tasks": VERBS, "flows": {"cancel", "retry"}}
"""Which functions of `service.control` only whoever is at the database may call."""


def sources(*parts: str, but: str = "") -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.joinpath(*parts).rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not (but and name.startswith(but)):
            yield name, ast.parse(path.read_text())


def looks_at_a_class(call: ast.Call) -> bool:
    """Whether this call asks what kind of store something is."""
    match call:
        case ast.Call(func=ast.Name("isinstance" | "issubclass"), args=[_, kinds]):
            words = re.findall(r"\w+", ast.unparse(kinds))
            return any(word.endswith(("Store", "Operator")) for word in words)
        case ast.Call(
            func=ast.Name("hasattr" | "getattr"), args=[ast.Name() | ast.Attribute(), *_]
        ):
            return ast.unparse(call.args[0]).endswith("store")
        case _:
            return False


def local_verbs(tree: ast.Module) -> Iterator[ast.Attribute]:
    """Verbs that are asked of `service.control` itself, by whatever name it was imported."""
    names = {
        alias.asname or alias.name: CONTROL[alias.name]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "stayer.service.control"
        for alias in node.names
        if alias.name in CONTROL
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=verb) if verb in names.get(name, ()):
                yield node


@pytest.mark.parametrize(
    "written",
    [
        "isinstance(store, SqliteStore)",
        "isinstance(self.store, (int, redis.RedisStore))",
        "hasattr(store, 'submit_on')",
        "getattr(self._store, 'reach', None)",
    ],
)
def test_what_is_looked_for_is_seen(written: str) -> None:
    call = ast.parse(written).body[0]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    assert looks_at_a_class(call.value)


def test_no_code_outside_of_stores_asks_for_the_class_of_a_store() -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, tree in sources(but="stores/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and looks_at_a_class(node)
    ]
    assert not found


def test_doors_that_may_stand_before_a_server_leave_the_verbs_to_an_operator() -> None:
    found = [
        f"{name}:{node.lineno} {ast.unparse(node)}"
        for door in ("cli", "client")
        for name, tree in sources(door)
        for node in local_verbs(tree)
    ]
    assert not found


def test_both_operators_have_every_verb() -> None:
    assert VERBS
    for kind in (LocalOperator, RemoteOperator):
        assert set(vars(kind)) >= VERBS
