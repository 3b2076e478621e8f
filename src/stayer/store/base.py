"""What everybody needs of a store, and the limits that every store keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from stayer.core.errors import Refused
from stayer.store.operator import Operator

REMEMBERED = 30 * 86400.0
"""How long the id of a purged task is refused, in seconds."""


LOG_HEAD = 1_000_000


LOG_TAIL = 4_000_000
"""What is kept of an attempt's log: its first and its last bytes."""


LOG_PIECE = 256_000
"""The most bytes that a piece of a log may have: whoever reads from an offset on looks back so far,
for a worker that was replaced cuts its pieces anew."""


HISTORY_HEAD = 100


HISTORY_TAIL = 900
"""What is kept of a task's history at least: its first and its last events. What lies between goes
when older events are moved out of the task's record, with logs and usage of its attempts."""


SharedName = Literal["totals", "access", "access uses"]
"""What servers share by name: what was counted for metrics (`core.insight.totals`), who may come in
over HTTP, and when each of them last did.
"""
MOVED_WITH_A_STORE: tuple[SharedName, ...] = ("totals", "access")


Meanwhile = Callable[[], object] | None
"""What a caller could do while the store is at work."""


class Waiter(Protocol):
    """Hears of work and orders. Made before the reserve that it guards, so nothing falls between.

    A waiter belongs to one thread.
    """

    def wait(self, timeout: float | None) -> bool:
        """Sleep until there may be something new since the last call (or since the making).

        True: look again. False: the time is over. It may wake for nothing, never sleep through.
        """

    def ring(self) -> None:
        """Make `wait` return in the thread that sleeps there. The one call for other threads."""

    def close(self) -> None:
        """Stop listening."""


class StoreBase(Protocol):
    """What everybody needs of a store: where it is, of what kind, and its clock."""

    url: str
    """Where it is, with any password left out."""
    path: str | None = None
    """The file on this machine that it is; None: it is something else."""
    in_parts: bool = False
    """Whether it is in several places, each of which may be away by itself. What is asked of all
    queues fails then; whoever wants to see the rest names the queues that can be reached. What
    takes several steps, and failed, may be finished by whoever comes next.
    """
    has_incoming: bool = False
    """Whether programs in any language may push tasks to a list in it, from which `promote` takes
    them.
    """
    remote_operator: Operator | None = None
    """The server between, which carries out the verbs of an operator; None: whoever calls decides
    and commits.
    """

    def setup(self) -> None:
        """Make or upgrade the tables, under a lock; quick and harmless when there is nothing to do.

        Raises StoreUnusable if a newer version of Stayer has been here.
        """

    def is_made(self) -> bool:
        """Tell, changing nothing, whether `setup` has made what it needs, of whatever version; True
        where nothing has to be made.
        """
        return True

    def ddl(self) -> str:
        """Give the SQL that makes the tables, for whoever has the right to run it. Raises Refused
        unless the store is an SQL database.
        """
        raise Refused(f"{self.url} is no SQL database: it has no tables to make")

    def work_as(self, worker: str) -> None:
        """Ask in the name of this worker, which beats elsewhere: in another process of its node."""
        return

    def close(self) -> None:
        """Release all connections. Using the store again opens new ones."""

    def now(self) -> float:
        """Read the store's clock."""

    def identity(self) -> str:
        """Give a name that no other store has, made at random by the first `setup`: the same by
        whatever URL the store is reached, for as long as it keeps its data.
        """

    def record_once(self, key: str, value: str, seconds: float) -> str:
        """Record a value under a key for so long, unless there is one; the answer is the one that
        is there. The same value again counts its time anew, perhaps only once half of it is over.
        For servers, which share what they must all know.
        """

    def read_record(self, key: str) -> str | None:
        """Read what was recorded under a key, if its time is not over."""

    def read_shared(self, name: SharedName) -> str | None:
        """Read a value that servers share, such as who may come in; None: there is none yet."""

    def put_shared(self, name: SharedName, value: str, known: str | None) -> bool:
        """Put a value in the place of the one that is known to be there (None: of none), if it
        still is; whether that was done.
        """
