"""The server itself: health, figures, the clock, sessions, and what explains it."""

from __future__ import annotations

from functools import cache
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from starlette.responses import JSONResponse, RedirectResponse, Response

from stayer import __version__
from stayer.core.errors import StoreError
from stayer.core.model import JSON
from stayer.core.units import rfc3339
from stayer.http import metrics, static
from stayer.http.problem import Problem
from stayer.http.route import JSON_MEDIA, Answer, Call
from stayer.http.session import Principal, by_token
from stayer.http.tokens import session_record
from stayer.service.late import late_tasks


async def healthz(call: Call) -> Response:
    """Says nothing of the store: a server whose store is away is not to be killed for it. Nor which
    version it is: anybody may ask.
    """
    return JSONResponse({"status": "ok"})


async def readyz(call: Call) -> Response:
    """Ask the store, in a thread that nobody else waits for. How long it took is for those with a
    token: /metrics has it.
    """
    await call.service.probe()
    return JSONResponse({"status": "ok"})


async def show_metrics(call: Call) -> Response:
    """Answer with figures for Prometheus. A store that does not answer is a figure too."""
    service, store = call.service, call.store
    lines = [*service.metrics.requests()]
    lines += metrics.samples(metrics.STREAMS, [((), service.streams.open)])
    up = 1
    try:
        latency = await service.probe()
        found = await service.call(
            lambda: (
                store.queues(), store.workers(), late_tasks(store), service.counter.count(),
                store.now(),
            )
        )  # fmt: skip
        lines += metrics.samples(metrics.LATENCY, [((), latency)])
        lines += metrics.of_store(*found)
    except StoreError:
        up = 0
    lines += metrics.samples(metrics.UP, [((), up)])
    return Response("\n".join(lines) + "\n", headers={"content-type": metrics.MEDIA})


def clock(call: Call) -> Answer:
    """Answer with the store's clock and the newest event, for programs that wait."""
    now = call.store.now()
    shown: dict[str, JSON] = {
        "now": rfc3339(now), "epoch": now, "last_event": call.store.last_event(),
        "version": __version__, "store": call.store.identity(),
    }  # fmt: skip
    return Answer(shown, headers={"cache-control": "no-store"})


class LoginBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What opens a session: the code of a login link, or a token."""

    code: Annotated[str, Meta(max_length=200)] | None = None
    token: Annotated[str, Meta(max_length=200)] | None = None


def login(call: Call) -> Response:
    """Swap a code or a token for a session."""
    body: LoginBody = call.body
    service = call.service
    service.access.refresh()  # both may have been made just now
    who: Principal | None = None
    if body.token is not None and (token := service.access.find(body.token)):
        who = by_token(token)
    elif body.code is not None and (role := service.access.take_code(body.code)):
        who = Principal("login link", role)
    if who is not None and who.queues:
        raise Problem(
            "forbidden",
            f"the token {who.name} is for some queues only, and so for programs: the page shows "
            "all, use another",
        )
    address = call.request.client.host if call.request.client else "unknown"
    if who is None:
        if wait := service.failures.count(address):
            raise Problem(
                "too-many-failures", "wait a minute, then use a new login link",
                {"retry-after": str(wait)},
            )  # fmt: skip
        raise Problem(
            "unauthorized",
            "this login link was used, or is too old: `stayer token link` makes another",
            {"www-authenticate": "Bearer"},
        )
    path = service.settings.root_path or "/"
    return service.sessions.begin(
        who, address, path=path, secure=call.request.url.scheme == "https"
    )


def whoami(call: Call) -> Answer:
    """Answer with who asks, and with which role."""
    assert call.who is not None
    shown: dict[str, JSON] = {"name": call.who.name, "role": call.who.role}
    return Answer(shown, headers={"cache-control": "no-store"})


def logout(call: Call) -> Response:
    """End the session."""
    assert call.who is not None
    response = Response(status_code=204)
    path = call.service.settings.root_path or "/"
    call.service.sessions.end(call.who, response, path=path)
    return response


def sessions(call: Call) -> Answer:
    """Answer with the sessions that are open."""
    assert call.who is not None
    access, mine = call.service.access, call.who.session
    access.refresh()
    shown: list[JSON] = [
        {**session_record(access, each), "this": each.id == mine} for each in access.sessions()
    ]
    return Answer({"sessions": shown}, headers={"cache-control": "no-store"})


def end_session(call: Call) -> Response:
    """End a session, and the streams that it has open."""
    id = call.path["session"]
    if not call.service.access.end_sessions([id]):
        raise Problem("unknown-session", f"there is no session {id!r}: GET /v1/sessions lists them")
    return Response(status_code=204)


def openapi(call: Call) -> Response:
    """Answer with the description of this API."""
    return _description(call.service.settings.root_path).answer(call.request)


@cache
def _description(root_path: str) -> static.Fixed:
    from stayer.http.openapi import describe

    return static.Fixed(msgspec.json.encode(describe(root_path)), JSON_MEDIA)


def docs(call: Call) -> Response:
    """Answer with the description of this API, for people."""
    return _page().answer(call.request)


@cache
def _page() -> static.Fixed:
    from stayer.http.docs import page

    return static.Fixed(page().encode(), "text/html; charset=utf-8")


def home(call: Call) -> Response:
    """Answer with the web page."""
    prefix = call.service.settings.root_path
    if prefix and call.request.scope["raw_path"].decode() == prefix:
        return RedirectResponse(f"{prefix}/", 307)  # so that relative links lead below it
    return static.UI.answer("index.html", call.request)


def login_page(call: Call) -> Response:
    """Answer with the page that a login link leads to."""
    return static.OWN.answer("login.html", call.request)


def asset(call: Call) -> Response:
    """Answer with a file of the web page."""
    return static.UI.answer(call.path["folder"], call.request)


def deep_asset(call: Call) -> Response:
    """Answer with a file of the web page, in a folder."""
    return static.UI.answer(f"{call.path['folder']}/{call.path['file']}", call.request)


def own_asset(call: Call) -> Response:
    """Answer with a file of the pages that explain and log in."""
    return static.OWN.answer(call.path["file"], call.request)
