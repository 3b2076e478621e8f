"""From what a caller gives to accepted tasks: one at a time, many, or in her own transaction."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, TypeVar, Unpack, cast

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from stayer.client.values import Duration, Moment, Size, Storable, epoch, seconds
from stayer.core import ids as task_ids
from stayer.core import units
from stayer.core.errors import (
    UNCHANGED,
    BadInput,
    DeletedId,
    StayerError,
    StoreError,
)
from stayer.core.fields import SUBMISSION, Kind
from stayer.core.model import JSON, Code, NewTask, Submitted, UniqueWhile, Value, WhenFailed
from stayer.core.retries import class_name, find_misspelling
from stayer.core.submit import checks

if TYPE_CHECKING:
    from stayer.core.submit.edits import Edits
    from stayer.store import Store

# What submits is imported when it does: an app in the process of a task only builds tasks.

CHUNK = 1000
"""How many tasks go to the store at a time."""

NAMED = 20
"""How many ids an error names at most."""

T = TypeVar("T")


class DuplicateWarning(UserWarning):
    """The id is taken by a task of another queue or with other parameters."""


class Defaults(Struct, frozen=True):
    """What is so configured for submissions that say nothing."""

    owner: str | None = None
    retries: int | None = None
    submitted_by: str | None = None


class HasId(Protocol):
    """A task, by whatever handle."""

    @property
    def id(self) -> str: ...


class _Common(TypedDict, total=False):
    priority: int
    tags: Sequence[str]
    meta: Mapping[str, JSON] | None
    held: bool
    env: Mapping[str, str] | None
    key: str | None
    unique: str | None
    unique_while: UniqueWhile | None
    notify: Sequence[str]


class _Kind(_Common, total=False):
    name: str | None
    command: Sequence[str] | None
    cwd: str | None


class _Life(_Common, total=False):
    owner: str | None
    expire: Duration | None
    start_before: Moment | None
    retries: int | None
    retry_wait: Duration | None
    retry_backoff: float
    retry_cap: Duration | None
    retry_on: Sequence[str | type[BaseException]]
    give_up_on: Sequence[str | type[BaseException]]
    deadline: Duration | None
    time_limit: Duration | None
    silence_limit: Duration | None
    memory_limit: Size | None
    grace: Duration | None
    fence: Literal["freeze", "kill"] | None
    time_growth: float
    time_most: Duration | None
    memory_growth: float
    memory_most: Size | None
    after: Sequence[str | HasId]
    when_failed: WhenFailed
    near: str | HasId | None
    near_wait: Duration | None
    unique_for: Duration | None


class Life(_Life, total=False):
    """What a submission may say of any task."""

    code: Code | None


class TaskOptions(Life, _Kind, total=False):
    """What a submission may say of any task, and what it is to run."""


class _When(TypedDict, total=False):
    eta: Moment | None
    delay: Duration | None
    cloned_from: str | None
    submitted_by: str | None
    source_commit: str | None


class Options(TaskOptions, _When, total=False):
    """All options of a submission: what it is to run, how, and when."""


class RetryOptions(_Life, _Kind, _When, total=False):
    """What a retry may change, besides its code, of which it says more."""


_UNITS: dict[Kind, Callable[[Any], float]] = {
    "moment": epoch,
    "seconds": seconds,
    "bytes": units.memory,
}
_READERS = {name: _UNITS[field.kind] for name, field in SUBMISSION.items() if field.kind in _UNITS}
OPTIONS = SUBMISSION.keys() - {"id", "queue", "parameters"}
"""What may be said of a task: the keys of `Options`, which a test compares with these."""


def build(
    queue: str,
    parameters: Storable,
    defaults: Defaults,
    *,
    id: str | None = None,
    **options: Unpack[Options],
) -> NewTask:
    """Return a task fit to be submitted, or BadInput."""
    asked = {name: value for name, value in _read(options).items() if value is not None}
    asked.setdefault("owner", defaults.owner)
    asked.setdefault("retries", defaults.retries)
    asked.setdefault("submitted_by", defaults.submitted_by)
    return checks.new_task(queue=queue, parameters=cast(Value, parameters), id=id, **asked)


def build_edits(
    parameters: Storable | UnsetType,
    set_parameters: Mapping[str, JSON] | None,
    options: Options,
) -> Edits:
    """Return what is to be different of a task that is there; None is the default."""
    from stayer.core.submit.edits import Edits

    fields = _read(options)
    if parameters is not UNSET:
        fields["parameters"] = parameters
    return Edits(fields=fields, parameters=dict(set_parameters or {}))


def _read(options: Options) -> dict[str, Any]:
    """Return the options, with times, sizes and tasks as `checks.new_task` takes them."""
    _refuse_unknown(options)
    asked: dict[str, Any] = dict(options)
    for name in asked.keys() & _READERS.keys():
        asked[name] = None if asked[name] is None else _READERS[name](asked[name])
    if after := asked.get("after"):
        if isinstance(after, str):
            raise BadInput(f"after {after!r}: give a list of tasks or ids, such as [{after!r}]")
        asked["after"] = [each if isinstance(each, str) else each.id for each in after]
    for name in asked.keys() & {"retry_on", "give_up_on"}:
        asked[name] = _patterns(name, asked[name])
    if (near := asked.get("near")) is not None and not isinstance(near, str):
        asked["near"] = near.id
    return asked


def _patterns(option: str, given: Any) -> Any:
    """Return patterns of errors: classes by their names. Warns of one that is nearly a built-in."""
    if isinstance(given, type):
        given = [given]
    if not isinstance(given, Sequence) or isinstance(given, str):
        return given  # refused with all else that is wrong
    words = [class_name(each) if isinstance(each, type) else each for each in given]
    for word in words:
        if isinstance(word, str) and (meant := find_misspelling(word)) is not None:
            warnings.warn(
                f"{option}: no built-in error is called {word}: did you mean {meant}?",
                UserWarning, stacklevel=_callers_level(),
            )  # fmt: skip
    return words


def _refuse_unknown(options: Mapping[str, object]) -> None:
    for name in options:
        if name not in OPTIONS:
            from difflib import get_close_matches

            near = get_close_matches(name, OPTIONS, 1)
            raise TypeError(
                f"no option of a task is called {name!r}"
                + (f": did you mean {near[0]!r}?" if near else "")
            )


def with_parameters(
    pattern: NewTask, parameters: Iterable[Storable], ids: Iterable[str] | None
) -> Iterator[NewTask]:
    """Yield a task like the pattern for each of the parameters, with an id of its own."""
    if ids is None:
        for chunk in chunks(parameters):
            drawn = task_ids.generate_many(len(chunk))
            for id, value in zip(drawn, chunk, strict=True):
                yield replace(pattern, id=id, parameters=cast(Value, value))
        return
    source = iter(parameters)
    for id in ids:
        checks.new_task(queue=pattern.queue, id=id)  # checks the id
        for value in islice(source, 1):
            yield replace(pattern, id=id, parameters=cast(Value, value), generated=False)
            break
        else:
            raise BadInput("there are more ids than parameters: give one for each")
    for _ in source:
        raise BadInput("there are fewer ids than parameters: give one for each")


def submit(store: Store, new: NewTask, connection: object = None) -> Submitted:
    """Submit a task; return the one that is there now, made by this call or before. Raises
    DeletedId if it has been deleted.
    """
    from stayer.service.control import tasks as control

    answer = _accept(store, [new], connection)[0]
    control.refuse_deleted(new, answer)
    _warn_of_other(new, answer)
    return answer


def submit_many(
    store: Store, tasks: Iterable[NewTask], connection: object = None
) -> Iterator[Submitted]:
    """Submit any number of tasks, chunk by chunk; an error says how many were accepted before.
    Those with ids of deleted tasks hold up none of the others: they are named at the end.
    """
    accepted = 0
    deleted: list[str] = []
    chunk: list[NewTask] = []
    try:
        for chunk in chunks(tasks):
            answers = _accept(store, chunk, connection)
            accepted += len(chunk)
            for new, answer in zip(chunk, answers, strict=True):
                if answer.purged:
                    deleted.append(new.id)
                    continue
                _warn_of_other(new, answer)
                yield answer
    except Exception as error:
        rest = "the rest was not"
        if isinstance(error, StoreError) and error.unsure:
            rest = f"some of the {len(chunk):,} after them may have been"
            rest += ": the error's `drawn` has their ids" if error.drawn else ""
        _add_to_error(error, f"the first {accepted} tasks were accepted, {rest}")
        raise
    if deleted:
        raise _make_deleted_error(deleted, accepted)


def _make_deleted_error(ids: Sequence[str], total: int) -> DeletedId:
    named = ", ".join(ids[:NAMED]) + (" …" if len(ids) > NAMED else "")
    error = DeletedId(
        f"{len(ids):,} of {total:,} tasks were not accepted, for tasks with their ids have been "
        f"deleted ({named}): choose other ids for them. The other {total - len(ids):,} were"
    )
    error.ids = tuple(ids)
    return error


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield what goes to the store together."""
    source = iter(items)
    while chunk := list(islice(source, CHUNK)):
        yield chunk


def _accept(store: Store, tasks: Sequence[NewTask], connection: object) -> list[Submitted]:
    from stayer.service import tracing

    if not tracing.is_near():
        return _accept_traced(store, tasks, connection)
    with tracing.trace_submit(tasks) as traced:
        return _accept_traced(store, traced, connection)


def _accept_traced(store: Store, tasks: Sequence[NewTask], connection: object) -> list[Submitted]:
    from stayer.service.control import tasks as control
    from stayer.service.degraded.ambiguous import naming_drawn_ids

    control.check_startable(store, tasks)
    if connection is None:
        with naming_drawn_ids(store, tasks):
            return store.submit(tasks)
    return store.submit_on(connection, tasks)


def _add_to_error(error: Exception, news: str) -> None:
    """Add to what the error says, leaving its kind as it is."""
    if isinstance(error, StayerError):
        error.args = (f"{str(error).replace(UNCHANGED, '')} ({news})",)
    else:  # the caller's own, from her generator
        error.add_note(news)


def _warn_of_other(new: NewTask, answer: Submitted) -> None:
    from stayer.service.control import tasks as control

    differs = control.difference(new, answer)
    if differs is not None:
        warnings.warn(f"task {new.id} {differs}", DuplicateWarning, stacklevel=_callers_level())


def _callers_level() -> int:
    """Return how far up the code is that called Stayer, whichever way it came."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("stayer."):
        frame = frame.f_back
        level += 1
    return level
