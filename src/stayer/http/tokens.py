"""Who may come in: tokens, login codes and sessions, hashed, in one file.

Written by `stayer token` and by servers, which notice when it has changed. When a token or a
session was last used is in a file beside it: that one is written every minute, and may get lost.
Standard library and msgspec only: the command line imports it without a server.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stayer.core.errors import BadConfig, BadInput, Refused
from stayer.core.limits import quote
from stayer.core.model import JSON
from stayer.core.units import rfc3339

Role = Literal["read", "submit", "operate", "work"]
ROLES: tuple[Role, ...] = ("read", "submit", "operate")
"""Each may do what those before it may."""
WORK: Role = "work"
"""Takes tasks of its queues and runs them; may read, but neither submit nor operate."""

CODE_LIFE_S = 600.0
"""How long a login link can be used, in seconds."""

SESSION_IDLE_S = 3 * 86400.0
"""A session that nobody uses ends after so many seconds."""
SESSION_LIFE_S = 30 * 86400.0
"""Every session ends after so many seconds, used or not."""
SESSIONS_PER_TOKEN = 50
"""How many sessions one token, or all login links together, may have open; the next one ends the
one that was used longest ago.
"""

_NAME_LIMIT = 100
_PREFIX = "stayer_"
T = TypeVar("T")


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


class _Kept(Struct, frozen=True):
    key: str
    tokens: tuple[Token, ...] = ()
    codes: tuple[Code, ...] = ()
    sessions: tuple[Session, ...] = ()


class _Index:
    """What is looked for in the file, by what it is looked for."""

    def __init__(self, kept: _Kept) -> None:
        self.kept = kept
        self.tokens = {token.hash: token for token in kept.tokens}
        self.cookies = {session.cookie: session for session in kept.sessions}
        self.sessions = {session.id: session for session in kept.sessions}


def may(role: Role, needed: Role) -> bool:
    """Return whether who has this role may do what needs that one."""
    if WORK in (role, needed):
        return role == needed or (role == WORK and needed == "read")
    return ROLES.index(role) >= ROLES.index(needed)


def digest(secret: str) -> str:
    """Hash a secret of 256 random bits for keeping: nobody can guess back from it."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


class Access:
    """The file, as it is now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = os.fspath(path)  # asked for with each request, so not by way of pathlib
        self._seen: tuple[int, int, int] | None = None
        self._kept = _Kept(key="")
        self._index = _Index(self._kept)
        self._uses_path = path.with_name(f".{path.name}.used")
        self._uses: dict[str, float] = {}
        """When tokens (by hash) and sessions (by id) were used, as far as this process knows."""
        self._uses_written: dict[str, float] = {}

    @property
    def key(self) -> bytes:
        """Of this file alone: the session cookie is named after it. Made when first needed."""
        if not self._current().key:
            self._change(lambda kept: (kept, None))
        return bytes.fromhex(self._current().key)

    def tokens(self) -> tuple[Token, ...]:
        """Return all tokens, by name."""
        return self._current().tokens

    def find(self, secret: str) -> Token | None:
        """Find whose token this is; None if it is nobody's, or has expired."""
        return self.holder(digest(secret))

    def holder(self, hash: str) -> Token | None:
        """Return the token with this hash, if it still opens anything."""
        found = self._current_index().tokens.get(hash)
        return found if found is not None and found.is_valid() else None

    def add(
        self,
        name: str,
        role: Role,
        queues: tuple[str, ...] = (),
        *,
        life: float | None = None,
        any_id: bool = False,
    ) -> str:
        """Make a token and return it: this is the only time that it can be seen. It expires after
        `life` seconds.
        """
        if not name or len(name) > _NAME_LIMIT or not name.isprintable() or name != name.strip():
            raise BadInput(f"name {quote(name)}: give one of 1 to {_NAME_LIMIT} characters")
        if role == WORK and not queues:
            raise BadInput("a token of the role work is for certain queues: name them with --queue")
        secret = _PREFIX + secrets.token_urlsafe(32)
        now = time.time()
        token = Token(
            name, role, digest(secret), now, tuple(dict.fromkeys(queues)),
            None if life is None else now + life, any_id,
        )  # fmt: skip

        def add_token(kept: _Kept) -> tuple[_Kept, None]:
            if any(known.name == name for known in kept.tokens):
                raise Refused(
                    f"there is a token {name!r} already: name it otherwise, or remove that one "
                    f"with `stayer token rm {name}`"
                )
            tokens = sorted((*kept.tokens, token), key=lambda known: known.name)
            return replace(kept, tokens=tuple(tokens)), None

        self._change(add_token)
        return secret

    def remove(self, name: str) -> None:
        """Let a token open nothing any more, nor the sessions that it began."""

        def remove_token(kept: _Kept) -> tuple[_Kept, None]:
            left = tuple(token for token in kept.tokens if token.name != name)
            if len(left) == len(kept.tokens):
                known = ", ".join(token.name for token in left) or "none"
                raise BadInput(f"no token is called {name!r}: there are {known}")
            gone = {token.hash for token in kept.tokens} - {token.hash for token in left}
            sessions = tuple(each for each in kept.sessions if each.token not in gone)
            return replace(kept, tokens=left, sessions=sessions), None

        self._change(remove_token)

    def make_code(self, role: Role = "operate", life: float = CODE_LIFE_S) -> str:
        """Make a code that opens one session, within its life."""
        secret = secrets.token_urlsafe(32)
        code = Code(digest(secret), role, time.time() + life)
        self._change(lambda kept: (replace(kept, codes=(*_fresh(kept.codes), code)), None))
        return secret

    def take_code(self, secret: str) -> Role | None:
        """Use up a code; return the role of the session that it opens, None if it opens nothing."""
        presented = digest(secret)
        if not any(hmac.compare_digest(code.hash, presented) for code in self._current().codes):
            return None

        def take(kept: _Kept) -> tuple[_Kept, Role | None]:
            fresh = _fresh(kept.codes)
            taken = [code for code in fresh if hmac.compare_digest(code.hash, presented)]
            left = tuple(code for code in fresh if code not in taken)
            return replace(kept, codes=left), taken[0].role if taken else None

        return self._change(take)

    def open_session(self, name: str, role: Role, token: str | None, address: str) -> Opening:
        """Begin a session, of a token (its hash) or of a login link."""
        cookie, page = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        session = Session(
            secrets.token_hex(4), digest(cookie), digest(page), name, role, time.time(), address,
            token,
        )  # fmt: skip

        def add_session(kept: _Kept) -> tuple[_Kept, None]:
            self._read_uses()  # others may be in use at another server
            left = [each for each in kept.sessions if not self._is_over(each)]
            same = sorted((each for each in left if each.token == token), key=self.last_use)
            dropped = same[: max(0, len(same) - SESSIONS_PER_TOKEN + 1)]
            left = [each for each in left if each not in dropped]
            return replace(kept, sessions=(*left, session)), None

        self._change(add_session)
        return Opening(session, cookie, page)

    def sessions(self) -> tuple[Session, ...]:
        """Return the sessions that are open, the oldest first."""
        self._read_uses()
        return tuple(each for each in self._current().sessions if self._is_open(each))

    def find_session(self, cookie: str) -> Session | None:
        """Find whose cookie this is. It opens nothing without the session's other secret."""
        found = self._current_index().cookies.get(digest(cookie))
        return found if found is not None and self._is_open(found) else None

    def is_session_open(self, id: str) -> bool:
        """Return whether a session has not ended yet."""
        found = self._current_index().sessions.get(id)
        return found is not None and self._is_open(found)

    def end_sessions(self, ids: Collection[str] | None = None) -> int:
        """End these sessions, or all; returns how many have ended."""

        def drop_sessions(kept: _Kept) -> tuple[_Kept, int]:
            left = tuple(each for each in kept.sessions if ids is not None and each.id not in ids)
            return replace(kept, sessions=left), len(kept.sessions) - len(left)

        return self._change(drop_sessions)

    def _is_open(self, session: Session) -> bool:
        if session.token is not None and self.holder(session.token) is None:
            return False
        if self._is_over(session):
            self._read_uses()  # it may be in use at another server
            return not self._is_over(session)
        return True

    def _is_over(self, session: Session) -> bool:
        now = time.time()
        return (
            now >= session.since + SESSION_LIFE_S or now >= self.last_use(session) + SESSION_IDLE_S
        )

    def note_use(self, key: str) -> None:
        """Note that a token (its hash) or a session (its id) is used now."""
        self._uses[key] = time.time()

    def last_use(self, what: Token | Session) -> float:
        """Return when it was last used, within a minute; if it never was, when it was made."""
        key, made = (what.hash, what.created) if isinstance(what, Token) else (what.id, what.since)
        return max(made, self._uses.get(key, made), self._uses_written.get(key, made))

    def last_used_at(self, token: Token) -> float | None:
        """Return when a token was last used; None: never."""
        self._read_uses()
        last = self.last_use(token)
        return last if last > token.created else None

    def write_uses(self) -> None:
        """Let others know of uses. Cheap enough for every minute; several processes may do so."""
        uses, known = dict(self._uses), self._uses_written  # a copy: requests go on meanwhile
        if not any(at > known.get(key, -math.inf) for key, at in uses.items()):
            return
        with self._exclusively():
            self._read_uses()
            index = self._current_index()
            merged = {
                key: max(uses.get(key, 0.0), self._uses_written.get(key, 0.0))
                for key in {*uses, *self._uses_written}
                if key in index.tokens or key in index.sessions
            }
            self._replace(self._uses_path, msgspec.json.encode(merged))
            self._uses_written = merged
        for key in uses.keys() - merged.keys():
            self._uses.pop(key, None)

    def _read_uses(self) -> None:
        """Read the last uses. Damaged ones are forgotten: at worst a session ends too early."""
        with suppress(OSError, msgspec.DecodeError):
            written = self._uses_path.read_bytes()
            self._uses_written = msgspec.json.decode(written, type=dict[str, float])

    def _current_index(self) -> _Index:
        kept = self._current()
        index = self._index
        if index.kept is not kept:
            index = self._index = _Index(kept)
        return index

    def _current(self) -> _Kept:
        try:
            found = os.stat(self._name)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                self._seen, self._kept = None, _Kept(key="")
                return self._kept
            raise BadConfig(f"{self.path} can't be read: {error.strerror}") from None
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen != self._seen:
            if os.name == "posix" and found.st_mode & 0o077:
                raise BadConfig(
                    f"{self.path} can be read by other users: chmod 600 it, and remove tokens that "
                    "somebody may have seen"
                )
            self._kept = self._read()
            self._seen = seen
        return self._kept

    def _read(self) -> _Kept:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=_Kept)
        except OSError as error:
            raise BadConfig(f"{self.path} can't be read: {error.strerror}") from None
        except msgspec.DecodeError as error:
            raise BadConfig(
                f"{self.path} is damaged: {error}. Move it away, and make new tokens"
            ) from None

    def _change(self, change: Callable[[_Kept], tuple[_Kept, T]]) -> T:
        with self._exclusively():
            kept = self._current()
            if not kept.key:
                kept = replace(kept, key=secrets.token_hex(32))
            changed, answer = change(kept)
            self._write(changed)
        return answer

    def _write(self, kept: _Kept) -> None:
        content = msgspec.json.format(msgspec.json.encode(kept), indent=2)
        self._replace(self.path, content + b"\n", durable=True)

    def _replace(self, path: Path, content: bytes, *, durable: bool = False) -> None:
        temporary = path.with_name(f".{self.path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:
                file.write(content)
                if durable:  # seldom written, and nobody comes in without it
                    file.flush()
                    os.fsync(file.fileno())
            temporary.replace(path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise BadConfig(f"{path} can't be written: {error.strerror}") from None

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        """One writer at a time, so that a code is taken once."""
        try:
            import fcntl
        except ImportError:  # Windows: one server, and hands that are slower than it
            yield
            return
        lock = self.path.with_name(f".{self.path.name}.lock")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BadConfig(f"{lock} can't be written: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def session_record(access: Access, session: Session) -> dict[str, JSON]:
    """Describe a session as JSON, for people who look who has logged in."""
    began = next((each.name for each in access.tokens() if each.hash == session.token), None)
    return {
        "id": session.id, "name": session.name, "role": session.role, "token": began,
        "since": rfc3339(session.since), "used": rfc3339(access.last_use(session)),
        "address": session.address,
    }  # fmt: skip


def _fresh(codes: tuple[Code, ...]) -> tuple[Code, ...]:
    now = time.time()
    return tuple(code for code in codes if code.until > now)
