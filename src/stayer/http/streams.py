"""What waits: the events as they come, a result when it is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from stayer.core import codec, units
from stayer.core.errors import BadInput, StoreError
from stayer.core.model import FINISHED, Event, Task
from stayer.core.units import rfc3339
from stayer.http.events import EVENTS_PER_READ, Closed, Silence
from stayer.http.problem import Problem, without_place
from stayer.http.route import EVENT_STREAM, JSON_MEDIA, Call
from stayer.http.tasks import result_of
from stayer.service.control import tasks as control

T = TypeVar("T")

HEARTBEAT_S = 15.0
"""A stream says something at least so often, so that both ends notice when the other is gone."""
LONGEST_WAIT_S = 60.0
STORE_RETRY_S = 1.0
"""Between two looks at a store that does not answer."""
_encode = msgspec.json.Encoder().encode


class EventsQuery(Struct, frozen=True, kw_only=True):
    """Which events, from where on."""

    queue: Annotated[tuple[str, ...], Meta(description="Of this queue. Repeat it for more.")] = ()
    id: Annotated[tuple[str, ...], Meta(description="Of this task. Repeat it for more.")] = ()
    since: (
        Annotated[
            int,
            Meta(ge=0, lt=2**53, description="After this number. Default: what comes from now on."),
        ]
        | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=EVENTS_PER_READ, description="JSON: how many at most.")] = (
        EVENTS_PER_READ
    )
    wait: Annotated[str, Meta(description="JSON: how long to wait for the first (60s).")] = "0s"


class EventFilter:
    """Of which queues and tasks events are wanted. Made once for each who asks, and asked about
    every event there is: what it costs must not grow with what was named.
    """

    def __init__(self, query: EventsQuery) -> None:
        self._queues, self._ids = frozenset(query.queue), frozenset(query.id)

    def select(self, events: list[Event]) -> list[Event]:
        """Return those of the events that are wanted."""
        if self._queues:
            events = [event for event in events if event.queue in self._queues]
        return [event for event in events if event.id in self._ids] if self._ids else events


async def events(call: Call) -> Response:
    """Answer with a stream of events, or as JSON with the next ones."""
    query: EventsQuery = call.query
    since = _last_event_id(call, query.since)
    wait = _wait(query.wait)
    filter = EventFilter(query)
    if JSON_MEDIA in call.request.headers.get("accept", ""):
        return await _next_events(call, query.limit, filter, since, wait)
    return await stream_response(call, lambda: _event_stream(call, filter, since))


def _last_event_id(call: Call, since: int | None) -> int | None:
    """Read the last event that a reconnecting browser knows: the URL has only where it began."""
    header = call.request.headers.get("last-event-id", "")
    if not header:
        return since
    if not (header.isascii() and header.isdecimal()) or len(header) > 15:
        raise BadInput(f"Last-Event-ID {header[:40]!r}: send back the id of an event")
    return int(header)


def _wait(text: str) -> float:
    try:
        return min(units.duration(text), LONGEST_WAIT_S)
    except BadInput as error:
        raise BadInput(f"wait: {error}") from None


async def _next_events(
    call: Call, limit: int, filter: EventFilter, since: int | None, wait: float
) -> Response:
    """Answer a long poll of a program: up to `limit` events, and where to go on."""
    found: list[Event] = []
    store = call.store
    if wait > 0:
        position, found = await while_there(call, _awaited_events(call, limit, filter, since, wait))
    elif since is None:
        position = await call.ask(store.last_event)
    else:  # not worth a watching thread
        position = since
        found = await call.ask(store.watch, position, 0.0, limit)
    check_still_allowed(call)
    position = found[-1].number if found else position
    shown = [codec.event_record(event) for event in filter.select(found)]
    content = _encode({"events": shown, "next": position})
    return Response(content, headers={"cache-control": "no-store"}, media_type=JSON_MEDIA)


async def _awaited_events(
    call: Call, limit: int, filter: EventFilter, since: int | None, wait: float
) -> tuple[int, list[Event]]:
    """Wait for events; return how far it has looked, and what it has found."""
    found: list[Event] = []
    deadline = time.monotonic() + wait
    hub = call.service.hub
    async with hub.listen():
        position = hub.newest if since is None else since
        while not found and (left := deadline - time.monotonic()) > 0:
            try:
                found = (await hub.after(position, left, call.ask))[:limit]
            except Closed:
                break
            if found and not filter.select(found):
                position, found = found[-1].number, []
    return position, found


async def while_there(call: Call, work: Coroutine[Any, Any, T]) -> T:
    """Wait for this, counted as a stream, as long as the client is there."""
    try:
        end = count_stream(call)
    except Problem:
        work.close()
        raise
    done = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_until_disconnected(call))
    try:
        await asyncio.wait((done, gone), return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise ClientDisconnect
        return done.result()
    finally:
        end()
        done.cancel()
        gone.cancel()


async def _until_disconnected(call: Call) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass


def count_stream(call: Call) -> Callable[[], None]:
    """Count a stream for who asks; Problem if there are too many. What it returns ends that."""
    assert call.who is not None
    token = call.who.account
    address = call.request.client.host if call.request.client else "unknown"
    streams = call.service.streams
    streams.begin(token, address)
    return lambda: streams.end(token, address)


async def stream_response(
    call: Call, stream: Callable[[], AsyncIterator[bytes]]
) -> StreamingResponse:
    """Answer with a stream of messages, counted while it is open."""
    async with call.service.hub.listen():
        pass  # a store that does not answer is said before anything else is
    end = count_stream(call)

    async def pieces() -> AsyncIterator[bytes]:
        try:
            async for piece in stream():
                if not is_still_allowed(call):  # asked after the wait, not before
                    return
                yield piece
        except Closed:
            return

    # A proxy that gathers what comes until its buffer is full would be no live stream.
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return CountedResponse(pieces(), end, headers=headers, media_type=EVENT_STREAM)


class CountedResponse(StreamingResponse):
    """Counted from before it begins until it has ended, whether or not anything was sent."""

    def __init__(self, pieces: AsyncIterator[bytes], end: Callable[[], None], **rest: Any) -> None:
        super().__init__(pieces, **rest)
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._end()


def sse(data: object, *, id: str | None = None, event: str | None = None) -> bytes:
    """Encode one message. JSON on one line can't break out of its field."""
    parts = [b"id: " + id.encode() + b"\n"] if id is not None else []
    if event is not None:
        parts.append(b"event: " + event.encode() + b"\n")
    return b"".join((*parts, b"data: ", _encode(data), b"\n\n"))


def is_still_allowed(call: Call) -> bool:
    """Return whether who began a stream would still be let in, and note the session's use."""
    who = call.who
    if who is None or not call.service.sessions.holds(who):
        return False
    call.service.access.note_use(who.key)
    return True


def check_still_allowed(call: Call) -> None:
    """Raise Problem if who has waited for an answer would no longer be let in."""
    if not is_still_allowed(call):
        raise Problem("unauthorized", "this token or session has ended while it waited")


async def _event_stream(call: Call, filter: EventFilter, since: int | None) -> AsyncIterator[bytes]:
    hub = call.service.hub
    async with hub.listen():
        store, silence = hub.count_of_stores, None
        # Numbers beyond the newest are of another store: from now on, then.
        position = hub.newest if since is None else min(since, hub.newest)
        yield b"retry: 2000\nid: %d\n\n" % position
        sent_at = time.monotonic()
        while is_still_allowed(call) and store == hub.count_of_stores:
            if hub.silence != silence:
                silence = hub.silence
                yield _whether_it_answers(silence, call.store.url)
            try:
                found = await hub.after(position, HEARTBEAT_S, call.ask)
            except (StoreError, Problem):  # or too many of this token ask at once
                yield b": the store does not answer\n\n"
                await asyncio.sleep(STORE_RETRY_S)
                continue
            if found:
                position = found[-1].number
            messages = [
                sse(codec.event_record(event), id=str(event.number))
                for event in filter.select(found)
            ]
            if messages:
                yield b"".join(messages)
            elif not found or time.monotonic() - sent_at >= HEARTBEAT_S:
                yield b": alive\nid: %d\n\n" % position
            else:
                await asyncio.sleep(0)  # the next are there already: others first
                continue
            sent_at = time.monotonic()


def _whether_it_answers(silence: Silence | None, store: str) -> bytes:
    """A message of its own kind, which who knows only of events passes over."""
    if silence is None:
        return sse({"answers": True}, event="store")
    why = without_place(silence.why, store)
    message = {"answers": False, "since": rfc3339(silence.since), "detail": why}
    return sse(message, event="store")


class ResultQuery(Struct, frozen=True, kw_only=True):
    """How patient."""

    wait: Annotated[str, Meta(description="How long to wait for its end, at most 60s.")] = "0s"


async def result(call: Call) -> Response:
    """Answer with what a task returned, waiting for it if asked to."""
    id = call.path["id"]
    deadline = time.monotonic() + _wait(call.query.wait)
    task = await get_task(call, id)
    if task.state not in FINISHED and time.monotonic() < deadline:
        task = await while_there(call, _await_task(call, id, deadline))
        check_still_allowed(call)
    outcome = result_of(task)
    if isinstance(outcome, Response):
        return outcome
    return Response(_encode(outcome), headers={"cache-control": "no-store"}, media_type=JSON_MEDIA)


async def get_task(call: Call, id: str) -> Task:
    """Read a task, in a thread."""
    return await call.ask(control.get, call.store, id)


async def _await_task(call: Call, id: str, deadline: float) -> Task:
    async with call.service.hub.listen():
        position = call.service.hub.newest
        while True:
            task = await get_task(call, id)
            left = deadline - time.monotonic()
            if task.state in FINISHED or left <= 0:
                return task
            position = await wait_for_any(call, [id], position, left)


async def wait_for_any(call: Call, ids: Collection[str], position: int, timeout: float) -> int:
    """Wait until something happens to one of the tasks, or the time is over."""
    deadline = time.monotonic() + timeout
    while (left := deadline - time.monotonic()) > 0:
        try:
            found = await call.service.hub.after(position, left, call.ask)
        except (Closed, Problem):  # who asks next says what is wrong
            break
        position = found[-1].number if found else position
        if any(event.id in ids for event in found):
            break
    return position
