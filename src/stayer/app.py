"""Functions as tasks: `@app.task` makes a function that can be submitted, typed as before.

Arguments are stored as one JSON object by parameter name, so that any language can submit the same
task. The worker calls `App.call`. Nothing is connected before it is needed: a module that has an
App can be imported anywhere.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)
from weakref import WeakSet

import msgspec

from stayer.client.arguments import Arguments, from_json, to_json
from stayer.client.elsewhere import elsewhere
from stayer.client.submit import Defaults, Life, build, submit, submit_many, with_parameters
from stayer.client.values import Duration, Moment, seconds
from stayer.core import patterns
from stayer.core.errors import BadInput, BadResult
from stayer.core.model import JSON, NewTask, Task, Value
from stayer.core.submit.names import check_word
from stayer.task.context import Context, current_task

P = ParamSpec("P")
R = TypeVar("R")
Hook = TypeVar("Hook", bound=Callable[[Context], object])
Scheduled = TypeVar("Scheduled", bound="TaskFunction[..., Any]")

if TYPE_CHECKING:
    from stayer import aio
    from stayer.client import Client, TaskHandle
    from stayer.core.schedules.model import CatchUp, Overlap, Schedule

    Coro = Coroutine[Any, Any, R]


class _Register(Protocol):
    """Makes a function a task. One whose first parameter is a Context is submitted without it."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, P], Coro[R]], /
    ) -> AsyncTaskFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> TaskFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coro[R]], /) -> AsyncTaskFunction[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R]: ...


class App:
    """The functions that can be tasks, by name, and the store they are submitted to."""

    def __init__(self, url_or_client: str | Client | None = None, queue: str = "default") -> None:
        self.queue = queue
        self._url, self._client = _url_and_client(url_or_client)
        self._connecting = threading.Lock()
        self._functions: dict[str, TaskFunction[..., Any]] = {}
        self._routes: dict[str, TaskFunction[..., Any]] = {}
        self._before: list[Callable[[Context], object]] = []
        self._after: list[Callable[[Context], object]] = []
        self._schedules: dict[str, Schedule] = {}
        _living.add(self)

    @property
    def client(self) -> Client:
        """The client it submits with, connected when first used."""
        with self._connecting:
            if self._client is None:
                from stayer.client import Client

                self._client = Client(self._url)
            return self._client

    def bind(self, url_or_client: str | Client | None) -> Binding:
        """Point it at another store, at once: that of a test, of a tenant, of this deployment. As a
        context manager: until its end. None: the one that the settings name.
        """
        return Binding(self, url_or_client)

    @property
    def names(self) -> tuple[str, ...]:
        """What its tasks are called."""
        return tuple(self._functions)

    @property
    def routes(self) -> tuple[str, ...]:
        """Patterns of the names of other tasks that it runs."""
        return tuple(self._routes)

    @overload
    def task(
        self, function: Callable[Concatenate[Context, P], Coro[R]], /
    ) -> AsyncTaskFunction[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> TaskFunction[P, R]: ...
    @overload
    def task(self, function: Callable[P, Coro[R]], /) -> AsyncTaskFunction[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> TaskFunction[P, R]: ...
    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        match: str | Sequence[str] = (),
        **options: Unpack[Life],
    ) -> _Register: ...
    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        match: str | Sequence[str] = (),
        **options: Unpack[Life],
    ) -> TaskFunction[..., Any] | _Register:
        """Make a function a task; the options hold for each submission that says nothing else.

        A parameter annotated `Context` is given the running task, and is not submitted. The
        function also runs tasks whose name fits one of the patterns of `match`, such as `film-*`,
        and is that of no function; the first one that fits.
        """
        fitting = (match,) if isinstance(match, str) else tuple(match)

        def register(function: Callable[..., Any]) -> TaskFunction[..., Any]:
            called = _stable_name(function) if name is None else name
            kind = AsyncTaskFunction if inspect.iscoroutinefunction(function) else TaskFunction
            made = kind(self, function, called, queue, options)
            if made.name in self._functions:
                raise BadInput(f"there is a task {made.name} already: give this one another name")
            self._functions[made.name] = made
            for pattern in fitting:
                check_word("match", pattern)
                self._routes.setdefault(pattern, made)
            return made

        return cast(_Register, register) if function is None else register(function)

    def cron(
        self,
        expression: str,
        /,
        *,
        name: str | None = None,
        zone: str = "UTC",
        overlap: Overlap = "skip",
        catch_up: CatchUp = "last",
        jitter: Duration = 0.0,
        paused: bool = False,
        parameters: Mapping[str, object] | None = None,
    ) -> Callable[[Scheduled], Scheduled]:
        """Let a task be submitted by the clock, with these parameters: `@app.cron("30 2 * * *")`
        above its `@app.task`. Workers of this app see to it. The schedule is called as the task is.
        """

        def declare(function: Scheduled) -> Scheduled:
            called = function.name if name is None else name
            task = function.pattern(parameters or {})
            from stayer.core.schedules import parse
            from stayer.core.schedules.model import Schedule

            wanted = Schedule(
                name=called, cron=expression, zone=zone, overlap=overlap, catch_up=catch_up,
                jitter=seconds(jitter), paused=paused, task=parse.without_id(task),
            )  # fmt: skip
            if called in self._schedules:
                raise BadInput(f"there is a schedule {called} already: give this one another name")
            self._schedules[called] = parse.check_schedule(wanted, 0.0)
            return function

        return declare

    @property
    def schedules(self) -> tuple[dict[str, JSON], ...]:
        """What it wants submitted by the clock, as it is written in JSON."""
        from stayer.core.schedules import parse

        return tuple(map(parse.schedule_json, self._schedules.values()))

    def before(self, hook: Hook, /) -> Hook:
        """Call this before each task, in its process, with its Context; what it raises fails it."""
        self._before.append(hook)
        return hook

    def after(self, hook: Hook, /) -> Hook:
        """Call this after each task that has begun, however it ended, the last added first."""
        self._after.insert(0, hook)
        return hook

    def is_async(self, name: str) -> bool:
        """Tell whether the task of this name is awaited."""
        return isinstance(self._find(name), AsyncTaskFunction)

    def call(self, task: Task | TaskHandle[object] | Context) -> Value:
        """Run the function of a task with its parameters; the result as it is to be stored."""
        function = self._function_of(task)
        if not isinstance(task, Task | Context):
            task = task.record
        if isinstance(task, Task) and (self._before or self._after or function.wants_context):
            task = Context.detached(task)
        if not isinstance(task, Context):
            return function.call(task.parameters)
        for hook in self._before:
            hook(task)
        try:
            return function.call(task.parameters, task)
        finally:
            for hook in self._after:
                hook(task)

    async def call_async(self, task: Context) -> Value:
        """Call it in an event loop that is there already."""
        function = self._function_of(task)
        for hook in self._before:
            hook(task)
        try:
            return await function.call_async(task.parameters, task)
        finally:
            for hook in self._after:
                hook(task)

    def _function_of(self, task: Task | TaskHandle[object] | Context) -> TaskFunction[..., Any]:
        function = self._find(task.name or "")
        if function is None:
            raise BadInput(f"no function for task {task.id}: {task.name!r} is not in this app")
        return function

    def _find(self, name: str) -> TaskFunction[..., Any] | None:
        if (function := self._functions.get(name)) is not None or not name:
            return function
        fitting = (made for route, made in self._routes.items() if patterns.matches(name, route))
        return next(fitting, None)


def _url_and_client(given: str | Client | None) -> tuple[str | None, Client | None]:
    return (given, None) if given is None or isinstance(given, str) else (None, given)


class Binding:
    """An app that points at another store, until it is undone."""

    def __init__(self, app: App, url_or_client: str | Client | None) -> None:
        self._app = app
        url, given = _url_and_client(url_or_client)
        with app._connecting:
            self._before = app._url, app._client
            app._url, app._client = url, given
        self._given = given

    def __enter__(self) -> App:
        return self._app

    def __exit__(self, *raised: object) -> None:
        self.undo()

    def undo(self) -> None:
        """Point the app where it pointed before, and close what was opened meanwhile."""
        with self._app._connecting:
            opened = self._app._client
            self._app._url, self._app._client = self._before
        if opened is not None and opened is not self._given and opened is not self._before[1]:
            opened.close()


_living: WeakSet[App] = WeakSet()


def living_apps() -> list[App]:
    """List the apps that there are in this process."""
    return list(_living)


def app_of(function: Callable[..., Any], name: str) -> App:
    """Make an app of one function, for a task that names where it is. One that an app has made a
    task of keeps the hooks of that app.
    """
    if isinstance(function, TaskFunction):
        app = copy.copy(function._app)
        app._functions, app._routes = {name: function}, {}
        return app
    app = App()
    app.task(name=name)(function)
    return app


class TaskFunction(Generic[P, R]):
    """A function that is called as before, or submitted to be run elsewhere."""

    def __init__(
        self, app: App, function: Callable[P, R], name: str, queue: str | None, options: Life
    ) -> None:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise BadInput(f"task {name}: a task is a plain or async function, not a generator")
        functools.update_wrapper(self, function)
        self.name = name
        self._app = app
        self._function = function
        self._arguments = Arguments(function, name)
        self._queue = app.queue if queue is None else queue
        self._options: Life = options
        self._id: str | None = None
        self._eta: Moment | None = None
        self._delay: Duration | None = None
        self._connection: object = None
        self._new(None, Defaults())  # a wrong name or option shows at once

    def __repr__(self) -> str:
        return f"<TaskFunction {self.name}>"

    if not TYPE_CHECKING:  # else any name would do

        def __getattr__(self, name: str) -> NoReturn:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(text + elsewhere(name), name=name, obj=self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.wants_context:
            context = current_task() or Context.for_test(name=self.name)
            positional, named = self._arguments.complete(context, *args, **kwargs)
            return cast(Callable[..., R], self._function)(*positional, **named)
        return self._function(*args, **kwargs)

    @property
    def wants_context(self) -> bool:
        """Whether it has a parameter for the running task."""
        try:
            return bool(self._arguments.contexts)
        except TypeError:  # annotations that are not there at run time
            return False

    def options(
        self,
        *,
        id: str | None = None,
        queue: str | None = None,
        eta: Moment | None = None,
        delay: Duration | None = None,
        connection: object = None,
        **options: Unpack[Life],
    ) -> Self:
        """Make the same function that is submitted with these options."""
        changed = copy.copy(self)
        changed._options = {**self._options, **options}
        changed._id = self._id if id is None else id
        changed._queue = self._queue if queue is None else queue
        changed._eta = self._eta if eta is None else eta
        changed._delay = self._delay if delay is None else delay
        changed._connection = self._connection if connection is None else connection
        return changed

    def s(self, *args: P.args, **kwargs: P.kwargs) -> FunctionCall:
        """Make a call that is not submitted yet, for a flow."""
        return FunctionCall(self, self._arguments.pack(*args, **kwargs))

    def _made(
        self,
        build: Callable[..., NewTask],
        parameters: Value,
        queue: str | None,
        otherwise: str | None,
        options: Mapping[str, Any],
    ) -> NewTask:
        """Make a task of this function for a flow, in this queue; `otherwise`: if it has none
        itself.
        """
        own = None if self._queue == self._app.queue else self._queue
        merged = {"eta": self._eta, "delay": self._delay, **self._options, **options}
        return build(queue or own or otherwise or self._queue, parameters, name=self.name, **merged)

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[R]:
        """Submit a call to be run by a worker."""
        parameters = self._arguments.pack(*args, **kwargs)
        client = self._app.client
        answer = submit(client.store, self._new(parameters, client.defaults), self._connection)
        return self._handle(answer.task, answer.fresh)

    def submit_many(
        self, calls: Iterable[Mapping[str, object]], *, ids: Iterable[str] | None = None
    ) -> list[TaskHandle[R]]:
        """Submit a call for each set of keyword arguments, in few round trips."""
        if self._id is not None:
            raise BadInput("one id can't be that of many tasks: give `ids`")
        client = self._app.client
        parameters = (self._arguments.pack(**call) for call in calls)
        tasks = with_parameters(self._new(None, client.defaults), parameters, ids)
        accepted = submit_many(client.store, tasks, self._connection)
        return [self._handle(answer.task, answer.fresh) for answer in accepted]

    def _handle(self, task: Task, fresh: bool | None = None) -> TaskHandle[R]:
        from stayer.client.handle import TaskHandle

        return TaskHandle(self._app.client.store, task, self._convert, fresh)

    async def asubmit(self, *args: P.args, **kwargs: P.kwargs) -> aio.TaskHandle[R]:
        """Submit a call without blocking the event loop; the handle is awaited, too."""
        import asyncio

        from stayer import aio

        return aio.TaskHandle(await asyncio.to_thread(self.submit, *args, **kwargs))

    async def asubmit_many(
        self, calls: Iterable[Mapping[str, object]], *, ids: Iterable[str] | None = None
    ) -> list[aio.TaskHandle[R]]:
        """Submit many calls without blocking the event loop."""
        import asyncio

        from stayer import aio

        made = await asyncio.to_thread(lambda: self.submit_many(calls, ids=ids))
        return [aio.TaskHandle(each) for each in made]

    async def aget_task(self, id: str) -> aio.TaskHandle[R]:
        """Get a task of this function without blocking the event loop."""
        import asyncio

        from stayer import aio

        return aio.TaskHandle(await asyncio.to_thread(self.get_task, id))

    def pattern(self, arguments: Mapping[str, object]) -> NewTask:
        """Build what a call with these keyword arguments would submit."""
        return self._new(self._arguments.pack(**arguments), Defaults())

    def get_task(self, id: str) -> TaskHandle[R]:
        """Get a task of this function that was submitted before; its result has the right type."""
        found = self._app.client.get_task(id)
        if found.name != self.name:
            raise BadInput(f"task {id} is one of {found.kind or 'no function'}, not of {self.name}")
        return self._handle(found.record)

    def call(self, parameters: Value, context: Context | None = None) -> Value:
        """Run the function with stored parameters; the result as it is to be stored."""
        result = self._begin(parameters, context)
        if isinstance(result, Coroutine):
            from stayer.task import coroutines

            result = coroutines.run(result, context)
        return self._stored(result)

    async def call_async(self, parameters: Value, context: Context) -> Value:
        """Call it in an event loop that is there already."""
        result = self._begin(parameters, context)
        if isinstance(result, Coroutine):
            result = await result
        return self._stored(result)

    def _begin(self, parameters: Value, context: Context | None) -> object:
        positional, named = self._arguments.unpack(parameters, context)
        # ParamSpec can't know what was made from JSON.
        return cast("Callable[..., object]", self._function)(*positional, **named)

    def _stored(self, result: object) -> Value:
        try:
            return result if isinstance(result, bytes) else to_json(result)
        except TypeError as error:
            raise BadResult(f"the result of task {self.name}: {error}", result) from None

    def _new(self, parameters: Value, defaults: Defaults) -> NewTask:
        return build(
            self._queue,
            parameters,
            defaults,
            id=self._id,
            eta=self._eta,
            delay=self._delay,
            name=self.name,
            **self._options,
        )

    def _convert(self, result: Value) -> R:
        try:
            return cast(R, from_json(result, self._arguments.hints.get("return", Any)))
        except msgspec.ValidationError as error:
            raise BadInput(
                f"the result of a task {self.name} is of another type: {error}"
            ) from None


class FunctionCall:
    """A call of a task function with its arguments, to be put into a flow."""

    def __init__(self, function: TaskFunction[..., Any], parameters: Value) -> None:
        self.name = function.name
        self._function = function
        self._parameters = parameters

    def __repr__(self) -> str:
        return f"<FunctionCall of {self.name}>"

    def make_task(
        self,
        build: Callable[..., NewTask],
        queue: str | None,
        otherwise: str | None,
        options: Mapping[str, Any],
    ) -> NewTask:
        """Build the task."""
        return self._function._made(build, self._parameters, queue, otherwise, options)


class AsyncTaskFunction(TaskFunction[P, R]):
    """One that is awaited when called; where it runs as a task, an event loop runs it."""

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coro[R]: ...  # type: ignore[override]


def _stable_name(function: Callable[..., object]) -> str:
    """Tell where the function is, by the name under which others import its module."""
    name: str = function.__qualname__.replace("<locals>.", "")
    if "<lambda>" in name:
        raise BadInput("a lambda has no name of its own: give the task a name")
    module = function.__module__
    if module in ("__main__", "__mp_main__"):
        its_globals: dict[str, Any] = getattr(inspect.unwrap(function), "__globals__", {})
        spec, file = its_globals.get("__spec__"), its_globals.get("__file__")
        if spec is not None:
            module = spec.name.removesuffix(".__main__")
        elif file is not None:
            module = Path(file).stem
    return f"{module}.{name}"
