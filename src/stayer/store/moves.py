"""What `stayer move` and `stayer backup` ask of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stayer.core.errors import Refused
from stayer.core.move.records import Batch, Record, Seal, Stage
from stayer.store.base import StoreBase


class MoveStore(StoreBase, Protocol):
    """What `stayer move` needs, which copies a whole store into another."""

    def seal(self) -> Seal | None:
        """Read the mark of a move; None: the store is in use, as usual."""
        return None

    def put_seal(self, seal: Seal | None) -> None:
        """Mark the store as one that is being moved, or was; None takes the mark away. From then on
        nobody can change it but by `load` and `put_seal`: whoever tries, with whatever connection
        is open, meets StoreMoved, and nothing comes of it. Reading goes on.
        """
        raise _immovable(self.url)

    def take_in(self) -> None:
        """Make tasks of what others have left at the door (the list `incoming` of Redis)."""
        return

    def copy_to(self, path: str) -> None:
        """Write all of it to a SQLite file, as it is at one moment, while others go on. Raises
        Refused unless the store is such a file itself.
        """
        raise Refused(f"{self.url} can't be copied to a file from here: {_DIRECTLY}")

    def dump(self, stage: Stage, cursor: str | None, limit: int) -> Batch:
        """Read about `limit` bytes of a stage, from the cursor of the batch before on. The store is
        sealed: nothing changes meanwhile. No record comes twice, but that of a purged task may.
        Tasks of one queue come in the order in which they were accepted.
        """
        raise _immovable(self.url)

    def load(self, records: Sequence[Record], progress: str) -> None:
        """Take in records of one stage, and note the progress in the seal, which is of a `target`.
        What is there already is left as it is, so any batch may come again. What would be forgotten
        at once is left out. Raises BadInput if the store can't keep one of them, and names it.
        """
        raise _immovable(self.url)


def _immovable(url: str) -> Refused:
    return Refused(f"{url} can't be moved from here: {_DIRECTLY}")


_DIRECTLY = "give the URL of the database itself, on a machine that reaches it"
