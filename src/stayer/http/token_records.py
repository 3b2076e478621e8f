"""What is kept of tokens, login links and sessions: all of it hashed."""

from __future__ import annotations

import hashlib
import time
from typing import Literal

from msgspec import Struct

Role = Literal["read", "submit", "operate", "work"]
ROLES: tuple[Role, ...] = ("read", "submit", "operate")
"""Each may do what those before it may."""
WORK: Role = "work"
"""Takes tasks of its queues and runs them; may read, but neither submit nor operate."""


class Token(Struct, frozen=True):
    """Somebody's right to come in; the token itself is known to its owner alone."""

    name: str
    role: Role
    hash: str
    created: float
    queues: tuple[str, ...] = ()
    """Only these; none named: all."""
    expires: float | None = None
    any_id: bool = False
    """A token for some queues may choose ids that don't begin with the name of its queue."""

    def is_valid(self) -> bool:
        """Return whether it has not expired."""
        return self.expires is None or time.time() < self.expires


class Session(Struct, frozen=True):
    """A browser that has logged in. It shows two secrets: a cookie, which browsers send to every
    port of a host, and one that only pages of the same origin can read.
    """

    id: str
    """For people who want to end it: opens nothing."""
    cookie: str
    """The hash of one secret."""
    page: str
    """The hash of the other."""
    name: str
    role: Role
    since: float
    address: str
    """Where it was begun from."""
    token: str | None = None
    """The hash of the token that began it; None: a login link did."""


class Opening(Struct, frozen=True):
    """A session that was just begun, and its secrets: this is the only time that they are known."""

    session: Session
    cookie: str
    page: str


class Code(Struct, frozen=True):
    """A login link that was not used yet."""

    hash: str
    role: Role
    until: float


class Kept(Struct, frozen=True):
    """All that is kept, as one value: a change of it is one step."""

    key: str
    """The session cookie is named after it."""
    tokens: tuple[Token, ...] = ()
    """By name."""
    codes: tuple[Code, ...] = ()
    sessions: tuple[Session, ...] = ()
    copied: tuple[str, ...] = ()
    """The keys of files that were copied here, so that each is copied once."""


def may(role: Role, needed: Role) -> bool:
    """Return whether who has this role may do what needs that one."""
    if WORK in (role, needed):
        return role == needed or (role == WORK and needed == "read")
    return ROLES.index(role) >= ROLES.index(needed)


def digest(secret: str) -> str:
    """Hash a secret of 256 random bits for keeping: nobody can guess back from it."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
