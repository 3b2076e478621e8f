"""Where tokens are kept: in the store, where all of its servers see them, or in a file.

When a token or a session was last used is kept apart: it is written every minute, and may get lost.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from stayer.core.decoding import decode_json
from stayer.core.errors import BadConfig
from stayer.http.token_records import Kept
from stayer.store import StoreBase

LOOK_EVERY_S = 1.0
"""How often a server looks whether the tokens in its store have changed, in seconds."""

T = TypeVar("T")
Uses = dict[str, float]
"""When tokens (by hash) and sessions (by id) were last used."""


class Place(Protocol):
    """Where tokens are kept, for several processes at once."""

    where: str
    """As people are told."""
    accepted_by: str
    """Who lets a token in that is kept here, as people are told."""
    look_every_s: float | None
    """How often somebody has to `refresh` it; None: whoever reads it sees what it is now."""

    def current(self) -> Kept:
        """Return what is kept, as it was last seen. Asked for with each request: never waits."""

    def refresh(self) -> None:
        """Look whether it has changed."""

    def change(self, change: Callable[[Kept], tuple[Kept, T]]) -> T:
        """Replace what is kept in one step; returns what the change answers. The change may be
        called again, if somebody else was quicker.
        """

    def read_uses(self) -> Uses:
        """Read the last uses. Damaged ones are forgotten: at worst a session ends too early."""

    def change_uses(self, change: Callable[[Uses], Uses]) -> Uses:
        """Replace the last uses in one step; returns what they are then."""


class TokensInStore:
    """Tokens in the store: every server of it sees them."""

    accepted_by = "every server of this store accepts it"
    look_every_s: float | None = LOOK_EVERY_S

    def __init__(self, store: StoreBase) -> None:
        """Read what is there."""
        self.where = store.url
        self._store = store
        self._one = threading.Lock()
        """So that nobody puts what was read before a change in the place of what is there since."""
        self._text: str | None = None
        self._kept = Kept(key="")
        self.refresh()

    def current(self) -> Kept:
        return self._kept

    def refresh(self) -> None:
        with self._one:
            self._see(self._store.read_shared("access"))

    def _see(self, text: str | None) -> None:
        if text == self._text:
            return
        try:
            self._kept = Kept(key="") if text is None else decode_json(text, Kept)
        except msgspec.DecodeError as error:
            raise BadConfig(
                f"the tokens in {self.where} are damaged: {error}. Restore it from a backup, or "
                "name a file with serve.access_file and make new tokens there"
            ) from None
        self._text = text

    def change(self, change: Callable[[Kept], tuple[Kept, T]]) -> T:
        with self._one:
            while True:
                known = self._store.read_shared("access")
                self._see(known)
                changed, answer = change(_with_key(self._kept))
                text = msgspec.json.encode(changed).decode()
                if text == known or self._store.put_shared("access", text, known):
                    self._see(text)
                    return answer

    def read_uses(self) -> Uses:
        return _decode_uses(self._store.read_shared("access uses"))

    def change_uses(self, change: Callable[[Uses], Uses]) -> Uses:
        while True:
            known = self._store.read_shared("access uses")
            uses = change(_decode_uses(known))
            text = msgspec.json.encode(uses).decode()
            if text == known or self._store.put_shared("access uses", text, known):
                return uses


class TokenFile:
    """Tokens in a file, for servers that read the same one: they notice when it has changed."""

    accepted_by = "servers started with this configuration accept it"
    look_every_s: float | None = None

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.where = os.fspath(path)  # asked for with each request, so not by way of pathlib
        self._seen: tuple[int, int, int] | None = None
        self._kept = Kept(key="")
        self._uses_path = self.path.with_name(f".{self.path.name}.used")

    def current(self) -> Kept:
        try:
            found = os.stat(self.where)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                self._seen, self._kept = None, Kept(key="")
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

    def refresh(self) -> None:
        pass  # `current` looks each time

    def _read(self) -> Kept:
        try:
            return decode_json(self.path.read_bytes(), Kept)
        except OSError as error:
            raise BadConfig(f"{self.path} can't be read: {error.strerror}") from None
        except msgspec.DecodeError as error:
            raise BadConfig(
                f"{self.path} is damaged: {error}. Move it away, and make new tokens"
            ) from None

    def change(self, change: Callable[[Kept], tuple[Kept, T]]) -> T:
        with self._exclusively():
            changed, answer = change(_with_key(self.current()))
            content = msgspec.json.format(msgspec.json.encode(changed), indent=2)
            self._replace(self.path, content + b"\n", durable=True)
        return answer

    def read_uses(self) -> Uses:
        try:
            return _decode_uses(self._uses_path.read_bytes())
        except OSError:
            return {}

    def change_uses(self, change: Callable[[Uses], Uses]) -> Uses:
        with self._exclusively():
            uses = change(self.read_uses())
            self._replace(self._uses_path, msgspec.json.encode(uses))
        return uses

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
        except ImportError:  # Windows: there is one server, and people are slower than it
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


def _with_key(kept: Kept) -> Kept:
    return kept if kept.key else replace(kept, key=secrets.token_hex(32))


def _decode_uses(written: bytes | str | None) -> Uses:
    with suppress(msgspec.DecodeError):
        if written is not None:
            return decode_json(written, Uses)
    return {}
