"""The description of the API against the API: what is generated from it must be understood, and
what comes back must be what it says.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from stayer.http.openapi import describe
from stayer.http.routes import ROUTES
from stayer.stores import open_store
from tests.contract.builders import new, register, started, submit
from tests.http.serving import Site, served_here

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
JSON_ONLY = ("/v1/events",)
"""Streams without end: asked for as JSON."""
DESCRIBED = [
    (method.upper(), path) for path, methods in describe()["paths"].items() for method in methods
]


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("schema")
    url = f"sqlite:///{folder}/stayer.db"
    store = open_store(url)
    store.setup()
    register(store)
    started(store, id="runs")
    submit(store, new("waits", parameters={"n": [1, None]}, command=("x",), env={"A": "b"}))
    store.close()
    with served_here(folder, url) as site:
        yield site


BOUNDED: dict[str, Any] = {
    "max_examples": 5, "deadline": None, "database": None, "derandomize": True,
    "suppress_health_check": list(HealthCheck),
}  # fmt: skip


@pytest.fixture(scope="module")
def api() -> Any:
    """Make the description ready for use: it takes seconds, so only where a test needs it."""
    return schemathesis.openapi.from_dict(describe())


@pytest.mark.parametrize(
    ("method", "path"), [pytest.param(*each, id=" ".join(each)) for each in DESCRIBED]
)
def test_every_route_keeps_what_its_description_says(
    method: str, path: str, api: Any, busy: Site
) -> None:
    @settings(**BOUNDED, phases=[Phase.generate])
    @given(case=api[path][method].as_strategy())
    def ask(case: Any) -> None:
        check(case, busy)

    ask()


def check(case: Any, busy: Site) -> None:
    """Make the request; its answer must be one that is described."""
    if case.path == "/v1/tasks/{id}/log":
        case.query = {name: value for name, value in case.query.items() if name != "follow"}
    if "wait" in (case.query or {}):
        case.query["wait"] = "10ms"
    headers = {"Authorization": f"Bearer {busy.tokens['operate']}"}
    if case.path in JSON_ONLY:
        headers["Accept"] = "application/json"
    case.call_and_validate(base_url=busy.url, headers=headers, checks=CHECKS, timeout=60)


def test_every_route_is_in_the_description() -> None:
    assert set(DESCRIBED) == {(route.method, route.path) for route in ROUTES}
    names = [
        operation["operationId"]
        for methods in describe()["paths"].values()
        for operation in methods.values()
    ]
    assert len(names) == len(set(names))
