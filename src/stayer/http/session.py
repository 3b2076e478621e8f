"""The session of a browser: a signed cookie, good until its end also after a restart."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time

import msgspec
from msgspec import Struct
from starlette.responses import JSONResponse, Response

from stayer.http.access import Access, Role, Token

LIFE = 14 * 86400
"""Seconds."""


class Principal(Struct, frozen=True):
    """Who asks."""

    name: str
    role: Role
    by_cookie: bool = False
    token: str | None = None
    """The hash of the token that it came in by; without it, the session is void."""
    until: float = float("inf")
    queues: tuple[str, ...] = ()
    """Only these; none named: all. Sessions have none."""

    @property
    def by(self) -> str:
        """What let them in; who comes by a login link has neither session nor token yet."""
        if self.by_cookie:
            return "session"
        return "login link" if self.token is None else "token"


class Opened(JSONResponse):
    """The answer that opens a session."""

    def __init__(self, who: Principal) -> None:
        shown = {"name": who.name, "role": who.role}
        super().__init__(shown, headers={"cache-control": "no-store"})
        self.who = who


class _Session(Struct, frozen=True):
    name: str
    role: Role
    until: float
    token: str | None


class Sessions:
    """Signs and reads the cookies of one server."""

    def __init__(self, access: Access) -> None:
        self._access = access

    @property
    def cookie(self) -> str:
        """Its name: of its own, because cookies know no ports."""
        return f"stayer-{hashlib.sha256(self._access.key).hexdigest()[:8]}"

    def begin(self, response: Response, who: Principal, *, path: str, secure: bool) -> None:
        """Give the browser its cookie."""
        session = _Session(who.name, who.role, time.time() + LIFE, who.token)
        form = base64.urlsafe_b64encode(msgspec.json.encode(session)).decode()
        response.set_cookie(
            self.cookie,
            f"{form}.{self._sign(form)}",
            max_age=LIFE,
            path=path,
            secure=secure,
            httponly=True,
            samesite="strict",
        )

    def end(self, response: Response, *, path: str) -> None:
        """Take the cookie away."""
        response.delete_cookie(self.cookie, path=path, httponly=True, samesite="strict")

    def read(self, cookie: str) -> Principal | None:
        """Who has this cookie; None if it is forged, over, or its token was removed."""
        form, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(form).encode()):
            return None
        try:
            session = msgspec.json.decode(base64.urlsafe_b64decode(form), type=_Session)
        except (ValueError, msgspec.DecodeError):
            return None
        found = Principal(session.name, session.role, True, session.token, session.until)
        return found if self.holds(found) else None

    def holds(self, who: Principal) -> bool:
        """Whether somebody who was let in would still be."""
        if time.time() >= who.until:
            return False
        return who.token is None or any(
            hmac.compare_digest(known.hash, who.token) for known in self._access.tokens()
        )

    def _sign(self, form: str) -> str:
        return hmac.new(self._access.key, form.encode(), hashlib.sha256).hexdigest()


def by_token(token: Token) -> Principal:
    """Who shows a token."""
    return Principal(token.name, token.role, token=token.hash, queues=token.queues)
