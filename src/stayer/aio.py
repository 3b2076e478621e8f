"""The Python interface for asyncio: each class uses the one of the same name in `stayer.client`.

What may block runs in a thread; that which blocks for long has a daemon thread of its own, so that
it takes no place in a pool and never keeps a program from ending. `sync` is what a class stands on.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from itertools import islice
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeAlias, TypeVar, Unpack

from msgspec import UNSET, UnsetType

from stayer import client as sync
from stayer.client.flow import Plan
from stayer.client.handle import TaskView
from stayer.client.submit import Options, RetryOptions
from stayer.client.values import Duration, Storable, seconds
from stayer.core.errors import BadInput, Refused, StayerError, StoreUnreachable
from stayer.core.flows.model import FlowInfo
from stayer.core.flows.sweep import Run
from stayer.core.insight.comparison import Comparison
from stayer.core.model import JSON, Code, SentFile, State, Task, Value

__all__ = ["Client", "FlowHandle", "Listener", "Processor", "Queue", "TaskHandle"]

WAIT_SLICE_S = 10.0
"""How long a thread waits at a time, in seconds: so long it lives on when nobody awaits it."""
READ_BATCH = 100
"""How many handles a thread reads at a time."""

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
F = TypeVar("F")
Awaited: TypeAlias = Coroutine[Any, Any, R]


class _Facade(Generic[S]):
    """Stands on a synchronous object, which is made in a thread when it is first used."""

    __slots__ = ("_made", "_make", "_making")

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._making = threading.Lock()
        self._made: S | None = None

    @property
    def sync(self) -> S:
        """What it stands on; may connect."""
        with self._making:
            if self._made is None:
                self._made = self._make()
            return self._made


def _awaited(
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[_Facade[S], P], Awaited[R]]:
    """Make a method awaited: it runs in a thread."""

    @functools.wraps(method)
    async def call(self: _Facade[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(lambda: method(self.sync, *args, **kwargs))

    return call


def _handled(
    method: Callable[Concatenate[S, P], sync.TaskHandle[Value]],
) -> Callable[Concatenate[_Facade[S], P], Awaited[TaskHandle[Value]]]:
    """Make a method awaited whose answer is a handle."""

    @functools.wraps(method)
    async def call(self: _Facade[S], /, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[Value]:
        return TaskHandle(await asyncio.to_thread(lambda: method(self.sync, *args, **kwargs)))

    return call


def _handled_many(
    method: Callable[Concatenate[S, P], list[sync.TaskHandle[Value]]],
) -> Callable[Concatenate[_Facade[S], P], Awaited[list[TaskHandle[Value]]]]:
    """Make a method awaited whose answer is several handles."""

    @functools.wraps(method)
    async def call(
        self: _Facade[S], /, *args: P.args, **kwargs: P.kwargs
    ) -> list[TaskHandle[Value]]:
        made = await asyncio.to_thread(lambda: method(self.sync, *args, **kwargs))
        return [TaskHandle(handle) for handle in made]

    return call


def _lazily(
    method: Callable[Concatenate[sync.Client, P], S], facade: Callable[[Callable[[], S]], F]
) -> Callable[Concatenate[Client, P], F]:
    """Make a method do nothing yet: what it makes is made when it is first used."""

    @functools.wraps(method)
    def call(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> F:
        return facade(lambda: method(self.sync, *args, **kwargs))

    return call


def _streamed(
    method: Callable[Concatenate[sync.Client, P], Iterator[sync.TaskHandle[Value]]],
) -> Callable[Concatenate[Client, P], AsyncIterator[TaskHandle[Value]]]:
    """Make a method awaited whose answer is read in batches."""

    @functools.wraps(method)
    async def call(
        self: Client, /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncIterator[TaskHandle[Value]]:
        found = await asyncio.to_thread(lambda: method(self.sync, *args, **kwargs))
        while batch := await asyncio.to_thread(lambda: list(islice(found, READ_BATCH))):
            for handle in batch:
                yield TaskHandle(handle)

    return call


def _in_thread(function: Callable[[], R]) -> Future[R]:
    """Start what may take days."""
    future: Future[R] = Future()
    future.set_running_or_notify_cancel()  # so that cancelling the awaiter does not cancel it
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(function)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name="stayer.aio", daemon=True).start()
    return future


async def _patiently(ends_within: Callable[[float], bool], timeout: Duration | None) -> bool:
    """Wait for an end, a slice at a time."""
    deadline = None if timeout is None else time.monotonic() + seconds(timeout)
    while True:
        left = WAIT_SLICE_S if deadline is None else max(0.0, deadline - time.monotonic())
        look = functools.partial(ends_within, min(WAIT_SLICE_S, left))
        try:
            if await asyncio.wrap_future(_in_thread(look)):
                return True
        except StoreUnreachable:
            if left <= WAIT_SLICE_S and deadline is not None:
                raise
        if left <= WAIT_SLICE_S and deadline is not None:
            return False


class TaskHandle(_Facade[sync.TaskHandle[R]], TaskView, Generic[R]):
    """A task as it was when last read, with the verbs that change it and read it again."""

    __slots__ = ()

    def __init__(self, handle: sync.TaskHandle[R]) -> None:
        super().__init__(lambda: handle)

    @property
    def record(self) -> Task:
        """The task as it was when last read."""
        return self.sync.record

    @property
    def fresh(self) -> bool | None:
        """Whether the submit that gave this handle made the task, or it was there already; None:
        it is not from a submit.
        """
        return self.sync.fresh

    @property
    def result(self) -> R | None:
        """What it returned; None until it is complete. `wait` waits for it."""
        return self.sync.result

    async def ends_within(self, timeout: Duration | None = None) -> bool:
        """Wait until it has ended, well or badly; whether it has."""
        return await _patiently(self.sync.ends_within, timeout)

    async def wait(self, timeout: Duration | None = None) -> R:
        """Wait for the result; else raises TaskFailed, TaskCancelled or WaitTimeout."""
        await self.ends_within(timeout)
        return await asyncio.to_thread(self.sync.wait, 0)

    async def refresh(self) -> Self:
        """Read the task again."""
        await asyncio.to_thread(self.sync.refresh)
        return self

    async def cancel(self, grace: Duration | None = None) -> Self:
        """Cancel it: at once if it waits, else by asking whoever runs it to stop."""
        await asyncio.to_thread(self.sync.cancel, grace)
        return self

    async def retry(
        self,
        *,
        from_start: bool = False,
        now: bool = False,
        code: Literal["pinned", "latest"] | Code | None = "pinned",
        parameters: Storable | UnsetType = UNSET,
        set_parameters: Mapping[str, JSON] | None = None,
        **options: Unpack[RetryOptions],
    ) -> Self:
        """Run it again, now that it has ended: from its last checkpoint, or from the start. One
        that was cancelled before its eta waits for that, unless it is to run `now`. With the
        `latest` code it runs what it asks for as that is now, not what it was pinned to. The rest
        changes what it does from now on, as in `edit`.
        """
        await asyncio.to_thread(
            lambda: self.sync.retry(
                from_start=from_start, now=now, code=code, parameters=parameters,
                set_parameters=set_parameters, **options,
            )
        )  # fmt: skip
        return self

    async def edit(
        self,
        *,
        parameters: Storable | UnsetType = UNSET,
        set_parameters: Mapping[str, JSON] | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """Change what it is to do while it waits."""
        await asyncio.to_thread(
            lambda: self.sync.edit(parameters=parameters, set_parameters=set_parameters, **options)
        )
        return self

    async def clone(
        self,
        *,
        id: str | None = None,
        queue: str | None = None,
        parameters: Storable | UnsetType = UNSET,
        set_parameters: Mapping[str, JSON] | None = None,
        **options: Unpack[Options],
    ) -> Self:
        """Submit a task like it, with changes, and get that."""
        return type(self)(
            await asyncio.to_thread(
                lambda: self.sync.clone(
                    id=id, queue=queue, parameters=parameters, set_parameters=set_parameters,
                    **options,
                )
            )
        )  # fmt: skip

    async def declare_complete(self, result: Storable = None) -> Self:
        """Say that it is done, with this result, whatever became of it here."""
        await asyncio.to_thread(self.sync.declare_complete, result)
        return self

    async def declare_failed(self, error: str = "") -> Self:
        """Say that it has failed, whatever became of it here."""
        await asyncio.to_thread(self.sync.declare_failed, error)
        return self

    async def set_meta(self, /, **fields: JSON) -> Self:
        """Set fields of your own, whatever state it is in; None takes one away."""
        await asyncio.to_thread(self.sync.set_meta, **fields)
        return self

    async def hold(self) -> Self:
        """Keep it from being taken until it is released."""
        await asyncio.to_thread(self.sync.hold)
        return self

    async def release(self) -> Self:
        """Let it be taken again."""
        await asyncio.to_thread(self.sync.release)
        return self

    delete = _awaited(sync.TaskHandle.delete)
    attempts = _awaited(sync.TaskHandle.attempts)
    statistics = _awaited(sync.TaskHandle.statistics)
    events = _awaited(sync.TaskHandle.events)


class FlowHandle(_Facade[sync.FlowHandle]):
    """A flow as it was when last read, with the verbs that change it and read it again."""

    __slots__ = ()

    def __init__(self, handle: sync.FlowHandle) -> None:
        super().__init__(lambda: handle)

    @property
    def info(self) -> FlowInfo:
        """Its parts, and how many tasks of each are in each state."""
        return self.sync.info

    @property
    def id(self) -> str:
        return self.sync.id

    @property
    def name(self) -> str:
        return self.sync.name

    @property
    def state(self) -> State:
        """The state that it would have if it were one task."""
        return self.sync.state

    async def ends_within(self, timeout: Duration | None = None) -> bool:
        """Wait until all of it has ended, well or badly; whether it has."""
        return await _patiently(self.sync.ends_within, timeout)

    async def wait(self, timeout: Duration | None = None) -> Self:
        """Wait until all is complete; else raises TaskFailed, TaskCancelled or WaitTimeout."""
        await self.ends_within(timeout)
        await asyncio.to_thread(self.sync.wait, 0)
        return self

    async def refresh(self) -> Self:
        """Read it again."""
        await asyncio.to_thread(self.sync.refresh)
        return self

    async def cancel(self, grace: Duration | None = None) -> Self:
        """Cancel all that has not ended; what runs is asked to stop."""
        await asyncio.to_thread(self.sync.cancel, grace)
        return self

    async def retry(self, *, from_start: bool = False) -> Self:
        """Run again what failed or was cancelled, each from its last checkpoint or from the start;
        what is complete stays.
        """
        await asyncio.to_thread(self.sync.retry, from_start=from_start)
        return self

    async def compare(self, part: str | None = None) -> list[Run]:
        """List the runs of a sweep, or of a map of a flow."""
        return await asyncio.to_thread(self.sync.compare, part)

    async def task(self, part: str, place: int | None = None) -> TaskHandle[Value]:
        """Get the task of a part, or at a place of a map."""
        return TaskHandle(await asyncio.to_thread(self.sync.task, part, place))

    async def tasks(self) -> AsyncIterator[TaskHandle[Value]]:
        """List all of its tasks, newest first."""
        found = self.sync.tasks()
        while batch := await asyncio.to_thread(lambda: list(islice(found, READ_BATCH))):
            for handle in batch:
                yield TaskHandle(handle)


class Queue(_Facade[sync.Queue]):
    """A named list of tasks, made by its first task."""

    enqueue = _awaited(sync.Queue.enqueue)
    enqueue_many = _awaited(sync.Queue.enqueue_many)
    submit = _handled(sync.Queue.submit)
    submit_many = _handled_many(sync.Queue.submit_many)
    schedule = _awaited(sync.Queue.schedule)
    info = _awaited(sync.Queue.info)
    counts = _awaited(sync.Queue.counts)
    count = _awaited(sync.Queue.count)
    pause = _awaited(sync.Queue.pause)
    resume = _awaited(sync.Queue.resume)
    set_limit = _awaited(sync.Queue.set_limit)
    set = _awaited(sync.Queue.set)
    set_retention = _awaited(sync.Queue.set_retention)
    delete = _awaited(sync.Queue.delete)
    drop = _awaited(sync.Queue.drop)

    async def peek(self, limit: int = 10) -> list[TaskHandle[Value]]:
        """List what would be taken next, best first, without taking it."""
        found = await asyncio.to_thread(lambda: self.sync.peek(limit))
        return [TaskHandle(handle) for handle in found]


class Processor(_Facade[sync.Processor]):
    """One attempt at a task. As a context manager: starts it, then completes it, or fails it with
    the exception, which goes on; leaving by a cancelled await gives it back.
    """

    start = _awaited(sync.Processor.start)
    complete = _awaited(sync.Processor.complete)
    fail = _awaited(sync.Processor.fail)
    give_back = _awaited(sync.Processor.give_back)
    snooze = _awaited(sync.Processor.snooze)
    stopped = _awaited(sync.Processor.stopped)
    progress = _awaited(sync.Processor.progress)
    metric = _awaited(sync.Processor.metric)
    step = _awaited(sync.Processor.step)
    checkpoint = _awaited(sync.Processor.checkpoint)
    restore = _awaited(sync.Processor.restore)
    set_meta = _awaited(sync.Processor.set_meta)
    __aexit__ = _awaited(sync.Processor.__exit__)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    @property
    def parameters(self) -> Value:
        """What the task is to work on."""
        return self.sync.parameters

    @property
    def inputs(self) -> dict[str, Any]:
        """The results of what it runs after; reads the store when first asked for."""
        return self.sync.inputs

    async def is_cancelled(self) -> bool:
        """Tell whether somebody wants the task gone: then stop the work and say `stopped()`."""
        return await asyncio.to_thread(lambda: self.sync.cancelled)


class Listener(_Facade[sync.Listener]):
    """Claims tasks and keeps the lease on them until they are settled or it is closed."""

    close = _awaited(sync.Listener.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[TaskHandle[Value]]:
        """Give tasks as they come, until the listener is closed."""
        while True:
            try:
                task = await self.listen()
            except Refused:
                if self.sync.closed:
                    return
                raise
            if task is not None:
                yield task

    async def listen(self, timeout: Duration | None = None) -> TaskHandle[Value] | None:
        """Wait for a task and claim it; None when the time is over.

        If the awaiting is cancelled, so is the listening; a task claimed just then goes back.
        """
        if callable(timeout):
            raise BadInput("listen waits for one task: for each that comes, `async for … in` it")
        stop = threading.Event()
        future = _in_thread(lambda: self.sync.listen(timeout, stop=stop))
        try:
            task = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            stop.set()
            if self._made is not None:
                self._made.ring()
            future.add_done_callback(lambda done: _in_thread(lambda: self._give_back(done)))
            raise
        return None if task is None else TaskHandle(task)

    def _give_back(self, listened: Future[sync.TaskHandle[Value] | None]) -> None:
        """Give back what was claimed for nobody; if that fails, it is claimed next."""
        with suppress(StayerError):
            if (task := listened.result()) is not None:
                self.sync.give_back(task)


class Client(_Facade[sync.Client]):
    """A connection to a store, for submitting tasks, following them and working on them."""

    def __init__(self, url: str | None = None) -> None:
        super().__init__(lambda: sync.Client(url))

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(lambda: self.sync)
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    get_queue = _lazily(sync.Client.get_queue, Queue)
    get_listener = _lazily(sync.Client.get_listener, Listener)
    queues = _awaited(sync.Client.queues)
    workers = _awaited(sync.Client.workers)
    set_worker = _awaited(sync.Client.set_worker)
    drop_worker = _awaited(sync.Client.drop_worker)
    failures = _awaited(sync.Client.failures)
    notices = _awaited(sync.Client.notices)
    retry_notices = _awaited(sync.Client.retry_notices)
    schedules = _awaited(sync.Client.schedules)
    add_schedule = _awaited(sync.Client.add_schedule)
    pause_schedule = _awaited(sync.Client.pause_schedule)
    resume_schedule = _awaited(sync.Client.resume_schedule)
    drop_schedule = _awaited(sync.Client.drop_schedule)

    async def run_schedule(self, name: str) -> TaskHandle[Value]:
        """Submit its task now, once, apart from its ticks."""
        return TaskHandle(await asyncio.to_thread(lambda: self.sync.run_schedule(name)))

    find = _streamed(sync.Client.find)

    async def submit(self, flow: Plan) -> FlowHandle:
        """Submit a flow: all of it, or nothing."""
        return FlowHandle(await asyncio.to_thread(lambda: self.sync.submit(flow)))

    async def compare(
        self, tasks: Iterable[str | TaskHandle[Value]], *, all: bool = False
    ) -> Comparison:
        """Compare tasks: parameters, metrics, steps, durations and results side by side."""
        ids = [task if isinstance(task, str) else task.id for task in tasks]
        return await asyncio.to_thread(lambda: self.sync.compare(ids, all=all))

    async def sweep(
        self,
        grid: Mapping[str, Iterable[JSON]],
        *,
        queue: str,
        parameters: Mapping[str, JSON] | None = None,
        throttle: int | None = None,
        id: str | None = None,
        title: str | None = None,
        **options: Unpack[Options],
    ) -> FlowHandle:
        """Submit a task for each combination of the values in the grid."""
        return FlowHandle(
            await asyncio.to_thread(
                lambda: self.sync.sweep(
                    grid, queue=queue, parameters=parameters, throttle=throttle, id=id,
                    title=title, **options,
                )
            )
        )  # fmt: skip

    async def send_file(self, path: str | os.PathLike[str], name: str | None = None) -> SentFile:
        """Send a file of this machine to the store, for the `files` of a Code."""
        return await asyncio.to_thread(self.sync.send_file, path, name)

    async def get_flow(self, id: str) -> FlowHandle:
        """Get the flow with this id; UnknownFlow if there is none."""
        return FlowHandle(await asyncio.to_thread(lambda: self.sync.get_flow(id)))

    async def flows(self) -> AsyncIterator[FlowHandle]:
        """List all flows, newest first."""
        found = await asyncio.to_thread(sync.Client.flows, self.sync)
        while batch := await asyncio.to_thread(lambda: list(islice(found, READ_BATCH))):
            for handle in batch:
                yield FlowHandle(handle)

    async def get_task(self, id: str) -> TaskHandle[Value]:
        """Get the task with this id; UnknownTask if there is none."""
        return TaskHandle(await asyncio.to_thread(lambda: self.sync.get_task(id)))

    def get_processor(self, task: TaskHandle[Any] | Task) -> Processor:
        """Get who works on a claimed task: also one that another process has claimed."""
        held = task if isinstance(task, Task) else task.sync
        return Processor(lambda: self.sync.get_processor(held))

    async def close(self) -> None:
        """Close its listeners, which gives back what they hold, and all connections."""
        if self._made is not None:
            await asyncio.to_thread(self._made.close)
