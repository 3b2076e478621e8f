"""Names of queues that a user wrote: which of them there are."""

from __future__ import annotations

from collections.abc import Sequence

from stayer.cli.output import note
from stayer.core.errors import UnknownQueue
from stayer.store import Store

_MOST_NAMES_LISTED = 20


def check_queues(store: Store, names: Sequence[str]) -> None:
    """Raise UnknownQueue, naming those there are, if one of these is not there."""
    if unknown := _without_queue(store, names):
        raise UnknownQueue(f"no queue {unknown[0]!r} in {store.url}: {_list_queues(store)}")


def note_new_queues(store: Store, names: Sequence[str]) -> None:
    """Say which of these are about to be made: it may be a slip."""
    for name in _without_queue(store, names):
        note(f"queue {name} is new ({_list_queues(store)})")


def _without_queue(store: Store, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    known = {queue.name for queue in store.queues(names)}
    return [name for name in dict.fromkeys(names) if name not in known]


def _list_queues(store: Store) -> str:
    there = [queue.name for queue in store.queues()]
    listed = ", ".join(there[:_MOST_NAMES_LISTED]) + (
        " …" if len(there) > _MOST_NAMES_LISTED else ""
    )
    return f"there are {listed}" if there else "there are none yet"
