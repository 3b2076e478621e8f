"""The way in: every request passes here. Host, prefix, who it is, role, body, then its route; and
on the way out the headers that every answer has, the figures, and the line in the audit log.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from stayer.core.errors import BadConfig, BadInput, StayerError
from stayer.core.units import format_size
from stayer.http import problem
from stayer.http.problem import Problem
from stayer.http.route import (
    INLINE_BODY_BYTES,
    JSON_MEDIA,
    SESSION,
    Answer,
    Call,
    Found,
    Headers,
    Outcome,
    Route,
    Routes,
    read_body,
    read_query,
)
from stayer.http.scopes import confine
from stayer.http.service import Service
from stayer.http.session import PAGE_HEADER, Opened, Principal, by_token
from stayer.http.token_records import may

logger = logging.getLogger(__name__)

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
_SECURE_HEADERS = [*_HEADERS, (b"strict-transport-security", b"max-age=31536000")]
_DISCARDED_BYTES = 64_000_000
_DISCARDED_BYTES_UNKNOWN = 1_000_000
"""How much of a body that is too large is read and thrown away, in bytes; the second is for those
who are not known.
"""
_SAFE = ("GET", "HEAD")
_PORTS = {"http": 80, "https": 443}
"""Which browsers leave out."""
_LOCAL = ("localhost", "127.0.0.1", "::1")
_MEDIA = (b"content-type", JSON_MEDIA.encode())
_NO_STORE = (b"cache-control", b"no-store")
_encode = msgspec.json.Encoder().encode


class _Passage(Struct):
    """What is learned of a request on its way."""

    headers: list[tuple[bytes, bytes]]
    """That every answer has."""
    route: str = "none"
    timed: bool = True
    who: Principal | None = None
    changes: bool = False
    status: int = 0


class Gate:
    """The server as an ASGI application."""

    def __init__(self, service: Service, routes: tuple[Route, ...]) -> None:
        self.service = service
        self._routes = Routes(routes)
        settings = service.settings
        self._prefix = settings.root_path
        self._hosts = {*_LOCAL, settings.host.lower(), *map(str.lower, settings.host_names)}
        self._everywhere = settings.host in ("0.0.0.0", "::", "")
        self._is_ours = lru_cache(maxsize=256)(self._goes_by)
        self._let_in_now: dict[bytes, Principal] = {}
        """Whose tokens were found good in this turn of the loop, by the header that showed them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or the beginning and end of the server."""
        if scope["type"] == "lifespan":
            await _live(receive, send, self.service)
            return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        began_at = time.perf_counter()
        headers = dict(reversed(scope["headers"]))  # of those that come twice, the first counts
        passage = _Passage(self._own_headers(headers))
        try:
            outcome = await self._answer_or_problem(scope, headers, receive, passage)
            if isinstance(outcome, Response):
                await outcome(scope, receive, _with_headers(send, passage))
            else:
                passage.status = outcome.status
                await _send_answer(outcome, send, passage.headers)
        except ClientDisconnect:
            passage.status = passage.status or 499
        finally:
            taken = time.perf_counter() - began_at
            self.service.metrics.count(
                scope["method"] if passage.route != "none" else "any",
                passage.route, passage.status, taken, passage.timed,
            )  # fmt: skip
            if passage.changes:
                self._write_down(scope, passage)

    async def _answer_or_problem(
        self, scope: Scope, headers: Headers, receive: Receive, passage: _Passage
    ) -> Response | JsonAnswer:
        try:
            return await self._respond(scope, headers, receive, passage)
        except (Problem, StayerError) as error:
            if isinstance(error, BadConfig):  # what to do about it is for who runs the server
                logger.error("%s", error)
            return problem.response(error, self.service.store.url)
        except ClientDisconnect:
            raise
        except RecursionError:  # only what was sent can be as deep as that
            logger.warning("%s %s: nested too deeply", scope["method"], scope["raw_path"])
            return problem.response(BadInput("the body is nested too deeply: make it flatter"))
        except Exception:
            logger.exception("%s %s", scope["method"], scope["raw_path"])
            return problem.response(
                Problem("defect", "it is in the server's log: please report it with that")
            )

    async def _respond(
        self, scope: Scope, headers: Headers, receive: Receive, passage: _Passage
    ) -> Response | JsonAnswer:
        self._check_host(scope, headers)
        found = self._find_route(scope)
        route = found.route
        passage.route, passage.timed, passage.changes = route.path, route.is_timed, route.changes
        who = await self._let_in(scope, headers, found, passage)
        query = read_query(route.query, scope["query_string"])
        if who is not None and who.queues:
            query = await confine(self.service, who, found, query)
        call = Call(self.service, scope, headers, who, found.path, query, None, receive)
        if scope["method"] in _SAFE:
            return await self._outcome(call, route, passage)
        with self.service.bodies.hold("" if who is None else who.account) as hold:
            raw = await self._body(headers, receive, route, who, hold)
            if route.body_needed and route.body_media == JSON_MEDIA and not raw.strip():
                raise BadInput("the body is empty: send JSON, as /docs says")
            body = await self._read(call, route, raw)
            return await self._outcome(call._replace(body=body), route, passage)

    async def _read(self, call: Call, route: Route, raw: bytes) -> Any:
        limit = self.service.settings.limits.values
        if route.body_media != JSON_MEDIA:
            return raw
        if len(raw) > limit and sum(map(raw.count, (b",", b"[", b"{"))) > limit:
            raise Problem(
                "body-too-large", f"it has more than {limit:,} values: send less at a time"
            )
        if len(raw) <= INLINE_BODY_BYTES or route.body is bytes:
            return read_body(route.body, raw)
        return await call.ask(read_body, route.body, raw)

    async def _outcome(self, call: Call, route: Route, passage: _Passage) -> Response | JsonAnswer:
        outcome: Outcome
        if route.wait is not None:
            outcome = await route.wait(call)
        else:
            assert route.run is not None
            outcome = await call.ask(route.run, call)
        if isinstance(outcome, Opened):
            passage.who = outcome.who
        if isinstance(outcome, Response):
            return outcome
        return _encode_answer(call.scope, call.headers, outcome)

    def _own_headers(self, headers: Headers) -> list[tuple[bytes, bytes]]:
        """What every answer has. Names of the machine itself are shared with other servers: https
        is not demanded of them.
        """
        if self.service.settings.certificate is None:
            return _HEADERS
        host = _host_name(headers.get(b"host", b""))
        return _HEADERS if host in _LOCAL or _is_address(host) else _SECURE_HEADERS

    def _check_host(self, scope: Scope, headers: Headers) -> None:
        """Refuse a host name that is not ours: anybody can let a name point here."""
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            raise Problem("bad-request", "there are two Host headers: send one")
        host_header = headers.get(b"host", b"")
        if self._is_ours(host_header):
            return
        host = _host_name(host_header)
        raise Problem(
            "misdirected",
            f"this server does not go by the name {host!r}: use another URL, or start it with "
            f"--host-name {host or 'NAME'}",
        )

    def _goes_by(self, header: bytes) -> bool:
        host = _host_name(header)
        return host in self._hosts or (self._everywhere and _is_address(host))

    def _find_route(self, scope: Scope) -> Found:
        raw: bytes = scope["raw_path"]
        path = raw.decode("ascii", "replace")
        if self._prefix and (path == self._prefix or path.startswith(f"{self._prefix}/")):
            path = path[len(self._prefix) :] or "/"
        found = self._routes.find(scope["method"], path)
        if isinstance(found, Found):
            return found
        if found:
            allowed = ", ".join(sorted({*found, *(["HEAD"] if "GET" in found else [])}))
            raise Problem(
                "method-not-allowed", f"use one of {allowed}; /docs says what for",
                {"allow": allowed},
            )  # fmt: skip
        raise Problem("unknown-path", "/docs lists what there is")

    async def _let_in(
        self, scope: Scope, headers: Headers, found: Found, passage: _Passage
    ) -> Principal | None:
        """Return who asks; raise Problem if the role is not enough."""
        needed = found.route.role
        if needed is None:
            return None
        who = self._authenticate(scope, headers)
        if who is None:
            await self.service.look_again_at_tokens()
            who = self._authenticate(scope, headers)
        if who is None:
            raise self._unauthorized(
                scope,
                "this session is over: use a login link, or a token"
                if b"authorization" not in headers
                else "this token opens nothing here, or has expired: make one with `stayer token "
                "add` where the server was started",
            )
        passage.who = who  # also of one that is refused
        if not may(who.role, needed):
            raise Problem(
                "forbidden",
                f"{who.name} has the role {who.role}, this needs {needed}: use another token",
            )
        if who.session is not None and scope["method"] not in _SAFE:
            _refuse_foreign(headers)
        return who

    def _authenticate(self, scope: Scope, headers: Headers) -> Principal | None:
        """Return whose token or session this is, as far as that is known; raise Problem if neither
        is shown.
        """
        shown = headers.get(b"authorization", b"")
        if (known := self._let_in_now.get(shown)) is not None:
            return known
        scheme, _, secret = shown.decode("latin-1").partition(" ")
        if not scheme:
            return self._by_cookie(scope, headers)
        token = self.service.access.find(secret.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            return None
        if not self._let_in_now:  # the next turn asks again: a token may be removed at any time
            asyncio.get_running_loop().call_soon(self._let_in_now.clear)
        who = self._let_in_now[shown] = by_token(token)
        self.service.access.note_use(who.key)
        return who

    def _by_cookie(self, scope: Scope, headers: Headers) -> Principal | None:
        cookie = Request(scope).cookies.get(self.service.sessions.cookie)
        if cookie is None and b"cookie" in headers and not self.service.access.key:
            return None  # the first session was opened at another server: that made the name
        if cookie is None:
            raise Problem("unauthorized", _HOW, {"www-authenticate": "Bearer"})
        page = headers.get(PAGE_HEADER)
        if page is None:  # a link to the API, say: nobody guesses anything by that
            raise Problem(
                "unauthorized",
                f"a cookie alone opens nothing: the page sends {PAGE_HEADER.decode()} too",
                {"www-authenticate": "Bearer"},
            )
        return self.service.sessions.read(cookie, page)

    def _unauthorized(self, scope: Scope, detail: str) -> Problem:
        if wait := self.service.failures.count(_address(scope)):
            return Problem(
                "too-many-failures", "wait a minute, then use the right token",
                {"retry-after": str(wait)},
            )  # fmt: skip
        return Problem("unauthorized", detail, {"www-authenticate": "Bearer"})

    async def _body(
        self,
        headers: Headers,
        receive: Receive,
        route: Route,
        who: Principal | None,
        hold: Callable[[int], None],
    ) -> bytes:
        message = await receive()
        body: bytes = message.get("body", b"")
        limit = self.service.settings.body_limit
        if route.path == SESSION:
            limit = min(limit, self.service.settings.limits.login_body)
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        if message.get("more_body", False) or len(body) > limit:
            body = await self._read_rest(message, receive, limit, who, hold)
        if route.body_media != JSON_MEDIA:
            return body
        if body and (not _is_json(headers.get(b"content-type")) or b"content-encoding" in headers):
            raise Problem("not-json", f"send JSON, with Content-Type: {JSON_MEDIA}")
        return body

    async def _read_rest(
        self,
        message: Message,
        receive: Receive,
        limit: int,
        who: Principal | None,
        hold: Callable[[int], None],
    ) -> bytes:
        """Read a body that comes in pieces, or is too large."""
        body = bytearray()
        received = 0
        most = limit + (_DISCARDED_BYTES if who else _DISCARDED_BYTES_UNKNOWN)
        while True:
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            piece = message.get("body", b"")
            received += len(piece)
            if received <= limit:
                hold(len(piece))
                body += piece
            else:
                body.clear()
            # Most who send too much hear why; who sends without end does not.
            if not message.get("more_body", False) or received > most:
                break
            message = await receive()
        if received > limit:
            raise Problem(
                "body-too-large", f"the limit is {format_size(limit)}: send less at a time",
                {"connection": "close"},
            )  # fmt: skip
        return bytes(body)

    def _write_down(self, scope: Scope, passage: _Passage) -> None:
        """Write to the audit log who did what, when, from where, and whether it was done."""
        who = passage.who
        self.service.audit.note(
            who.name if who else None,
            who.role if who else None,
            who.by if who else None,
            _address(scope),
            scope["method"],
            scope["raw_path"],
            scope["query_string"],
            passage.status,
        )


_HOW = (
    "show a token (Authorization: Bearer …, made by `stayer token add`), or use the login link "
    "that `stayer serve` prints"
)


class JsonAnswer(NamedTuple):
    """An answer of JSON, ready to be sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    content: bytes


def _encode_answer(
    scope: Scope, request_headers: Headers, outcome: object
) -> Response | JsonAnswer:
    """Make an answer of JSON; what was read may be asked for again by its tag."""
    answer = outcome if isinstance(outcome, Answer) else Answer(outcome)  # type: ignore[arg-type]
    content = _encode(answer.content)
    headers = [] if answer.headers is None else _raw(answer.headers)
    if scope["method"] in _SAFE and answer.status == 200:
        tag = f'W/"{hashlib.blake2b(content, digest_size=9).hexdigest()}"'.encode()
        headers += (b"etag", tag), (b"cache-control", b"private, no-cache")
        if tag.removeprefix(b"W/") in request_headers.get(b"if-none-match", b""):
            return JsonAnswer(304, headers, b"")
    elif answer.headers is None or "cache-control" not in answer.headers:
        headers.append(_NO_STORE)
    headers += (b"content-length", b"%d" % len(content)), _MEDIA
    return JsonAnswer(answer.status, headers, content)


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def _send_answer(answer: JsonAnswer, send: Send, own: list[tuple[bytes, bytes]]) -> None:
    headers = answer.headers + own
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.content})


def _with_headers(send: Send, passage: _Passage) -> Send:
    """Send what another kind of response says, with the headers that every answer has."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            passage.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *passage.headers]
        await send(message)

    return send_with_headers


@lru_cache(maxsize=256)
def _is_json(header: bytes | None) -> bool:
    return header is not None and (
        header.decode("latin-1").partition(";")[0].strip().lower() == JSON_MEDIA
    )


def _refuse_foreign(headers: Headers) -> None:
    """Refuse changes that a browser sends from any page but our own."""
    origin = headers.get(b"origin")
    if origin is None:
        return
    usual = None
    try:
        named = urlsplit(origin.decode("latin-1"))
        usual = _PORTS.get(named.scheme)
        theirs = (named.hostname or "").removesuffix("."), named.port or usual
    except ValueError:
        theirs = "", None
    host = headers.get(b"host", b"")
    if theirs != (_host_name(host), _port(host) or usual) or not theirs[0]:
        raise Problem("forbidden", "a change by a session has to come from our own page")


_HOST = re.compile(rb"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,255}))(?::([0-9]{1,5}))?")


def _host_name(header: bytes) -> str:
    """`example.org:8787` → `example.org`, `[::1]:8787` → `::1`; "" if it is neither."""
    found = _HOST.fullmatch(header)
    if found is None:
        return ""
    return (found[1] or found[2]).decode("ascii").lower().removesuffix(".")


def _port(header: bytes) -> int | None:
    """`example.org:8787` → 8787; None if none is named."""
    found = _HOST.fullmatch(header)
    return int(found[3]) if found is not None and found[3] else None


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else "unknown"


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
