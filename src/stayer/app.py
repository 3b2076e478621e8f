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
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePath
from types import GenericAlias
from typing import Any, Generic, ParamSpec, Self, TypeVar, Unpack, cast, get_type_hints, overload

import msgspec

from stayer.client import Client, TaskHandle
from stayer.client.inputs import Duration, Moment
from stayer.client.submit import Defaults, Life, build, submit, submit_many, with_parameters
from stayer.core.errors import BadInput
from stayer.core.model import NewTask, Task, Value

P = ParamSpec("P")
R = TypeVar("R")


class App:
    """The functions that can be tasks, by name, and the store they are submitted to."""

    def __init__(self, url_or_client: str | Client | None = None, queue: str = "default") -> None:
        self.queue = queue
        self._url = None if isinstance(url_or_client, Client) else url_or_client
        self._client = url_or_client if isinstance(url_or_client, Client) else None
        self._connecting = threading.Lock()
        self._functions: dict[str, TaskFunction[..., Any]] = {}

    @property
    def client(self) -> Client:
        """The client it submits with, connected when first used."""
        with self._connecting:
            if self._client is None:
                self._client = Client(self._url)
            return self._client

    @property
    def names(self) -> tuple[str, ...]:
        """What its tasks are called."""
        return tuple(self._functions)

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
        **options: Unpack[Life],
    ) -> Callable[[Callable[P, R]], TaskFunction[P, R]]: ...
    def task(
        self,
        function: Callable[P, R] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        **options: Unpack[Life],
    ) -> TaskFunction[P, R] | Callable[[Callable[P, R]], TaskFunction[P, R]]:
        """Make a function a task; the options hold for each submission that says nothing else."""

        def register(function: Callable[P, R]) -> TaskFunction[P, R]:
            called = _stable_name(function) if name is None else name
            made = TaskFunction(self, function, called, queue, options)
            if made.name in self._functions:
                raise BadInput(f"there is a task {made.name} already: give this one another name")
            self._functions[made.name] = made
            return made

        return register if function is None else register(function)

    def call(self, task: Task | TaskHandle[object]) -> Value:
        """Run the function of a task with its parameters; the result as it is to be stored."""
        function = self._functions.get(task.name or "")
        if function is None:
            raise BadInput(f"no function for task {task.id}: {task.name!r} is not in this app")
        return function.call(task.parameters)


class TaskFunction(Generic[P, R]):
    """A function that is called as before, or submitted to be run elsewhere."""

    def __init__(
        self, app: App, function: Callable[P, R], name: str, queue: str | None, options: Life
    ) -> None:
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise BadInput(f"task {name}: a task is a plain function, neither async nor generator")
        functools.update_wrapper(self, function)
        self.name = name
        self._app = app
        self._function = function
        self._arguments = _Arguments(function, name)
        self._queue = app.queue if queue is None else queue
        self._options: Life = options
        self._id: str | None = None
        self._eta: Moment | None = None
        self._delay: Duration | None = None
        self._connection: object = None
        self._new(None, Defaults())  # a wrong name or option shows at once

    def __repr__(self) -> str:
        return f"<TaskFunction {self.name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

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
        """The same function, to be submitted with these options."""
        changed = copy.copy(self)
        changed._options = {**self._options, **options}
        changed._id = self._id if id is None else id
        changed._queue = self._queue if queue is None else queue
        changed._eta = self._eta if eta is None else eta
        changed._delay = self._delay if delay is None else delay
        changed._connection = self._connection if connection is None else connection
        return changed

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[R]:
        """Submit a call to be run by a worker."""
        parameters = self._arguments.pack(*args, **kwargs)
        client = self._app.client
        task = submit(client.store, self._new(parameters, client.defaults), self._connection)
        return TaskHandle(client.store, task, self._convert)

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
        return [TaskHandle(client.store, task, self._convert) for task in accepted]

    def get_task(self, id: str) -> TaskHandle[R]:
        """A task of this function that was submitted before; its result has the right type."""
        found = self._app.client.get_task(id)
        if found.name != self.name:
            raise BadInput(f"task {id} is one of {found.kind or 'no function'}, not of {self.name}")
        return TaskHandle(self._app.client.store, found.record, self._convert)

    def call(self, parameters: Value) -> Value:
        """Run the function with stored parameters; the result as it is to be stored."""
        positional, named = self._arguments.unpack(parameters)
        # ParamSpec can't know what was made from JSON.
        result = cast(Callable[..., object], self._function)(*positional, **named)
        return result if isinstance(result, bytes) else _to_json(result)

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
            return cast(R, _from_json(result, self._arguments.hints.get("return", Any)))
        except msgspec.ValidationError as error:
            raise BadInput(
                f"the result of a task {self.name} is of another type: {error}"
            ) from None


class _Arguments:
    """The arguments of a function, to and from one JSON object by parameter name."""

    def __init__(self, function: Callable[..., object], name: str) -> None:
        self._function = function
        self._name = name
        self._signature = inspect.signature(function)

    @functools.cached_property
    def hints(self) -> dict[str, Any]:
        """Resolved late: an annotation may name what the module defines further down."""
        try:
            return get_type_hints(self._function, include_extras=True)
        except NameError as error:
            raise TypeError(
                f"task {self._name}: its annotations must be importable when it is called: {error}"
            ) from None

    def pack(self, *args: object, **kwargs: object) -> Value:
        """What a call passes; defaults are left out. TypeError if the function can't be called so,
        or what it would get elsewhere does not have the annotated type.
        """
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"task {self._name}: {error}") from None
        packed: dict[str, Value] = {}
        for name, value in bound.arguments.items():
            try:
                packed[name] = _to_json(value)
                self._convert(name, packed[name])
            except (TypeError, msgspec.ValidationError) as error:
                raise TypeError(f"task {self._name}: argument {name!r}: {error}") from None
        return cast(Value, packed)

    def unpack(self, parameters: Value) -> tuple[tuple[object, ...], dict[str, object]]:
        """The call that stored parameters ask for; BadInput if there is no such call."""
        given = {} if parameters is None else parameters
        if not isinstance(given, dict):
            raise BadInput(f"task {self._name}: its parameters are to be an object, by name")
        known = self._signature.parameters
        if unknown := [name for name in given if name not in known]:
            raise BadInput(f"task {self._name} has no parameter {unknown[0]!r}")
        bound = self._signature.bind_partial()
        for name, parameter in known.items():
            if name in given:
                bound.arguments[name] = self._converted(name, given[name])
            elif parameter.default is parameter.empty and parameter.kind in _NAMED:
                raise BadInput(f"task {self._name}: parameter {name!r} is missing")
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def _converted(self, name: str, value: Value) -> object:
        try:
            return self._convert(name, value)
        except msgspec.ValidationError as error:
            raise BadInput(f"task {self._name}: parameter {name!r}: {error}") from None

    def _convert(self, name: str, value: Value) -> object:
        hint = self.hints.get(name, Any)
        kind = self._signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            hint = GenericAlias(tuple, (hint, ...))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            hint = GenericAlias(dict, (str, hint))
        return _from_json(value, hint)


_NAMED = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)


def _to_json(value: object) -> Value:
    return cast(Value, msgspec.to_builtins(value, str_keys=True, enc_hook=_encode_other))


def _from_json(value: Value, hint: Any) -> object:
    """Strict, so that "1" is no number; only what JSON lacks is made from text."""
    converted: object = msgspec.convert(value, hint, str_keys=True, dec_hook=_decode_other)
    return converted


def _encode_other(value: object) -> object:
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"JSON can't say what is of class {type(value).__qualname__}")


def _decode_other(kind: type[object], value: object) -> object:
    if isinstance(value, kind):
        return value
    if issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    raise TypeError(f"class {kind.__qualname__} can't be made from JSON")


def _stable_name(function: Callable[..., object]) -> str:
    """Where the function is, by the name under which others import its module."""
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
