"""What the operations need of a database: named statements inside a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from stayer.store import Waiter

if TYPE_CHECKING:
    from stayer.stores.sql.bulk import Bulk
    from stayer.stores.sql.dialect import Dialect

Cell: TypeAlias = Any
"""What a column holds; typed again where rows become records (`rows.py`)."""
Row: TypeAlias = tuple[Cell, ...]
"""What a statement answers: str for text, int for whole numbers (also for their sums), 0 or 1 for
booleans, float for all other numbers (no Decimal), bytes for logs and checkpoints, None for null.
Parameters are the same, with True and False for booleans, and what `array` and `value_cell` of the
dialect give.
"""
UNCLAIMED = " unclaimed"
"""Behind the name of a statement that claims rows: the same for those who only look."""


FARTHEST = 1e13
"""No number of ours with a fraction is larger: a moment that the calendar knows, or a time."""


def fitted_number(number: float) -> float:
    """Return a number as a row may have it: an `UPDATE` by hand can put any there, and one that is
    larger, or none at all, would stop everybody who comes across it. NaN becomes the largest, as
    PostgreSQL sorts it.
    """
    return max(number, -FARTHEST) if number <= FARTHEST else FARTHEST


UNASKED: frozenset[Named] = frozenset((
    "attend", "checkpoint.forget", "count", "declare_lost.forget", "event", "event.old",
    "figures.add", "figures.forget", "forget.logs", "forget.logs_gone", "forget.results",
    "forget.results_gone", "history.add", "history.forget", "history.forget_logs",
    "history.forget_usage", "history.move", "history.moved", "identity.make", "notice.add",
    "notices.forget", "notices.stale", "notices.take", "outbox.acknowledge", "outbox.add",
    "outbox.ended", "promote", "promote.anywhere", "purge", "purge.events", "purge.forget",
    "purge.remember", "queue.drop", "queue.drop_shares", "queue.fair", "queue.key_limit",
    "queue.key_limits", "queue.limit", "queue.make", "queue.notify", "queue.pause", "queue.rate",
    "queue.retention", "queue.set_defaults", "report.checkpoint", "report.log", "report.log_trim",
    "report.metrics", "report.orders", "report.paused", "report.progress", "report.saved",
    "report.usage", "reserve", "reserve.tokens", "schedule.newest", "schedule.put",
    "shares.forget", "shares.put", "submit.forgotten", "upstreams.add", "upstreams.needed",
    "usage.point", "usage.thin", "waits.end", "waits.more", "waits.none",
))  # fmt: skip
"""Shared statements of which nobody asks how many rows they changed: those may wait for the next
one."""


class Composed(NamedTuple):
    """A statement with gaps: `{sets}` is filled with assignments to columns, `{where}` with the
    conditions, each a named statement too. Parameters come in the order of the text.
    """

    name: str
    conditions: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


Named: TypeAlias = str | Composed
"""How a statement is asked for."""


class Numbers(Protocol):
    """Hands out numbers for the events that one journal writes."""

    def take(self, count: int) -> int:
        """The first of so many numbers that follow each other."""


class Transaction(Protocol):
    """A transaction that is open: all it does is committed together, or not at all.

    Each statement sees what others have committed before it (`READ COMMITTED`), unless there is
    but one writer. What was read stays true only of rows that were read with `{lock}` or `{claim}`.
    """

    now: float
    """The store's clock, read once, after the lock was taken."""
    dialect: Dialect
    bulk: Bulk
    """How much is done at once."""
    may_stay_open: bool
    """Whether this is a caller's own transaction, among others who write: it locks nothing that is
    there already, for nobody knows when it ends."""

    def all(self, statement: Named, *parameters: Cell) -> list[Row]:
        """The rows that a statement gives."""

    def one(self, statement: Named, *parameters: Cell) -> Row | None:
        """Its first row."""

    def run(self, statement: Named, *parameters: Cell) -> int:
        """How many rows it changed."""

    def many(self, statement: Named, parameters: Iterable[Sequence[Cell]]) -> int:
        """Run it for each of these; how many rows it changed."""

    def send(self, statement: Named, parameters: Iterable[Sequence[Cell]]) -> None:
        """Run it for each of these, in its turn, where nobody asks for the outcome: that may be
        told with the next answer, or with the commit.
        """

    def prefetch(self, statement: Named, *parameters: Cell) -> None:
        """Somebody will ask for the rows of just this soon, as they are by then or now: they may
        come with the next answer.
        """

    def commit_with_next(self) -> None:
        """Nothing is asked or changed after the next statement, so the commit may go with it,
        whatever it answers. Only what was prefetched before can still be read.
        """

    def array(self, values: Iterable[str | int]) -> Cell:
        """The parameter of a macro such as `{in texts ?}`."""

    def delete_tasks(self, seqs: list[int]) -> None:
        """Delete rows of tasks; triggers see to what belongs to them, and leave an event each, of
        this transaction's time.
        """

    def numbers(self) -> Numbers:
        """Numbers for events: each is given once. Where several write at a time they need not be
        in the order of the commits: see `Database.number_events`.
        """

    def notify(self, queues: Iterable[str], workers: Iterable[str]) -> None:
        """Once this is committed, wake those who wait for work in these queues, and these workers.
        Never as a part of the commit, which would have to wait for other commits.
        """


class Database(Protocol):
    """Where the tables are: connections, a clock, and a way to wait."""

    def setup(self) -> None:
        """Make or upgrade the tables."""

    def ddl(self) -> str:
        """All that makes the tables, as text for whoever has the right to run it."""

    def close(self) -> None:
        """Close the connections that nobody uses now."""

    def clock(self) -> float:
        """The store's time."""

    def refuse_changes(self, tx: Transaction, message: str | None) -> None:
        """Make triggers that refuse every change of the tables with this message, which begins with
        `sealing.PREFIX`, as long as there is a row `seal` in `stayer_meta`; None drops them.
        """

    def read(self) -> AbstractContextManager[Transaction]:
        """One consistent look."""

    def write(self) -> AbstractContextManager[Transaction]:
        """One change: all of it, or nothing."""

    def joined(self, connection: object) -> AbstractContextManager[Transaction]:
        """A part of the caller's own transaction, on the caller's connection: raises BadInput if it
        is no connection to such a database.
        """

    def number_events(self) -> None:
        """Give events that are committed and have no number for watchers yet the next ones, one
        caller at a time. Nothing to do where each has its number from the beginning, because there
        is but one writer.
        """

    def tidy(self) -> None:
        """What keeps the tables small, once in a while: numbers events that nobody has watched, and
        whatever else this database needs. Quick, and harmless if several do it at once.
        """

    def waiter(self, worker: str | None, queues: Sequence[str]) -> Waiter:
        """Hears of work in these queues and of orders to this worker."""

    def event_waiter(self) -> Waiter:
        """Hears of events."""
