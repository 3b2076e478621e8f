"""Which tasks a request is about: the parameters of lists and of verbs on many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from stayer.core import units
from stayer.core.errors import BadInput
from stayer.core.limits import check_filter
from stayer.core.model import JSON, Filter, StateWord, states_meant
from stayer.http.problem import without_place
from stayer.service.degraded.partial import partly
from stayer.store import Store

T = TypeVar("T")

PAGE = 100
LARGEST_PAGE = 1000
SHORT = 500
"""Bytes of a value, as JSON, that a list shows where it is to be brief."""

MOMENT = "RFC 3339, epoch seconds, or how long ago (2h)"
Limit = Annotated[int, Meta(ge=1, le=LARGEST_PAGE, description="How many at most.")]
Cursor = Annotated[str, Meta(description="`next` of the page before.")]


class TaskFilter(Struct, frozen=True, kw_only=True):
    """All conditions hold at once; of those that may be repeated, any for each."""

    id: Annotated[tuple[str, ...], Meta(description="With this id. Repeat it for more.")] = ()
    prefix: Annotated[str, Meta(description="With an id that begins so.")] | None = None
    queue: Annotated[tuple[str, ...], Meta(description="In this queue. Repeat it for more.")] = ()
    state: Annotated[
        tuple[StateWord, ...],
        Meta(description="In this state; `running` is reserved or started. Repeat it for more."),
    ] = ()
    name: Annotated[str, Meta(description="With this name, or this command.")] | None = None
    owner: Annotated[str, Meta(description="Of this owner.")] | None = None
    key: Annotated[str, Meta(description="With this key.")] | None = None
    unique: Annotated[str, Meta(description="With this unique word.")] | None = None
    tag: Annotated[tuple[str, ...], Meta(description="With this tag; repeated: with all.")] = ()
    worker: Annotated[str, Meta(description="Held by this worker.")] | None = None
    held: Annotated[bool, Meta(description="Held, or not.")] | None = None
    since: Annotated[str, Meta(description=f"Submitted since: {MOMENT}.")] | None = None
    until: Annotated[str, Meta(description=f"Submitted before: {MOMENT}.")] | None = None
    flow: Annotated[str, Meta(description="Of this flow.")] | None = None
    fingerprint: Annotated[str, Meta(description="Failed, with this fingerprint.")] | None = None
    q: (
        Annotated[
            str,
            Meta(
                description="With these words somewhere in id, name, command, parameters, tags, "
                "meta or error. A page may be short, or empty, and not be the last."
            ),
        ]
        | None
    ) = None
    meta: Annotated[
        tuple[str, ...],
        Meta(description="With this field of your own: `team=vision`; repeated: with all."),
    ] = ()
    where: Annotated[
        tuple[str, ...],
        Meta(
            description="With this in its parameters: `source=s3://a`, `layers[0].size=64`; "
            "repeated: with all. Looks into every task that the rest leaves over."
        ),
    ] = ()
    cursor: Cursor | None = None
    limit: Limit = PAGE


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
    ignored = ("cursor", "limit")
    return all(
        getattr(query, name) in ((), None)
        for name in query.__struct_fields__
        if name not in ignored
    )


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
    filter = Filter(
        ids=query.id,
        prefix=query.prefix,
        queues=query.queue,
        states=states_meant(query.state),
        name=query.name,
        owner=query.owner,
        key=query.key,
        unique=query.unique,
        tags=query.tag,
        worker=query.worker,
        held=query.held,
        since=None if query.since is None else moment(store, "since", query.since),
        until=None if query.until is None else moment(store, "until", query.until),
        flow=query.flow,
        fingerprint=query.fingerprint,
        search=query.q,
        meta=query.meta,
        where=query.where,
    )
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
