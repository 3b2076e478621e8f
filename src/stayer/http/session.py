"""The session of a browser. The server keeps it, so that it can be listed and ended.

Two secrets open it. One is a cookie: scripts can't read it, but browsers send it to every port of
the host. The other is in the page's local storage, which knows ports, and comes with every request
in a header. Neither opens anything alone.
"""

from __future__ import annotations

import hashlib
import hmac

from msgspec import Struct
from starlette.responses import JSONResponse, Response

from stayer.http.token_records import Role, Session, Token, digest
from stayer.http.tokens import SESSION_LIFE_S, Access

PAGE_HEADER = b"x-stayer-request"
"""Carries the page's secret. A page of another origin can't send it."""


class Principal(Struct, frozen=True):
    """Who asks."""

    name: str
    role: Role
    token: str | None = None
    """The hash of the token that let them in, or that began their session."""
    session: str | None = None
    """The id of their session."""
    queues: tuple[str, ...] = ()
    """Only these; none named: all. Sessions have none."""
    any_id: bool = False

    @property
    def by(self) -> str:
        """What let them in; who comes by a login link has neither session nor token yet."""
        if self.session is not None:
            return "session"
        return "login link" if self.token is None else "token"

    @property
    def key(self) -> str:
        """Under which it is known when they were last here."""
        return self.session or self.token or ""

    @property
    def account(self) -> str:
        """Under which what they take is counted: all sessions of a token are one."""
        return self.token or self.session or ""


class Opened(JSONResponse):
    """The answer that opens a session."""

    def __init__(self, who: Principal, page: str) -> None:
        shown = {"name": who.name, "role": who.role, "page": page}
        super().__init__(shown, headers={"cache-control": "no-store"})
        self.who = who


class Sessions:
    """Begins, finds and ends the sessions of one server."""

    def __init__(self, access: Access) -> None:
        self._access = access

    @property
    def cookie(self) -> str:
        """Its name: of its own, because cookies know no ports."""
        return f"stayer-{hashlib.sha256(self._access.key).hexdigest()[:8]}"

    def begin(self, who: Principal, address: str, *, path: str, secure: bool) -> Opened:
        """Let somebody in who has shown a token or a login link."""
        opening = self._access.open_session(who.name, who.role, who.token, address)
        response = Opened(who, opening.page)
        response.set_cookie(
            self.cookie,
            opening.cookie,
            max_age=int(SESSION_LIFE_S),
            path=path,
            secure=secure,
            httponly=True,
            samesite="strict",
        )
        return response

    def end(self, who: Principal, response: Response, *, path: str) -> None:
        """End it here, and take the cookie away."""
        if who.session is not None:
            self._access.end_sessions([who.session])
        response.delete_cookie(self.cookie, path=path, httponly=True, samesite="strict")

    def read(self, cookie: str, page: bytes) -> Principal | None:
        """Return who shows these two secrets; None if one is wrong, or the session has ended."""
        found = self._access.find_session(cookie)
        if found is None or not _is_page(found, page):
            return None
        self._access.note_use(found.id)
        return Principal(found.name, found.role, found.token, found.id)

    def holds(self, who: Principal) -> bool:
        """Return whether somebody who was let in would still be."""
        if who.session is not None:
            return self._access.is_session_open(who.session)
        return who.token is not None and self._access.holder(who.token) is not None


def _is_page(session: Session, secret: bytes) -> bool:
    return hmac.compare_digest(session.page, digest(secret.decode("latin-1")))


def by_token(token: Token) -> Principal:
    """Return who shows a token."""
    return Principal(token.name, token.role, token.hash, None, token.queues, token.any_id)
