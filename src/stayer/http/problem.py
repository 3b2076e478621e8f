"""What goes wrong, as RFC 9457 says it: `application/problem+json` with a status that fits."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from stayer.core import errors
from stayer.core.errors import StayerError
from stayer.core.model import JSON

MEDIA = "application/problem+json"
URN = "urn:stayer:problem:"
RETRY_AFTER = 5
"""When a store that is away may be asked again, in seconds."""

STATUS: dict[type[StayerError], int] = {
    errors.BadInput: 400,
    errors.TooLarge: 413,
    errors.UnknownTask: 404,
    errors.UnknownQueue: 404,
    errors.UnknownWorker: 404,
    errors.UnknownSchedule: 404,
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
    "unauthorized": (401, "Nobody is known by this token or session."),
    "forbidden": (403, "The role does not allow it."),
    "unknown-path": (404, "There is nothing at this path."),
    "method-not-allowed": (405, "This path has no such method."),
    "body-too-large": (413, "The body is over the limit."),
    "not-json": (415, "The body is not JSON."),
    "misdirected": (421, "The server does not go by this name."),
    "too-many-failures": (429, "Too many attempts have failed."),
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
    """The status of the nearest class that has one."""
    return next(STATUS[known] for known in error.__mro__ if known in STATUS)


def response(error: Problem | StayerError, store: str = "") -> Response:
    """The answer to a request that went wrong. Where the database is (`store`) is nobody's business
    who asks from afar.
    """
    if isinstance(error, Problem):
        status, title = KINDS[error.kind]
        return _response(error.kind, title, status, str(error), error.headers)
    kind = type(error)
    status = status_of(kind)
    title = (kind.__doc__ or "").partition("\n")[0]
    headers = {"retry-after": str(RETRY_AFTER)} if status == 503 else {}
    more: dict[str, JSON] = {}
    if isinstance(error, errors.TaskFailed) and error.error is not None:
        more["error"] = msgspec.to_builtins(error.error)
    if isinstance(error, errors.StoreError) and error.unsure:
        more |= {"unsure": True, "drawn": list(error.drawn)}
    detail = without_place(str(error), store) if store else str(error)
    return _response(errors.kind(kind), title, status, detail, headers, more)


def without_place(said: str, store: str) -> str:
    """The same without where the database is."""
    return said.replace(f" in {store}", "").replace(store, "the store")


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
