"""The way in: every request passes here. Host, prefix, who it is, role, body, then its route; and
on the way out the headers that every answer has, the figures, and the line in the audit log.
"""

from __future__ import annotations

import hashlib
import logging
import time
from ipaddress import ip_address
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from stayer.core.errors import StayerError
from stayer.core.units import format_size
from stayer.http import problem
from stayer.http.access import may
from stayer.http.confine import confined
from stayer.http.problem import Problem
from stayer.http.route import (
    JSON_MEDIA,
    Answer,
    Call,
    Found,
    Outcome,
    Routes,
    read_body,
    read_query,
)
from stayer.http.routes import ROUTES
from stayer.http.service import Service
from stayer.http.session import Principal, by_token

logger = logging.getLogger(__name__)

WRITES = "x-stayer-request"
"""A page of another origin can't send this header: a write by cookie needs it."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_DRAINED = 64_000_000
"""How much of a body that is too large is read and thrown away, in bytes."""
_SAFE = ("GET", "HEAD")
_LOCAL = ("localhost", "127.0.0.1", "::1")
_encode = msgspec.json.Encoder().encode


class _Passage(Struct):
    """What is learned of a request on its way."""

    route: str = "none"
    timed: bool = True
    who: Principal | None = None
    changes: bool = False
    status: int = 0


class Gate:
    """The server as an ASGI application."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._routes = Routes(ROUTES)
        settings = service.settings
        self._prefix = settings.root_path
        self._hosts = {*_LOCAL, settings.host.lower(), *map(str.lower, settings.host_names)}
        self._everywhere = settings.host in ("0.0.0.0", "::", "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection's request, or the beginning and end of the server."""
        if scope["type"] == "lifespan":
            await _live(receive, send, self.service)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        begun = time.perf_counter()
        passage = _Passage()

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                passage.status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        request = Request(scope, receive)
        try:
            response = await self._answered(request, passage)
            await response(scope, receive, dressed)
        except ClientDisconnect:
            passage.status = passage.status or 499
        finally:
            taken = time.perf_counter() - begun
            self.service.metrics.count(
                scope["method"] if passage.route != "none" else "any",
                passage.route, passage.status, taken, passage.timed,
            )  # fmt: skip
            if passage.changes:
                self._write_down(request, passage)

    async def _answered(self, request: Request, passage: _Passage) -> Response:
        try:
            return await self._respond(request, passage)
        except (Problem, StayerError) as error:
            return problem.response(error)
        except ClientDisconnect:
            raise
        except Exception:
            logger.exception("%s %s", request.method, request.scope["raw_path"])
            return problem.response(
                Problem("defect", "it is in the server's log: please report it with that")
            )

    async def _respond(self, request: Request, passage: _Passage) -> Response:
        self._check_host(request)
        found = self._found(request)
        route = found.route
        passage.route, passage.timed = route.path, route.timed
        passage.changes = route.changes
        who = self._let_in(request, found, passage)
        query = read_query(route.query, request.scope["query_string"])
        if who is not None and who.queues:
            query = await confined(self.service, who, found, query)
        body = None
        if request.method not in _SAFE:
            body = read_body(route.body, await self._body(request))
        call = Call(self.service, request, who, found.path, query, body)
        outcome: Outcome
        if route.wait is not None:
            outcome = await route.wait(call)
        else:
            assert route.run is not None
            outcome = await self.service.call(route.run, call)
        return outcome if isinstance(outcome, Response) else _json(request, outcome)

    def _check_host(self, request: Request) -> None:
        """Whether the browser means us: a name that somebody let point here is none of ours."""
        host = _host_name(request.headers.get("host", ""))
        if host in self._hosts or (self._everywhere and _is_address(host)):
            return
        raise Problem(
            "misdirected",
            f"this server does not go by the name {host!r}: use another URL, or start it with "
            f"--host-name {host or 'NAME'}",
        )

    def _found(self, request: Request) -> Found:
        raw: bytes = request.scope["raw_path"]
        path = raw.decode("ascii", "replace")
        if self._prefix and (path == self._prefix or path.startswith(f"{self._prefix}/")):
            path = path[len(self._prefix) :] or "/"
        found = self._routes.find(request.method, path)
        if isinstance(found, Found):
            return found
        if found:
            allowed = ", ".join(sorted({*found, *(["HEAD"] if "GET" in found else [])}))
            raise Problem(
                "method-not-allowed", f"use one of {allowed}; /docs says what for",
                {"allow": allowed},
            )  # fmt: skip
        raise Problem("unknown-path", "/docs lists what there is")

    def _let_in(self, request: Request, found: Found, passage: _Passage) -> Principal | None:
        """Who asks, if the role is enough."""
        needed = found.route.role
        if needed is None:
            return None
        who = passage.who = self._known(request)  # also of one that is refused
        if not may(who.role, needed):
            raise Problem(
                "forbidden",
                f"{who.name} has the role {who.role}, this needs {needed}: use another token",
            )
        if who.by_cookie and request.method not in _SAFE:
            self._refuse_foreign(request)
        return who

    def _known(self, request: Request) -> Principal:
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme:
            token = self.service.access.find(secret.strip()) if scheme.lower() == "bearer" else None
            if token is not None:
                return by_token(token)
            raise self._unknown(request, "this token opens nothing: make one with `stayer token`")
        cookie = request.cookies.get(self.service.sessions.cookie)
        if cookie is None:
            raise Problem("unauthorized", _HOW, {"www-authenticate": "Bearer"})
        who = self.service.sessions.read(cookie)
        if who is None:
            raise self._unknown(request, "this session is over: use a login link, or a token")
        return who

    def _unknown(self, request: Request, detail: str) -> Problem:
        if wait := self.service.failures.count(_address(request)):
            return Problem(
                "too-many-failures", "wait a minute, then use the right token",
                {"retry-after": str(wait)},
            )  # fmt: skip
        return Problem("unauthorized", detail, {"www-authenticate": "Bearer"})

    @staticmethod
    def _refuse_foreign(request: Request) -> None:
        """A browser sends the cookie along whoever made it ask; the header only for us."""
        origin = request.headers.get("origin")
        ours = _host_name(request.headers.get("host", ""))
        foreign = origin is not None and urlsplit(origin).hostname != ours
        if foreign or not request.headers.get(WRITES):
            raise Problem(
                "forbidden", f"a change by cookie needs the header {WRITES}: 1, and our own page"
            )

    async def _body(self, request: Request) -> bytes:
        limit = self.service.settings.body_limit
        body = bytearray()
        received = 0
        more = True
        while more:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            piece, more = message.get("body", b""), message.get("more_body", False)
            received += len(piece)
            if received <= limit:
                body += piece
            elif received > limit + _DRAINED:
                break  # most who send too much hear why; who sends without end does not
        if received > limit:
            raise Problem(
                "body-too-large", f"the limit is {format_size(limit)}: send less at a time",
                {"connection": "close"},
            )  # fmt: skip
        if body:
            media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if media != JSON_MEDIA or "content-encoding" in request.headers:
                raise Problem("not-json", f"send JSON, with Content-Type: {JSON_MEDIA}")
        return bytes(body)

    def _write_down(self, request: Request, passage: _Passage) -> None:
        """Who did what, when, from where, and whether it was done."""
        who = passage.who
        target = request.scope["raw_path"].decode("ascii", "replace")
        if query := request.scope["query_string"].decode("ascii", "replace"):
            target += f"?{query}"
        self.service.audit.note(
            **{
                "who": who.name if who else None,
                "role": who.role if who else None,
                "by": ("session" if who.by_cookie else "token") if who else None,
                "from": _address(request),
                "did": f"{request.method} {target}",
                "status": passage.status,
            }
        )


_HOW = (
    "show a token (Authorization: Bearer …, made by `stayer token add`), or use the login link "
    "that `stayer serve` prints"
)


def _json(request: Request, outcome: object) -> Response:
    """An answer of JSON; what was read may be asked for again by its tag."""
    answer = outcome if isinstance(outcome, Answer) else Answer(outcome)  # type: ignore[arg-type]
    content = _encode(answer.content)
    headers = dict(answer.headers or {})
    if request.method in _SAFE and answer.status == 200:
        tag = f'W/"{hashlib.blake2b(content, digest_size=9).hexdigest()}"'
        headers.update({"etag": tag, "cache-control": "private, no-cache"})
        asked = request.headers.get("if-none-match", "")
        if asked and tag.removeprefix("W/") in asked:
            return Response(status_code=304, headers=headers)
    else:
        headers.setdefault("cache-control", "no-store")
    return Response(content, answer.status, headers=headers, media_type=JSON_MEDIA)


def _host_name(header: str) -> str:
    """`example.org:8787` → `example.org`, `[::1]:8787` → `::1`."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    name, _, port = header.partition(":")
    return name.lower().removesuffix(".") if not port or port.isdecimal() else ""


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"


async def _live(receive: Receive, send: Send, service: Service) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            service.start()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            service.close()
            await send({"type": "lifespan.shutdown.complete"})
            return
