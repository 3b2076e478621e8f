"""Who may come in: tokens and login codes, hashed, and the key that signs sessions, in one file.

Written by `stayer token` and read by the server, which notices when it has changed. Standard
library and msgspec only: the command line imports it without a server.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stayer.core.errors import BadConfig, BadInput, Refused

Role = Literal["read", "submit", "operate"]
ROLES: tuple[Role, ...] = ("read", "submit", "operate")
"""Each may do what those before it may."""

CODE_LIFE = 600.0
"""How long a login link can be used, in seconds."""

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


class Code(Struct, frozen=True):
    """A login link that was not used yet."""

    hash: str
    role: Role
    until: float


class _Kept(Struct, frozen=True):
    key: str
    tokens: tuple[Token, ...] = ()
    codes: tuple[Code, ...] = ()


def may(role: Role, needed: Role) -> bool:
    """Whether who has this role may do what needs that one."""
    return ROLES.index(role) >= ROLES.index(needed)


def digest(secret: str) -> str:
    """What is kept of a secret of 256 random bits: nobody can guess back from it."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


class Access:
    """The file, as it is now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = os.fspath(path)  # asked for with each request, so not by way of pathlib
        self._seen: tuple[int, int, int] | None = None
        self._kept = _Kept(key="")
        self._opened: tuple[_Kept, dict[str, Token]] = (self._kept, {})

    @property
    def key(self) -> bytes:
        """Signs sessions; made when it is first needed."""
        if not self._current().key:
            self._change(lambda kept: (kept, None))
        return bytes.fromhex(self._current().key)

    def tokens(self) -> tuple[Token, ...]:
        """All there are, by name."""
        return self._current().tokens

    def find(self, secret: str) -> Token | None:
        """Whose token this is. What opened once opens until the file changes: only those are kept,
        by their digests, so there are no more than there are tokens.
        """
        presented = digest(secret)
        kept = self._current()
        of, opened = self._opened
        if of is not kept:  # with what it is true of, so that no other thread can mix the two
            opened = {}
            self._opened = (kept, opened)
        found = opened.get(presented)
        if found is None:
            for token in kept.tokens:
                if hmac.compare_digest(token.hash, presented):
                    found = opened[presented] = token
        return found

    def add(self, name: str, role: Role, queues: tuple[str, ...] = ()) -> str:
        """Make a token and return it: this is the only time that it can be seen."""
        if not name or len(name) > _NAME_LIMIT or not name.isprintable() or name != name.strip():
            raise BadInput(f"name {name!r}: give a word of 1 to {_NAME_LIMIT} characters")
        secret = _PREFIX + secrets.token_urlsafe(32)
        token = Token(name, role, digest(secret), time.time(), tuple(dict.fromkeys(queues)))

        def adding(kept: _Kept) -> tuple[_Kept, None]:
            if any(known.name == name for known in kept.tokens):
                raise Refused(
                    f"there is a token {name!r} already: name it otherwise, or remove that one "
                    f"with `stayer token rm {name}`"
                )
            tokens = sorted((*kept.tokens, token), key=lambda known: known.name)
            return replace(kept, tokens=tuple(tokens)), None

        self._change(adding)
        return secret

    def remove(self, name: str) -> None:
        """Let a token open nothing any more, nor the sessions that it began."""

        def removing(kept: _Kept) -> tuple[_Kept, None]:
            left = tuple(token for token in kept.tokens if token.name != name)
            if len(left) == len(kept.tokens):
                known = ", ".join(token.name for token in left) or "none"
                raise BadInput(f"no token is called {name!r}: there are {known}")
            return replace(kept, tokens=left), None

        self._change(removing)

    def make_code(self, role: Role = "operate", life: float = CODE_LIFE) -> str:
        """A code that opens one session, soon or never."""
        secret = secrets.token_urlsafe(32)
        code = Code(digest(secret), role, time.time() + life)
        self._change(lambda kept: (replace(kept, codes=(*_fresh(kept.codes), code)), None))
        return secret

    def take_code(self, secret: str) -> Role | None:
        """The role of the session that the code opens, once; None if it opens nothing."""
        presented = digest(secret)
        if not any(hmac.compare_digest(code.hash, presented) for code in self._current().codes):
            return None

        def taking(kept: _Kept) -> tuple[_Kept, Role | None]:
            fresh = _fresh(kept.codes)
            taken = [code for code in fresh if hmac.compare_digest(code.hash, presented)]
            left = tuple(code for code in fresh if code not in taken)
            return replace(kept, codes=left), taken[0].role if taken else None

        return self._change(taking)

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
        with self._locked():
            kept = self._current()
            if not kept.key:
                kept = replace(kept, key=secrets.token_hex(32))
            changed, answer = change(kept)
            self._write(changed)
        return answer

    def _write(self, kept: _Kept) -> None:
        content = msgspec.json.format(msgspec.json.encode(kept), indent=2)
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:
                file.write(content + b"\n")
            temporary.replace(self.path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise BadConfig(f"{self.path} can't be written: {error.strerror}") from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
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


def _fresh(codes: tuple[Code, ...]) -> tuple[Code, ...]:
    now = time.time()
    return tuple(code for code in codes if code.until > now)
