"""What goes wrong, as RFC 9457 says it: `application/problem+json` with a status that fits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
from starlette.responses import Response

from stayer.core import errors
from stayer.core.errors import StayerError
from stayer.core.model import JSON

MEDIA = "application/problem+json"
URN = "urn:stayer:problem:"
RETRY_AFTER_S = 5
"""When a store that is away may be asked again, in seconds."""

STATUS: dict[type[StayerError], int] = {
    errors.BadInput: 400,
    errors.TooLarge: 413,
    errors.UnknownTask: 404,
    errors.UnknownQueue: 404,
    errors.UnknownWorker: 404,
    errors.UnknownSchedule: 404,
    errors.UnknownFile: 404,
    errors.UnknownFlow: 404,
    errors.BadConfig: 500,
    errors.Refused: 409,
    errors.NotHeld: 409,
    errors.LeaseLost: 409,
    errors.TaskFailed: 409,
    errors.TaskCancelled: 409,
    errors.WaitTimeout: 408,
    errors.StoreUnreachable: 503,
    errors.StoreUnusable: 503,
    errors.StoreError: 503,
    StayerError: 500,
}
"""The nearest class counts."""

KINDS: dict[str, tuple[int, str]] = {
    "bad-request": (400, "This is no request that a server could understand."),
    "unauthorized": (401, "Nobody is known by this token or session."),
    "forbidden": (403, "The role does not allow it."),
    "unknown-session": (404, "No session has this id."),
    "unknown-path": (404, "There is nothing at this path."),
    "method-not-allowed": (405, "This path has no such method."),
    "body-too-large": (413, "The body is over the limit."),
    "not-json": (415, "The body is not JSON."),
    "misdirected": (421, "The server does not go by this name."),
    "too-many-failures": (429, "Too many attempts have failed."),
    "too-many-streams": (
        429,
        "Too many streams are open, or requests wait, for one token or address.",
    ),
    "header-too-large": (431, "The header is over the limit."),
    "defect": (500, "The server has a defect."),
    "busy": (503, "Too much is asked at once."),
}
"""What only HTTP has, beside the errors that every door shares."""


class Problem(Exception):
    """One of `KINDS`, with what to do about it."""

    def __init__(self, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.kind = kind
        self.headers = dict(headers or {})


def status_of(error: type[StayerError]) -> int:
    """Return the status of the nearest class that has one."""
    return next(STATUS[known] for known in error.__mro__ if known in STATUS)


def response(error: Problem | StayerError, store: str = "") -> Response:
    """The answer to a request that went wrong. Where the database is (`store`) is not for those who
    ask from afar.
    """
    if isinstance(error, Problem):
        status, title = KINDS[error.kind]
        return _response(error.kind, title, status, str(error), error.headers)
    kind = type(error)
    status = status_of(kind)
    title = (kind.__doc__ or "").partition("\n")[0]
    headers = {"retry-after": str(RETRY_AFTER_S)} if status == 503 else {}
    more: dict[str, JSON] = {}
    if isinstance(error, errors.TaskFailed) and error.error is not None:
        more["error"] = msgspec.to_builtins(error.error)
    if isinstance(error, errors.StoreError) and error.unsure:
        more |= {"unsure": True, "drawn": list(error.drawn)}
    return _response(errors.kind(kind), title, status, _detail(error, store), headers, more)


def _detail(error: StayerError, store: str) -> str:
    if isinstance(error, errors.BadConfig):
        return "the server is not set up right: its log says what is wrong"
    if isinstance(error, errors.StoreError):
        return without_place(str(error), store)
    return _without_url(str(error), store)


_PLACES = (
    (re.compile(r"\bprocess \d+(?: and process \d+)*"), "another process"),
    (re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?![\w.]*\w)"), "…"),
    (re.compile(r"\[[0-9a-fA-F:.]+\]:\d+"), "…"),
    (re.compile(r"(?<![\w.-])(?=[\w.-]*[A-Za-z])[\w.-]+:\d{2,5}\b"), "…"),
    (re.compile(r"(?<![\w/.>`])/(?:[^\s/'\":,;]+/)+[^\s/'\":,;]*"), "…"),
)
"""What names a process, an address or a path of the machine."""


def without_place(text: str, store: str) -> str:
    """Strip from an error where the store is, on which machine, and who uses it there."""
    text = _without_url(text, store)
    path = urlsplit(store).path[1:] if store.startswith("sqlite:") else ""
    if path:
        text = text.replace(path, "the store")
    for place, instead in _PLACES:
        text = place.sub(instead, text)
    return text


def _without_url(text: str, store: str) -> str:
    return text.replace(f" in {store}", "").replace(store, "the store") if store else text


def _response(
    kind: str,
    title: str,
    status: int,
    detail: str,
    headers: Mapping[str, str],
    more: Mapping[str, JSON] | None = None,
) -> Response:
    problem = {"type": URN + kind, "title": title, "status": status, "detail": detail}
    content = msgspec.json.encode({**problem, **(more or {})})
    fresh = {"cache-control": "no-store", **headers}
    return Response(content, status, headers=fresh, media_type=MEDIA)
