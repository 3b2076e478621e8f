"""Which tasks a request is about: the parameters of lists and of verbs on many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from stayer.core import units
from stayer.core.errors import BadInput
from stayer.core.filters import FILTERS, PARAMETERS, check_filter
from stayer.core.model import JSON, Filter, StateWord, states_meant
from stayer.http.problem import without_place
from stayer.service.degraded.partial import partly
from stayer.store import Store

T = TypeVar("T")

PAGE = 100
LARGEST_PAGE = 1000
SHORT = 500
"""Bytes of a value, as JSON, that a list shows where it is to be brief."""

Limit = Annotated[int, Meta(ge=1, le=LARGEST_PAGE, description="How many at most.")]
Cursor = Annotated[str, Meta(description="`next` of the page before.")]


_TYPES: dict[str, Any] = {
    "state": tuple[StateWord, ...],
    "since": str | None,
    "until": str | None,
}
"""Of parameters that are not of the type that `Filter` has: words are read first."""


def _parameters() -> Iterator[tuple[str, Any, Any]]:
    """Name, type and default of each parameter."""
    declared = {found.name: found for found in msgspec.structs.fields(Filter)}
    for parameter, name in PARAMETERS.items():
        kind = _TYPES.get(parameter, declared[name].type)
        about = Meta(description=FILTERS[name].description)
        yield parameter, Annotated[kind, about], declared[name].default
    yield "cursor", Cursor | None, None
    yield "limit", Limit, PAGE


if TYPE_CHECKING:

    class TaskFilter(Struct, frozen=True, kw_only=True):
        """Which tasks, by the parameters of `core.filters`; all conditions hold at once."""

        cursor: str | None = None
        limit: int = PAGE

else:
    TaskFilter = msgspec.defstruct(
        "TaskFilter", _parameters(), frozen=True, kw_only=True, module=__name__
    )


PARTIAL = (
    "While a part of the store is away, answer with what can be reached; `away` has the queues "
    "that can't be, and why. Else that is a 503."
)
Partial = Annotated[bool, Meta(description=PARTIAL)]


class ListQuery(TaskFilter, frozen=True, kw_only=True):
    """Which tasks, and how much of each."""

    brief: Annotated[
        bool,
        Meta(
            description=f"Null for parameters and results of more than {SHORT} bytes, for env and "
            "traceback: they can be large."
        ),
    ] = False
    partial: Partial = False


def is_empty(query: TaskFilter) -> bool:
    """It means every task."""
    return all(getattr(query, parameter) in ((), None) for parameter in PARAMETERS)


def part_of(
    store: Store, queues: Sequence[str], read: Callable[[Sequence[str]], T], partial: bool
) -> tuple[T, dict[str, JSON]]:
    """What is there of these queues, and what the answer says of those that can't be reached."""
    if not partial:
        return read(queues), {}
    found, away = partly(store, queues, read)
    return found, {"away": {name: without_place(why, store.url) for name, why in away.items()}}


def to_filter(store: Store, query: TaskFilter) -> Filter:
    """The filter that these parameters mean."""
    given = {name: getattr(query, parameter) for parameter, name in PARAMETERS.items()}
    given["states"] = states_meant(given["states"])
    for name in ("since", "until"):
        if given[name] is not None:
            given[name] = moment(store, name, given[name])
    filter = Filter(**given)
    check_filter(filter)
    return filter


def moment(store: Store, name: str, text: str) -> float:
    """The moment that a text means: a date, or how long ago."""
    try:
        return units.instant(text)
    except BadInput as error:
        try:
            return store.now() - units.duration(text)
        except BadInput:
            raise BadInput(f"{name}: {error}") from None
