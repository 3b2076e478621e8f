"""Every route × every role: who may do what, and that nobody may do anything without a token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.http.openapi import describe
from stayer.http.route import JSON_MEDIA, Route
from stayer.http.routes import ROUTES
from stayer.http.token_records import ROLES, Role, may
from stayer.stores import open_store
from tests.contract.builders import new, submit
from tests.http.serving import Site, served_here

STREAMS = ("/v1/events",)
"""Without an end: asked for as JSON here."""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server with something in it; what roles may do does not depend on it."""
    folder: Path = tmp_path_factory.mktemp("roles")
    url = f"sqlite:///{folder}/stayer.db"
    store = open_store(url)
    store.setup()
    submit(store, new("there"))
    store.close()
    with served_here(folder, url) as site:
        yield site


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def target(route: Route) -> str:
    return route.path.format(
        id="there",
        name="q",
        schedule="none",
        session="none",
        file="none",
        folder="none",
        sha256="0" * 64,
        worker="w",
    )


@pytest.mark.parametrize("route", [route for route in ROUTES if route.role], ids=name_of)
@pytest.mark.parametrize("role", [None, *ROLES])
def test_each_role_may_do_just_what_it_may(busy: Site, route: Route, role: Role | None) -> None:
    assert route.role is not None
    headers = {"Accept": JSON_MEDIA} if route.path in STREAMS else {}

    reply = busy(route.method, target(route), {} if route.body else None, role=role, **headers)

    if role is None:
        reply.is_problem(401, "unauthorized", "token")
        assert reply.headers["www-authenticate"] == "Bearer"
    elif not may(role, route.role):
        reply.is_problem(403, "forbidden", f"needs {route.role}")
    else:
        assert reply.status not in (401, 403, 500), reply


@pytest.mark.parametrize("route", [route for route in ROUTES if not route.role], ids=name_of)
def test_what_is_for_anybody_needs_no_token(busy: Site, route: Route) -> None:
    body = {"code": "wrong"} if route.body else None
    status = busy(route.method, target(route), body, role=None).status
    assert status == 401 if body else status in (200, 307, 404)


def test_only_these_are_for_anybody() -> None:
    """A new route that forgot its role would be here."""
    assert {name_of(route) for route in ROUTES if route.role is None} == {
        "POST /v1/session", "GET /healthz", "GET /readyz", "GET /openapi.json", "GET /docs",
        "GET /", "GET /login", "GET /assets/{file}", "GET /ui/{folder}", "GET /ui/{folder}/{file}",
    }  # fmt: skip


SESSIONS = ("POST /v1/session", "DELETE /v1/session")


@pytest.mark.parametrize("route", ROUTES, ids=name_of)
def test_no_change_is_made_by_reading(route: Route) -> None:
    if name_of(route) == "GET /v1/sessions":
        assert not route.changes  # who has logged in is for those who may end it
    elif route.role in ("submit", "operate") or name_of(route) in SESSIONS:
        assert route.method != "GET"
        assert route.changes  # and so it is in the audit log
    else:
        assert not route.changes


@pytest.mark.parametrize("route", ROUTES, ids=name_of)
def test_every_route_is_described(route: Route) -> None:
    api = describe()
    operation = api["paths"][route.path][route.method.lower()]
    schemas = api["components"]["schemas"]

    assert operation.get("x-role") == route.role
    assert (route.run is None) != (route.wait is None)
    assert (route.answer is not None) == (JSON_MEDIA in route.media and route.status != (204,))
    assert route.answer is None or route.answer in schemas
    assert {str(status) for status in route.status} <= set(operation["responses"])


@pytest.mark.parametrize("secret", ["", "stayer_wrong", "Bearer", "ü", "x" * 5000])
def test_a_wrong_token_opens_nothing(busy: Site, secret: str) -> None:
    shown = f"Bearer {secret}".encode().decode("latin-1")
    busy("GET", "/v1/clock", role=None, Authorization=shown).is_problem(401, "unauthorized")
    basic = busy("GET", "/v1/clock", role=None, Authorization=f"Basic {busy.tokens['read']}")
    basic.is_problem(401, "unauthorized")


def test_a_token_that_is_removed_opens_nothing_any_more(busy: Site) -> None:
    secret = busy.access.add("for a while", "read")
    shown = f"Bearer {secret}"
    assert busy("GET", "/v1/clock", role=None, Authorization=shown).status == 200

    busy.access.remove("for a while")

    busy("GET", "/v1/clock", role=None, Authorization=shown).is_problem(401, "unauthorized")
