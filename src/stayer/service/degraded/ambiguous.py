"""What to say when nobody knows whether tasks were accepted: the ids that were drawn for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from stayer.core.errors import StoreError
from stayer.core.model import NewTask
from stayer.store import StoreBase

AGAIN = "submit it again under this id, and it is there once"


@contextmanager
def naming_drawn_ids(
    store: StoreBase, tasks: Sequence[NewTask], again: str = AGAIN
) -> Iterator[None]:
    """Give an error that leaves open whether these were accepted the ids that were drawn for them;
    that of one alone also says its id, and how to do it `again`.
    """
    try:
        yield
    except StoreError as error:
        if not is_in_doubt(store, error):
            raise
        # A store may have drawn others in their place.
        drawn = error.drawn or tuple(new.id for new in tasks if new.generated)
        hint = f". It may be there as {drawn[0]}: {again}" if drawn and len(tasks) == 1 else ""
        raise unsure(type(error)(f"{error}{hint}"), drawn) from error


def is_in_doubt(store: StoreBase, error: StoreError) -> bool:
    """Tell whether it may have been done all the same. What takes several steps, on a cluster, may
    be done by whoever comes next, too.
    """
    return error.unsure or store.in_parts


def unsure(error: StoreError, drawn: tuple[str, ...] = ()) -> StoreError:
    """Mark an error as one that leaves open whether it was done."""
    error.unsure, error.drawn = True, drawn
    return error
