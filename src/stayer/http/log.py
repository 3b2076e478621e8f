"""The log of a task: as text, as a stream that goes on, in pieces for programs."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response, StreamingResponse

from stayer.core import codec
from stayer.core.errors import BadInput, StoreError, UnknownTask
from stayer.core.model import FINISHED, JSON, RUNNING, LogPiece, Task
from stayer.http.route import Answer, Call
from stayer.http.streams import (
    HEARTBEAT_S,
    STORE_RETRY_S,
    CountedResponse,
    count_stream,
    get_task,
    is_still_allowed,
    sse,
    stream_response,
    wait_for_any,
)
from stayer.http.tasks import which_attempt
from stayer.service.control import logs
from stayer.service.control import tasks as control
from stayer.service.live_updates import Attention

LOG_BYTES_PER_READ = 256_000
_PLACE = re.compile(r"[0-9]{1,9}:[0-9]{1,15}")
"""Numbers that every store can take."""
_LOG_POLL_S = 1.0
"""A log makes no events: how often to look at one that is followed."""


class LogQuery(Struct, frozen=True, kw_only=True):
    """Which part of which log."""

    attempt: Annotated[int, Meta(ge=1, le=2**31, description="Default: the last one.")] | None = (
        None
    )
    start: Annotated[int, Meta(ge=0, lt=2**53, description="Begin after so many bytes.")] = 0
    limit: Annotated[int, Meta(ge=1, lt=2**53, description="At most so many bytes.")] | None = None
    tail: (
        Annotated[int, Meta(ge=1, lt=2**31, description="Begin with the last so many lines.")]
        | None
    ) = None
    follow: Annotated[bool, Meta(description="Stay, and stream what comes (SSE).")] = False


async def log(call: Call) -> Response:
    """Answer with what a task printed: as text, or as a stream that goes on."""
    query: LogQuery = call.query
    if query.tail is not None and query.start:
        raise BadInput("give either tail or start, not both")
    task = await get_task(call, call.path["id"])
    attempt = which_attempt(task, query.attempt)
    start = query.start
    if query.tail is not None:
        lines = query.tail
        start = await call.ask(
            lambda: logs.beginning_of_tail(list(logs.read(call.store, task.id, attempt)), lines)
        )
    if query.follow:
        begin = _last_place(call, attempt, start)
        return await stream_response(
            call, lambda: _log_stream(call, task.id, query.attempt, *begin)
        )
    return await _text(call, task, attempt, start, query.limit)


async def _text(
    call: Call, task: Task, attempt: int, start: int, limit: int | None
) -> StreamingResponse:
    """Send the log portion by portion; a line says where something is missing."""
    first = await call.ask(call.store.log, task.id, attempt, start, LOG_BYTES_PER_READ)

    async def portions() -> AsyncIterator[bytes]:
        position, left, pieces = start, limit, first
        while pieces and is_still_allowed(call):
            for piece in pieces:
                if piece.start > position:
                    yield f"\n… {piece.start - position:,} bytes left out …\n".encode()
                data = piece.data if left is None else piece.data[:left]
                left = None if left is None else left - len(data)
                position = piece.start + len(piece.data)
                yield data
                if left == 0:
                    return
            pieces = await call.ask(call.store.log, task.id, attempt, position, LOG_BYTES_PER_READ)

    headers = {"cache-control": "private, no-cache", "stayer-attempt": str(attempt)}
    media = "text/plain; charset=utf-8"
    return CountedResponse(portions(), count_stream(call), headers=headers, media_type=media)


def _last_place(call: Call, attempt: int, start: int) -> tuple[int, int]:
    """Read where a client that reconnects has got to: its last id is `attempt:offset`."""
    header = call.request.headers.get("last-event-id", "")
    if not header:
        return attempt, start
    number, _, offset = header.partition(":")
    if _PLACE.fullmatch(header) is None:
        raise BadInput(f"Last-Event-ID {header[:40]!r}: send back the id of a message")
    return int(number), int(offset)


async def _log_stream(
    call: Call, id: str, only: int | None, attempt: int, offset: int
) -> AsyncIterator[bytes]:
    """Send messages `log` (`attempt`, `start`, `text`), and at last `end` with the record."""
    service = call.service
    following = _Following(call, id, only, attempt, offset)
    yield b"retry: 2000\n\n"
    async with service.hub.listen():
        position, spoken = service.hub.newest, time.monotonic()
        while is_still_allowed(call) and not service.hub.closed:
            try:
                messages = await call.ask(following.look)
            except StoreError:
                messages = [b": the store does not answer\n\n"]
                await asyncio.sleep(STORE_RETRY_S)
            if not messages and time.monotonic() - spoken >= HEARTBEAT_S:
                messages = [b": alive\n\n"]
            if messages:
                spoken = time.monotonic()
                yield b"".join(messages)
            if following.over:
                return
            if not following.more:
                position = await wait_for_any(call, [id], position, _LOG_POLL_S)


class _Following:
    """Which attempt of a task is followed, and how far it has come."""

    def __init__(self, call: Call, id: str, only: int | None, attempt: int, offset: int) -> None:
        self._store = call.store
        self._attention = Attention(call.store)
        self._id = id
        self._only = only
        self._attempt = attempt
        self._offset = offset
        self.over = False
        self.more = False
        """There is more to be read at once."""

    def look(self) -> list[bytes]:
        """Return what is new."""
        try:
            task = control.get(self._store, self._id)
        except UnknownTask:
            self.over = True
            return [sse(None, event="end")]
        self._attention.pay([task])
        ended = task.attempt > self._attempt or task.state not in RUNNING
        # Read after the task: the last of a log comes before the end of its attempt.
        messages = self._read(ended) if self._attempt else []
        if self.more:
            return messages
        if self._only is None and task.attempt > self._attempt:
            self._attempt, self._offset, self.more = task.attempt, 0, True
        elif ended and (self._only is not None or task.state in FINISHED):
            self.over = True
            messages.append(sse(codec.record(task), event="end"))
        return messages

    def _read(self, ended: bool) -> list[bytes]:
        pieces = self._store.log(self._id, self._attempt, self._offset, LOG_BYTES_PER_READ)
        self.more = sum(len(piece.data) for piece in pieces) >= LOG_BYTES_PER_READ
        messages = []
        for piece in _join(pieces):
            text, length = _decode_whole_characters(piece.data, final=ended)
            if length:
                self._offset = piece.start + length
                message = {"attempt": self._attempt, "start": piece.start, "text": text}
                messages.append(sse(message, id=f"{self._attempt}:{self._offset}", event="log"))
        return messages


def _join(pieces: list[LogPiece]) -> list[LogPiece]:
    """Join adjacent pieces, so that only a gap separates two."""
    joined: list[LogPiece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if last is not None and last.start + len(last.data) == piece.start:
            joined[-1] = LogPiece(last.start, last.data + piece.data)
        else:
            joined.append(piece)
    return joined


def _decode_whole_characters(data: bytes, *, final: bool) -> tuple[str, int]:
    """Decode text, and count its bytes: a letter that is cut in two waits for its rest."""
    length = len(data)
    if not final:
        for back in range(1, min(4, length) + 1):
            byte = data[length - back]
            if byte >= 0xC0:  # the first byte of a letter; how many it has is in its high bits
                needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
                length -= back if back < needed else 0
                break
            if byte < 0x80:
                break
    return data[:length].decode("utf-8", "replace"), length


class PiecesQuery(Struct, frozen=True, kw_only=True):
    """Which part of which log."""

    attempt: Annotated[int, Meta(ge=1, le=2**31, description="Default: the last one.")] | None = (
        None
    )
    start: Annotated[int, Meta(ge=0, lt=2**53, description="Begin after so many bytes.")] = 0
    limit: Annotated[int, Meta(ge=1, le=1_000_000, description="About so many bytes.")] = 1_000_000


def pieces(call: Call) -> Answer:
    """Return the pieces, with the gaps between them."""
    query: PiecesQuery = call.query
    task = control.get(call.store, call.path["id"])
    attempt = which_attempt(task, query.attempt)
    found = call.store.log(task.id, attempt, query.start, query.limit)
    shown: list[JSON] = [codec.log_record(piece) for piece in found]
    following = found[-1].start + len(found[-1].data) if found else query.start
    return Answer({"attempt": attempt, "pieces": shown, "next": following})
