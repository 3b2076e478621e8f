"""The contract that every database keeps.

Called by `control`, `client`, `heart` and the worker; kept by what lives in `stores/`. Another
store is one folder there that implements `Store` and passes `tests/contract/`.

Rules that hold for every operation:

- **Atomic per task.** An operation that takes several tasks may apply in part; its answer says
  which. A store may do better (SQLite: all or nothing).
- **The store's clock.** Stored times come from the database, never from a client. Tests set it
  with the `clock` argument of the store.
- **The fence.** What comes from a worker names (worker, attempt) and changes nothing unless the
  task is still held by just them.
- **Flat cost.** Submit, reserve, commit and beat cost the same with an empty queue and with a
  million pending and a million finished tasks.
- **Errors.** A driver's error becomes `StoreUnreachable` (try again later) or `StoreUnusable`
  (somebody must mend it); nothing else escapes.
- **Threads.** A store may be used by several threads at once, and after a fork.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Unpack, runtime_checkable

from stayer.core.lifecycle import Happening
from stayer.core.model import (
    Attempt,
    Beat,
    Change,
    Checkpoint,
    Event,
    Filter,
    Handles,
    LogPiece,
    NewTask,
    Page,
    QueueInfo,
    QueueSettings,
    Report,
    State,
    Submitted,
    Task,
    Usage,
    Worker,
)

REMEMBERED = 30 * 86400.0
"""How long the id of a purged task is refused, in seconds."""

LOG_HEAD = 1_000_000
LOG_TAIL = 4_000_000
"""What is kept of an attempt's log: its first and its last bytes."""


LOG_PIECE = 256_000
"""The most bytes that a piece of a log may have: whoever reads from an offset on looks back so far,
for a worker that was replaced cuts its pieces anew."""


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


class Store(Protocol):
    """A database that holds tasks, queues and workers."""

    url: str
    """Where it is, with any password left out."""

    # Life

    def setup(self) -> None:
        """Make or upgrade the tables, under a lock; quick and harmless when there is nothing to do.

        Raises StoreUnusable if a newer version of Stayer has been here.
        """

    def close(self) -> None:
        """Release all connections. Using the store again opens new ones."""

    def now(self) -> float:
        """The store's clock."""

    # The one road: submit, reserve, commit

    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        """Accept tasks, in this order. An id that is there, or was purged less than `REMEMBERED`
        ago, is not accepted again: the answer is the task that is there (of a purged one: its id,
        queue, state and times, and `purged`) with `fresh=False`. Also within one call, and across
        processes.

        So with its `unique` word, if another task of the queue holds it: the answer is that one.
        A task holds its word while it waits and, unless `unique_while` says `waiting`, while it
        runs; then for `unique_for` seconds after its end.

        A task with an eta to come is `scheduled`, any other `pending`. Its queue is made.
        """

    def reserve(
        self, worker: str, queues: Sequence[str], limit: int, handles: Handles
    ) -> list[Task]:
        """Give the worker up to `limit` tasks: `reserved`, held by it, `attempt` one higher.

        Queue by queue in the order given; within one, higher priority first, then older first (a
        returned task has kept its place). In a queue that is `fair`, among tasks of equal priority
        the share that has used least goes first (see `core.fair`). Leaves alone what is held, what
        `handles` does not name, paused queues, and what would exceed a queue's limit, the limit of
        its key, or the queue's rate. A key's place is taken from the reservation on until the task
        leaves the states `reserved` and `started`. Raises LeaseLost if the worker is not
        registered or was buried.
        """

    def commit(self, changes: Sequence[Change]) -> list[Task | None]:
        """Apply each change if the task's (state, worker, attempt, last_order) are those that it
        names; the answer is the task as it is after the call, or None where nothing was done.

        A change that lets a finished task run again is not applied while another task holds its
        unique word.

        A change with `late` applies also to a `pending` task whose `returned_from` names
        (worker, attempt).

        Besides what the change says, the store sets: `updated`; `started_at` on coming to
        `started`; `finished_at` on coming to an end, cleared on leaving it; `worker`, `node`,
        `pid`, `started_at` and `usage` cleared on coming to `waiting`, `scheduled` or `pending`;
        `paused` cleared on leaving `started`; `eta` to
        now + `delay`; `last_order` one higher if `order`; `returned_from` to (worker, attempt) if
        `returned`, else cleared; an Attempt's end if `ending` is set and a worker held the task;
        an Event named by the new state (ending and note are its note) or, if the state stays, by
        the note.
        """

    def turn(
        self,
        worker: str,
        changes: Sequence[Change],
        queues: Sequence[str],
        limit: int,
        handles: Handles,
    ) -> tuple[list[bool], list[Task]]:
        """Commit, then reserve, in one round trip: the hot loop of short tasks, so the answer says
        only which changes were applied. Raises LeaseLost as reserve does; nothing is applied then.
        """

    def promote(self, limit: int) -> float | None:
        """Make up to `limit` due tasks `pending`. The answer is when time next brings something: a
        task that is due, or the next start that a queue's rate allows while tasks wait for it; None
        if nothing will.

        It may lie in the past: then there are more, call again.
        """

    # Workers

    def beat(self, worker: Worker, number: int, nonce: str, reports: Sequence[Report]) -> Beat:
        """Renew the worker's lease and take its reports; brings open orders and suspects.

        The first beat of an identity has number 1 and registers it. Raises LeaseLost, changing
        nothing, if the worker was buried, if the number is not newer than the last one (unless
        the nonce is the same: a retry of an answer that got lost), or if a number above 1 finds
        no such worker. A lease never ends earlier because of a beat.

        A report of an attempt that the worker no longer holds is dropped. Progress and
        checkpoints set the task's `losses` to 0. Usage is the task's newest, and a point in the
        attempt's series (see `core.usage`): it takes the place of an earlier one in its slot, and
        where a slot begins a wider grid, points off that grid go.

        A worker that `keeps` is never among the suspects.
        """

    def bury(self, judge: str, silent: dict[str, int]) -> list[Task]:
        """Mark as dead the workers whose last number is still the one given; the answer is every
        task that any dead worker still holds, to be decided as lost. Forgets dead workers that
        hold nothing. Raises LeaseLost if the judge itself is not registered or dead.
        """

    def holdings(self, worker: str) -> list[Task]:
        """What the worker holds according to the store."""

    def workers(self) -> list[Worker]:
        """All that are not buried; `STALE` when their lease is over."""

    def attend(self, workers: Sequence[str], seconds: float) -> None:
        """Somebody watches what these workers run: for so long their beats say `watched`. Wakes
        them, unless they know already.
        """

    def drop_worker(self, worker: str, number: int | None = None) -> list[Task]:
        """Bury on somebody's word: only a stale one (else Refused), or, with its own last number,
        a worker that takes its leave (LeaseLost if it is not its last). The answer is what it held,
        to be decided as lost. Raises UnknownWorker.
        """

    # Waiting

    def waiter(self, worker: str | None, queues: Sequence[str]) -> Waiter:
        """A waiter for tasks becoming available in these queues and for orders to this worker."""

    def watch(self, since: int, timeout: float, limit: int) -> list[Event]:
        """Up to `limit` events after number `since`, waiting for the first one up to `timeout`.

        Numbers only grow. Of a task that is gone one event is left, `deleted`, for a day or so.
        """

    def last_event(self) -> int:
        """The number of the newest event; 0 if there is none."""

    # Reading

    def get(self, ids: Sequence[str]) -> list[Task | None]:
        """The tasks with these ids, in this order."""

    def find(self, filter: Filter, cursor: str | None, limit: int) -> Page:
        """Tasks that match, newest first, from the cursor of the page before on."""

    def peek(self, queue: str, limit: int) -> list[Task]:
        """What would be reserved next if nothing were limited, best first, without taking it."""

    def attempts(self, id: str) -> list[Attempt]:
        """All attempts, oldest first, the one that goes on included."""

    def events(self, id: str) -> list[Event]:
        """All that happened to the task, oldest first."""

    def log(self, id: str, attempt: int, start: int, limit: int) -> list[LogPiece]:
        """Pieces of the attempt's log from the offset on, up to about `limit` bytes. A gap between
        two pieces is what the caps (`LOG_HEAD`, `LOG_TAIL`) dropped. `at` is when a piece came,
        by the store's clock.
        """

    def usage(self, id: str, attempt: int) -> list[Usage]:
        """The series of what the attempt has used, oldest first; `at` is the store's clock."""

    def checkpoint(self, id: str) -> Checkpoint | None:
        """The newest checkpoint."""

    # Queues and history

    def queues(self, names: Sequence[str] = ()) -> list[QueueInfo]:
        """These queues (those that exist), or all, by name."""

    def set_queue(self, name: str, **settings: Unpack[QueueSettings]) -> QueueInfo:
        """Change those of a queue's settings that are named, making it if need be.

        Cheap but for the step between a queue whose keys are limited, or whose owners take turns,
        and one where neither is so: that takes as long as there are tasks waiting.
        """

    def drop_queue(self, name: str, limit: int) -> int:
        """Delete up to `limit` of its tasks; when none is left, the queue. The answer is how many
        are left. Ids of those that had ended stay refused, as after a purge. Pauses it first, so
        that it does not grow under the hand; refuses (Refused) while one is running, and what is
        not there (UnknownQueue).
        """

    def purge(
        self, ids: Sequence[str] | None, states: Sequence[State], before: float, limit: int
    ) -> list[str]:
        """Forget up to `limit` finished tasks in these states that ended before then (`ids`: among
        these only), with all that belongs to them. Their ids stay refused for `REMEMBERED`.
        """


class TransactionalStore(Store, Protocol):
    """A store that can make tasks part of a transaction of the caller's (SQL databases)."""

    def submit_on(self, connection: object, tasks: Sequence[NewTask]) -> list[Submitted]:
        """As `submit`, on the caller's own connection to the same database, inside its
        transaction (begun if there is none): the tasks exist if and only if the caller commits.
        """


@runtime_checkable
class ServedStore(Protocol):
    """A store behind a server, which decides itself what becomes of a task: so nobody who may
    steer tasks can bring it a change that no verb leads to.
    """

    def ask(self, id: str, happening: Happening) -> Task:
        """Let the server decide and commit what an operator wants; the task as it is then."""

    def give_up(self, worker: str) -> int:
        """As `control.drop_worker`."""
