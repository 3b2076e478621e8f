"""What submitters ask of a store: tasks, and files that go with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stayer.core.errors import Refused
from stayer.core.flows.model import NewFlow
from stayer.core.model import (
    NewTask,
    Submitted,
)
from stayer.store.base import StoreBase


class SubmitStore(StoreBase, Protocol):
    """What submitters need."""

    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        """Accept tasks, in this order. An id that is there, or was purged less than `REMEMBERED`
        ago, is not accepted again: the answer is the task that is there (of a purged one: its id,
        queue, state and times, and `purged`) with `fresh=False`. Also within one call, and across
        processes.

        So with its `unique` word, if another task of the queue holds it: the answer is that one.
        A task holds its word while it waits and, unless `unique_while` says `waiting`, while it
        runs; then for `unique_for` seconds after its end.

        A task whose id was `generated` may get another one, where that can't be accepted now.

        A task with an eta to come is `scheduled`, any other `pending`. Its queue is made. Its
        `start_before` is the one given, or `expire` seconds from now.

        A task that is to run `after` (or `behind`) others is `waiting` until they have ended, in
        whichever queues they are; they may come in the same call, in any order. What has ended
        already counts at once, also if it is purged. Raises BadInput, accepting nothing, if one of
        them is not there, or if tasks of the call wait for each other in a circle. A call in which
        any task has `after` or `behind` is one step.
        """

    def submit_flow(self, flow: NewFlow, tasks: Sequence[NewTask]) -> bool:
        """Accept a whole flow in one step. False, doing nothing, if a flow with its id is there.
        Raises Refused, accepting nothing, if an id of its tasks is or was in use; else as `submit`.
        """

    def submit_on(self, connection: object, tasks: Sequence[NewTask]) -> list[Submitted]:
        """Accept tasks as `submit` does, on the caller's own connection to the same database,
        inside its transaction (begun if there is none): the tasks exist if and only if the caller
        commits. Raises Refused unless the store is an SQL database.
        """
        raise Refused(
            f"{self.url} can't take tasks within your transaction, only an SQL database can: "
            "submit after it has committed, without `connection`"
        )


class FileStore(StoreBase, Protocol):
    """What files that come along with tasks need: each is kept once, by its sha256."""

    def put_file(self, sha256: str, data: bytes | None) -> bool:
        """Keep a file, for a day at least; None: only if it is there. Whether it is there now."""

    def get_file(self, sha256: str) -> bytes | None:
        """Read a file; None if it is not there."""

    def old_files(self, before: float, limit: int) -> list[str]:
        """List files that nobody has put, or put again, since then; those longest ago first."""

    def drop_files(self, files: Sequence[str], before: float) -> None:
        """Forget these, unless somebody has put them since then."""
