"""Asking a server: connections that are kept, and its problems as the errors that they are."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from stayer.core import errors
from stayer.core.decoding import decode_json
from stayer.core.errors import Refused, StoreUnreachable, StoreUnusable
from stayer.core.model import JSON
from stayer.core.units import format_size

ANSWER_TIMEOUT_S = 30.0
"""How long an answer may take."""

UPLOAD_TIMEOUT_S = 120.0
"""How long the server may take for each step of an upload."""

LARGEST_BYTES = 256_000_000
"""The most that an answer may be, unpacked: a page has about 10 MB, no record comes near this."""

_URN = "urn:stayer:problem:"
_JSON, _BYTES = "application/json", "application/octet-stream"
_STALE = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)
_NOT_OURS = "is that the URL of a `stayer serve`, with its --root-path?"
Query = Mapping[str, "str | int | bool | Sequence[str] | None"]


def path_of(kind: str, name: str, *rest: str) -> str:
    """Give the path of what has this name, and of what belongs to it."""
    return "/".join(("/v1", kind, quote(name, safe=""), *rest))


def _decompress(packed: bytes) -> bytes:
    """At most one byte more than may be: a few bytes can stand for gigabytes."""
    unpacking = zlib.decompressobj(wbits=31)
    try:
        answer = unpacking.decompress(packed, LARGEST_BYTES + 1)
    except zlib.error as error:
        raise http.client.HTTPException(f"its answer can't be unpacked ({error})") from None
    if not unpacking.eof and len(answer) <= LARGEST_BYTES:
        raise http.client.IncompleteRead(answer)
    return answer


class Address(NamedTuple):
    """Where the server is."""

    url: str
    secure: bool
    host: str
    port: int | None
    prefix: str


class NotAllowed(Refused):
    """The token may not do this."""


class TooManyWait(StoreUnusable):
    """The server lets no more requests wait for this token or address."""


class RequestTooLarge(StoreUnusable):
    """The server, or a proxy before it, takes no request of this size."""


class Connection:
    """Requests to one server, from any thread, also after a fork."""

    def __init__(self, address: Address, token: str | None) -> None:
        self._address = address
        self._token = token
        self._lock = threading.Lock()
        self._free: list[http.client.HTTPConnection] = []
        self._busy: set[http.client.HTTPConnection] = set()
        self._process = os.getpid()

    def another(self) -> Connection:
        """Make one more to the same server, to be interrupted by itself."""
        return Connection(self._address, self._token)

    def interrupt(self) -> None:
        """Let requests that are under way fail, in whichever threads."""
        with self._lock:
            sockets = [each.sock for each in self._busy if each.sock is not None]
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def ask(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: JSON = None,
        patience: float = ANSWER_TIMEOUT_S,
    ) -> Any:
        """Return what the server answers, decoded; its problems are raised."""
        given = {name: value for name, value in (query or {}).items() if value not in (None, ())}
        words = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in given.items()
        }
        target = path + (f"?{urlencode(words, True)}" if words else "")
        content = None if body is None else msgspec.json.encode(body)
        answer = self._answer(method, target, content, _JSON, patience)
        return self._decode(answer) if answer else None

    def ask_bytes(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Return what the server answers as it is; its problems are raised."""
        return self._answer(method, path, body, _BYTES, ANSWER_TIMEOUT_S)

    def send(self, method: str, path: str, query: Mapping[str, int], content: bytes) -> None:
        """Send bytes as they are; problems are raised."""
        self._answer(method, f"{path}?{urlencode(query)}", content, _BYTES, UPLOAD_TIMEOUT_S)

    def close(self) -> None:
        """Let go of all connections."""
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            connection.close()

    def _answer(
        self, method: str, target: str, content: bytes | None, media: str, patience: float
    ) -> bytes:
        """Return what the server answers to a body of this media type; its problems are raised."""
        headers = {"Accept": media, "Accept-Encoding": "gzip"}
        if content is not None:
            headers["Content-Type"] = media
        status, said, answer = self._exchange(
            method, self._address.prefix + target, content, headers, patience
        )
        if status < 300:
            return answer
        raise self._problem(status, said, answer)

    def _exchange(
        self,
        method: str,
        target: str,
        content: bytes | None,
        headers: dict[str, str],
        patience: float,
    ) -> tuple[int, str, bytes]:
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = self._take(patience)
        used = connection.sock is not None
        try:
            try:
                answer = self._once(connection, method, target, content, headers)
            except _STALE:
                connection.close()
                if not used:
                    raise
                # The server may have closed it while nobody asked anything.
                answer = self._once(connection, method, target, content, headers)
        except (OSError, http.client.HTTPException) as error:
            was_asked = connection.sock is not None or isinstance(error, _STALE)
            connection.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            unreachable = StoreUnreachable(
                f"{self._address.url} can't be reached: {reason}. Is `stayer serve` running there?"
            )
            unreachable.unsure = was_asked
            raise unreachable from None
        except BaseException:  # an interrupt leaves half an answer behind
            connection.close()
            raise
        finally:
            with self._lock:
                self._busy.discard(connection)
        with self._lock:
            self._free.append(connection)
        return answer

    def _take(self, patience: float) -> http.client.HTTPConnection:
        """Take a connection that nobody uses."""
        with self._lock:
            if self._process != os.getpid():  # those there are belong to who forked
                self._process, self._free, self._busy = os.getpid(), [], set()
            found = self._free.pop() if self._free else None
            if found is None:
                secure = self._address.secure
                kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
                found = kind(self._address.host, self._address.port, timeout=patience)
            self._busy.add(found)
        found.timeout = patience  # also if it has to connect again
        if found.sock is not None:
            found.sock.settimeout(patience)
        return found

    @staticmethod
    def _once(
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        content: bytes | None,
        headers: Mapping[str, str],
    ) -> tuple[int, str, bytes]:
        connection.request(method, target, content, dict(headers))
        response = connection.getresponse()
        answer = response.read(LARGEST_BYTES + 1)
        if response.length and len(answer) <= LARGEST_BYTES:  # half an answer is none
            raise http.client.IncompleteRead(answer, response.length)
        if response.getheader("Content-Encoding") == "gzip":
            answer = _decompress(answer)
        if len(answer) > LARGEST_BYTES:
            raise StoreUnusable(
                f"http{'s' * isinstance(connection, http.client.HTTPSConnection)}://"
                f"{connection.host}:{connection.port} answers with more than "
                f"{format_size(LARGEST_BYTES)}: {_NOT_OURS}"
            )
        return response.status, response.getheader("Content-Type", ""), answer

    def _decode(self, answer: bytes, type: Any = Any) -> Any:
        try:
            return decode_json(answer, type)
        except msgspec.DecodeError:  # also if it is of another type
            raise StoreUnusable(
                f"{self._address.url} does not answer as Stayer does: {_NOT_OURS}"
            ) from None

    def _problem(self, status: int, media: str, answer: bytes) -> errors.StayerError:
        problem: dict[str, Any] = {}
        if media.startswith("application/problem+json"):
            problem = self._decode(answer, dict)
        detail = str(problem.get("detail", f"status {status}"))
        url = self._address.url
        if status == 401:
            why = (
                f"{url} does not accept this token: it is wrong, was removed, or has expired"
                if self._token
                else f"{url} needs a token"
            )
            return StoreUnusable(
                f"{why}. Set STAYER_TOKEN to one that `stayer token add` has made there"
            )
        if status == 403:
            return NotAllowed(f"{url}: {detail}")
        known = errors.of_kind(str(problem.get("type", "")).removeprefix(_URN))
        if known is not None and status != 500:
            raised = known(detail)
            if isinstance(raised, errors.StoreError):
                raised.unsure = bool(problem.get("unsure"))
            return raised
        if status >= 500 and (not problem or status == 503):
            return StoreUnreachable(f"{url} does not work at the moment: {detail}")
        if status == 413:
            return RequestTooLarge(
                f"{url}: a request is too large for it, or for a proxy before it: {detail}. Raise "
                "the limit there: of `stayer serve` it is --body-limit"
            )
        if problem.get("type") == _URN + "too-many-streams":
            return TooManyWait(f"{url}: {detail}")
        if problem and self._address.prefix and problem.get("type") == _URN + "unknown-path":
            return StoreUnusable(
                f"{url}: the server there has nothing under {self._address.prefix}: leave that out "
                "of the URL"
            )
        if problem:
            return StoreUnusable(f"{url}: {detail}")
        return StoreUnusable(f"{url} answers with {detail}: {_NOT_OURS}")
