"""One try at telling a URL: signed, short of patience, and careful where it goes.

The signature is that of the Standard Webhooks (standardwebhooks.com): HMAC-SHA256 over
`id.timestamp.body`, so that any of their verifiers will do.
"""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import html
import http.client
import socket
import time
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from stayer.core import codec
from stayer.core.errors import StayerError
from stayer.core.notify import hooks, notices
from stayer.core.notify.hooks import Hook
from stayer.core.notify.notices import Notice
from stayer.core.version import __version__
from stayer.service.notify.connect import MayGo, connect

_READ_BYTES = 2_000
"""How much of an answer is read, in bytes."""
_LONGEST_RETRY_AFTER_S = 86400.0
"""How long a receiver may ask us to wait."""


class Forbidden(StayerError):
    """Where it is to go is not allowed here."""


class Answered(NamedTuple):
    """What came of a try."""

    delivered: bool
    summary: str
    final: bool = False
    """Another try is of no use."""
    after: float | None = None
    """The receiver asked for so many seconds of peace."""


def body_of(hook: Hook, notice: Notice) -> tuple[bytes, str]:
    """Write what is sent, and of which type it is."""
    match hook.format:
        case "json":
            return codec.encode(notices.payload(notice)).encode(), "application/json"
        case "slack":
            # Whoever submits may choose the words: in a chat they must not call or link.
            text = html.escape(notices.sentence(notice), quote=False)
            return codec.encode({"text": text}).encode(), "application/json"
        case "text":
            return notices.sentence(notice).encode(), "text/plain; charset=utf-8"


def signature(secrets: Sequence[str], id: str, timestamp: int, body: bytes) -> str:
    """Make one signature for each secret, the newest first, so that a receiver may know any of
    them.
    """
    signed = f"{id}.{timestamp}.".encode() + body
    digests = (hmac.digest(hooks.key(secret), signed, hashlib.sha256) for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def send(
    hook: Hook, secrets: Sequence[str], notice: Notice, may_go: MayGo | None = None
) -> Answered:
    """Tell it once."""
    assert hook.url is not None
    body, kind = body_of(hook, notice)
    now = int(time.time())
    headers = {
        "Content-Type": kind,
        "User-Agent": f"Stayer/{__version__}",
        **hook.headers,
        "webhook-id": notice.id,
        "webhook-timestamp": str(now),
    }
    if secrets:
        headers["webhook-signature"] = signature(secrets, notice.id, now, body)
    deadline = time.monotonic() + hook.time_limit
    try:
        parts = urlsplit(hook.url)
        assert parts.hostname is not None
        has_tls = parts.scheme == "https"
        port = parts.port or (443 if has_tls else 80)
        with connect(parts.hostname, port, has_tls, deadline, may_go) as stream:
            answered = _exchange(stream, parts, body, headers)
        if time.monotonic() < deadline:
            return answered
        raise TimeoutError  # what was cut off then may look like the end of an answer
    except Forbidden as error:
        return Answered(False, str(error), final=True)
    except (OSError, http.client.HTTPException, ValueError) as error:
        if time.monotonic() >= deadline:
            return Answered(False, f"no answer within {hook.time_limit:g}s")
        return Answered(False, f"{type(error).__name__}: {error}")


def check_host(allowed: Sequence[str] | None, host: str, addresses: Sequence[str]) -> None:
    """Forbidden unless a task may name this host. Submitters are not always trusted, and a server
    that is reached from here, but not by them, would believe that we mean what they ask for.
    """
    if allowed is None:
        if not all(map(hooks.is_public, addresses)):
            # Which address that is, is not for those who may only ask.
            raise Forbidden(
                f"{host} leads to this machine or network: allow it as one of the hosts in "
                "[notices], or make it a hook of the configuration"
            )
    elif not hooks.is_named(allowed, host, addresses):
        raise Forbidden(f"{host} is none of the hosts that [notices] allows: add it there")


def _exchange(
    stream: socket.socket, parts: SplitResult, body: bytes, headers: dict[str, str]
) -> Answered:
    connection = http.client.HTTPConnection("unused")
    connection.sock = stream
    host = parts.netloc.rpartition("@")[2]
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection.request("POST", path, body, {"Host": host, **headers, "Connection": "close"})
    response = connection.getresponse()
    try:
        text = response.read(_READ_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        text = ""  # it has said how it took it
    return _judge_response(response, text)


def _judge_response(response: http.client.HTTPResponse, text: str) -> Answered:
    status = response.status
    summary = f"{status} {response.reason}".strip()
    if text.strip():
        summary += f": {text.strip()}"
    if 200 <= status < 300:
        return Answered(True, summary)
    if status == http.client.GONE:
        return Answered(False, summary, final=True)
    if 300 <= status < 400:
        where = response.getheader("Location", "elsewhere")
        summary = f"{status} leads to {where}, which is not followed: name that address itself"
    return Answered(False, summary, after=_seconds_of(response.getheader("Retry-After")))


def _seconds_of(retry_after: str | None) -> float | None:
    """Seconds, or a date."""
    if retry_after is None:
        return None
    if retry_after.strip().isdecimal():
        return min(_LONGEST_RETRY_AFTER_S, float(retry_after))
    try:
        moment = email.utils.parsedate_to_datetime(retry_after).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    return min(_LONGEST_RETRY_AFTER_S, max(0.0, moment - time.time()))
