"""The contract that every database keeps.

One protocol for each kind of caller: readers, submitters, workers, operators, upkeep, delivery,
moves.
`Store` is their sum, kept by what lives in `stores/`: another store is one folder there that
inherits from `Store` and passes `tests/contract/`.

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

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, Unpack

from stayer.core.availability import Reach
from stayer.core.errors import Refused, StoreUnreachable
from stayer.core.flows.model import FlowInfo, FlowPage, NewFlow, Upstreams
from stayer.core.insight.explanation import Explanation
from stayer.core.insight.failures import Failures
from stayer.core.insight.health import Finding
from stayer.core.insight.queue_stats import Figures
from stayer.core.liveness import lost_workers
from stayer.core.liveness.lost_workers import LostWorker
from stayer.core.model import (
    JSON,
    Attempt,
    Change,
    Checkpoint,
    Event,
    Filter,
    LogPiece,
    NewTask,
    Page,
    Report,
    State,
    Statistics,
    Submitted,
    Task,
    Usage,
    Value,
)
from stayer.core.move.records import Batch, Record, Seal, Stage
from stayer.core.notify.notices import Delivery, Notice, NoticePage, NoticeState
from stayer.core.queue_model import Kept, QueueInfo, QueueSettings
from stayer.core.schedules.model import Firing, Schedule
from stayer.core.submit.edits import Edits
from stayer.core.worker_model import Beat, Handles, Worker

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


class Operator(Protocol):
    """Carries out the verbs of an operator: over a store (`service.operator`), or by asking a
    server, which decides itself. So nobody who may steer tasks can bring a server a change that no
    verb leads to.

    What each verb means stands where it is done, in `service.control`.
    """

    def cancel(self, id: str, grace: float | None = None) -> Task:
        """Cancel a task: at once if it waits, else by asking its worker."""

    def complete(self, id: str, result: Value = None) -> Task:
        """Declare a task that does not run complete by hand."""

    def fail(self, id: str, error: str = "") -> Task:
        """Declare a task that does not run failed by hand."""

    def retry(
        self,
        id: str,
        *,
        from_start: bool = False,
        now: bool = False,
        latest_code: bool = False,
        edits: Edits | None = None,
    ) -> Task:
        """Run a finished task again, perhaps with changes."""

    def edit(self, id: str, edits: Edits) -> Task:
        """Change what a task that waits is to do."""

    def clone(self, id: str, edits: Edits, *, owner: str | None = None) -> Submitted:
        """Submit a task like this one, with changes."""

    def hold(self, id: str) -> Task:
        """Keep a task from being taken until it is released."""

    def release(self, id: str) -> Task:
        """Let a held task be taken again."""

    def pause(self, id: str) -> Task:
        """Stop a running task where it is, until it is resumed."""

    def resume(self, id: str) -> Task:
        """Let a paused task run on."""

    def signal(self, id: str, name: str) -> Task:
        """Send a signal to a running task's process."""

    def stack(self, id: str) -> Task:
        """Let a running Python task write to its log where it is."""

    def set(
        self,
        id: str,
        *,
        priority: int | None = None,
        limits: Mapping[str, float] | None = None,
        more_time: float | None = None,
        notify: Sequence[str] | None = None,
        meta: Mapping[str, JSON] | None = None,
    ) -> Task:
        """Change the priority, the limits, or who hears of a task that has not ended; and fields of
        the user's own, of any task.
        """

    def explain(self, id: str) -> Explanation:
        """Give all reasons why a task is where it is, and a forecast."""

    def cancel_flow(self, id: str, grace: float | None = None) -> int:
        """Cancel all of a flow that has not ended; how many tasks that was."""

    def retry_flow(self, id: str, *, from_start: bool = False) -> int:
        """Run again what failed or was cancelled of a flow; how many tasks that is."""

    def drop_worker(self, worker: str) -> int:
        """Give a stale worker up and return what it held to the queue; how many tasks that was."""


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

    def recorded(self, key: str) -> str | None:
        """Read what was recorded under a key, if its time is not over."""


class ReadStore(StoreBase, Protocol):
    """What readers need: people who look, whoever waits for tasks to end, and all who act on what
    they read.
    """

    def get(self, ids: Sequence[str]) -> list[Task | None]:
        """Read the tasks with these ids, in this order."""

    def find(self, filter: Filter, cursor: str | None, limit: int) -> Page:
        """Find tasks that match, newest first, from the cursor of the page before on."""

    def upstreams(self, ids: Sequence[str]) -> list[Upstreams]:
        """Tell what each of these tasks was to run after, in the order in which it was named."""

    def waits(self, id: str, limit: int) -> tuple[list[str], int]:
        """List up to `limit` of the ids that the task waits for now, and how many they are."""

    def flows(self, cursor: str | None, limit: int) -> FlowPage:
        """List flows, newest first, from the cursor of the page before on. A flow is there as long
        as any of its tasks is.
        """

    def flow(self, id: str) -> FlowInfo | None:
        """Read the flow with this id."""

    def peek(self, queue: str, limit: int) -> list[Task]:
        """List what would be reserved next if nothing were limited, best first."""

    def ahead(self, id: str) -> int:
        """Count the tasks of its queue that stand before a pending one: those that can be taken and
        have a higher priority, or the same and are older. 0 if it is not there, or not pending.
        """

    def durations(self, queue: str, limit: int) -> list[tuple[str, float]]:
        """Tell how long complete tasks of a queue took in their last attempt, from its start to its
        end: kind and seconds, those submitted last first.
        """

    def failures(self, queues: Sequence[str], limit: int) -> Failures:
        """Group the failed tasks of these queues (or of all) by fingerprint: up to `limit` of the
        faults, the most frequent first, and how many faults and tasks there are altogether.
        """

    def attempts(self, id: str) -> list[Attempt]:
        """List all attempts, oldest first, the one that goes on included. Where events were dropped
        (see `events`), those attempts are missing of which they told the beginning or the end; but
        never the newest.
        """

    def events(self, id: str) -> list[Event]:
        """List all that happened to the task, oldest first. Their numbers tell that order; only
        those of `watch` are the same count for all tasks.

        Of a task to which more than `HISTORY_HEAD` + `HISTORY_TAIL` things happened, about so many
        are kept. An event `dropped` stands for those between, and says in its note how many they
        were; its time is that of the next.
        """

    def log(self, id: str, attempt: int, start: int, limit: int) -> list[LogPiece]:
        """Read pieces of the attempt's log from the offset on, up to about `limit` bytes. A gap
        between two pieces is what the caps (`LOG_HEAD`, `LOG_TAIL`) dropped. `at` is when a piece
        came, by the store's clock.
        """

    def usage(self, id: str, attempt: int) -> list[Usage]:
        """Read the series of what the attempt has used, oldest first; `at` is the store's clock."""

    def statistics(self, id: str, attempt: int) -> Statistics | None:
        """Read what the attempt has reported of itself; `at` is the store's clock."""

    def checkpoint(self, id: str) -> Checkpoint | None:
        """Read the newest checkpoint."""

    def queues(self, names: Sequence[str] = ()) -> list[QueueInfo]:
        """List these queues (those that exist), or all, by name."""

    def figures(
        self, since: float, until: float, step: int, queues: Sequence[str] | None
    ) -> list[Figures]:
        """Read the figures of the stretches of this length (one of `core.insight.queue_stats.KEPT`)
        that began from `since` on and before `until`, by time and queue: of these queues, of every
        one if none is named, or with None of all together. One that is not there: nobody looked, or
        the queue was at rest.
        """

    def workers(self) -> list[Worker]:
        """List all that are not buried; `STALE` when their lease is over."""

    def lost_workers(self) -> list[LostWorker]:
        """List the newest of those that were given up, the newest first: as many as are kept
        (`core.liveness.lost_workers`). For people to look at; see `known_lost_workers`.
        """

    def schedules(self, names: Sequence[str] = ()) -> list[Schedule]:
        """List these schedules (those that exist), or all, by name."""

    def notices(
        self, task: str | None, state: NoticeState | None, cursor: str | None, limit: int
    ) -> NoticePage:
        """List notices, newest first, of this task and in this state if they are named, from the
        cursor of the page before on. They may outlive their task.
        """

    def reach(self, queues: Sequence[str]) -> Reach:
        """Tell which of these queues, or of all, can be reached now. Raises StoreUnreachable if
        none can, or if nobody can say which there are.
        """
        return Reach(tuple(info.name for info in self.queues(queues)), {})

    def workers_of(self, queues: Sequence[str]) -> list[Worker]:
        """List workers as `workers` does; what they run is counted in these queues, which can be
        reached. While the place that knows all workers is away: those that are known there. Who is
        not among them need not be dead. No queues named: all workers, or StoreUnreachable.
        """
        return self.workers()

    def check(self) -> list[Finding]:
        """Look at tables, integrity and counters, for `stayer doctor`; changes nothing."""
        return []

    # Watching

    def watch(self, since: int, timeout: float, limit: int) -> list[Event]:
        """Read up to `limit` events after number `since`, waiting for the first one up to
        `timeout`.

        Numbers only grow. Of a task that is gone one event is left, `deleted`, for a day or so. A
        store may keep only the newest 100,000 events or so for this: whoever was away for longer
        gets those there are, and reads the tasks to know the rest. `events` has a task's own.
        """

    def last_event(self) -> int:
        """Give the number of the newest event; 0 if there is none."""

    def attend(self, workers: Sequence[str], seconds: float) -> None:
        """Somebody watches what these workers run: for so long their beats say `watched`. Wakes
        them, unless they know already.
        """


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


class WorkerStore(ReadStore, Protocol):
    """What workers and listeners need: taking tasks, the one road of every change, the lease."""

    a_turn: int
    """How many tasks a `turn` should take at most: others wait for as long as that takes."""

    def reserve(
        self, worker: str, queues: Sequence[str], limit: int, handles: Handles
    ) -> list[Task]:
        """Give the worker up to `limit` tasks: `reserved`, held by it, `attempt` one higher.

        Queue by queue in the order given; within one, higher priority first, then older first (a
        returned task has kept its place). In a queue that is `fair`, among tasks of equal priority
        the share that has used least goes first (see `core.ordering.fair_share`). Leaves alone what
        is held, what `handles` does not name, what has not been started by its `start_before`,
        paused queues, and what would exceed a queue's limit, the limit of its key, or the queue's
        rate; a worker that drains gets nothing. A key's place is taken from the reservation on
        until the task leaves the states `reserved` and `started`. Raises LeaseLost if the worker is
        not registered or was buried.
        """

    def commit(self, changes: Sequence[Change]) -> list[Task | None]:
        """Apply each change if the task's (state, worker, attempt, last_order) are those that it
        names; the answer is the task as it is after the call, or None where nothing was done. A
        change with `late` applies also to a `pending` task whose `returned_from` names
        (worker, attempt); one with `losses_before` only if the losses are these; one with
        `unique_is_free` only if no other task holds the task's unique word.

        What it does is its `effect`, all of it and nothing else, in one step: whoever reads sees
        all of a change or nothing. The rules are not the store's: see `core.effects`. Counters,
        indexes and who holds a unique word follow from the task's record before and after.

        The effect's `moment`, the Attempt's start and end, and what a fair queue counts, are `ago`
        seconds before now, but never before the attempt's start, or if that is not known its
        reservation, by the store's clock: clocks of nodes may be wrong. All else is as of now.

        A task with `dependents` that `ends` is noted in the outbox, in the same step, and passed on
        (see `promote`) before this returns, as far as that is quick. That may fail without harm:
        the note stays. Whoever wants to hear one of the `hook_words` by the task's `notify` or its
        queue's gets a Notice each, in the same step, with the task as the call leaves it. So with
        what `promote` and `reserve` end.
        """

    def turn(
        self,
        worker: str,
        changes: Sequence[Change],
        queues: Sequence[str],
        limit: int,
        handles: Handles,
        meanwhile: Meanwhile = None,
    ) -> tuple[list[bool], Sequence[Task]]:
        """Commit, then reserve, in one round trip: the hot loop of short tasks, so the answer says
        only which changes were applied. Raises LeaseLost as reserve does; nothing is applied then.

        `meanwhile` is called once, while somebody else is at work on it if it is somebody else who
        does it; not at all if it comes to nothing before. Tasks may be read when they are looked
        at.
        """

    # The lease

    def beat(self, worker: Worker, number: int, nonce: str, reports: Sequence[Report]) -> Beat:
        """Renew the worker's lease and take its reports; brings open orders and suspects.

        The first beat of an identity has number 1 and registers it. Raises LeaseLost, changing
        nothing, if the worker was buried, if the number is not newer than the last one (unless
        the nonce is the same: a retry of an answer that got lost), or if a number above 1 finds
        no such worker. A lease never ends earlier because of a beat.

        A report of an attempt that the worker no longer holds is dropped. Progress, statistics and
        checkpoints set the task's `losses` to 0. Statistics take the place of what the attempt had
        reported before, and their latest values are the task's `metrics`. Usage is the task's
        newest, and a point in the attempt's series (see `core.insight.usage_series`): it takes the
        place of an earlier one in its slot, and where a slot begins a wider grid, points off that
        grid go.

        A worker that `keeps` is never among the suspects.

        A store in several places, some of which are away, says whose reports it could not take, and
        where the lease is not renewed.
        """

    def report(self, worker: str, reports: Sequence[Report]) -> list[bool]:
        """Take news of what the worker holds between its beats: its lease stays as it is. The
        answer says of each whether the worker holds that attempt; if not, it was dropped.
        """

    def bury(self, judge: str | None, silent: dict[str, int]) -> list[Task]:
        """Mark as dead the workers whose last number is still the one given; the answer is every
        task that any dead worker still holds, to be decided as lost. Forgets dead workers that
        hold nothing. Each that was not dead before is an event, `core.insight.totals.WORKER_LOST`,
        of no task and no queue, and is among the `lost_workers` from now on. Raises LeaseLost if
        the judge itself is not registered or dead. A judge that is no worker is None.
        """

    def holdings(self, worker: str, queues: Sequence[str] = ()) -> list[Task]:
        """List what the worker holds in these queues; none named: in all."""

    def drop_worker(
        self, worker: str, number: int | None = None, is_lost: bool = False
    ) -> list[Task]:
        """Bury on somebody's word: only a stale one (else Refused), or, with its own last number,
        a worker that takes its leave (LeaseLost if it is not its last), or that a server has judged
        to be dead (`is_lost`). The answer is what it held, to be decided as lost. One that does not
        take its leave is an event, and is among the `lost_workers`, as in `bury`. Raises
        UnknownWorker.
        """

    def waiter(self, worker: str | None, queues: Sequence[str]) -> Waiter:
        """Make a waiter for tasks that become available in these queues, and for orders to this
        worker.
        """


class AdminStore(ReadStore, Protocol):
    """What operators change besides tasks, for which they have the one road (`commit`)."""

    def drain_worker(self, worker: str) -> Worker:
        """Ask it to finish what it runs and take no more: from now on its beats say `drain`. Wakes
        it. The answer is the worker as it is. Raises UnknownWorker, also for one that is buried.
        """

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
        """Forget up to `limit` finished tasks in these states of whose end the store heard before
        then (`ids`: among these only), with all that belongs to them. Their ids stay refused for
        `REMEMBERED`. Leaves alone what a task that has not ended was to run after.
        """

    def put_schedule(self, schedule: Schedule, seen: float | None = None) -> Schedule:
        """Make a schedule, or change the one of that name. `last_task` stays, and so does `last`,
        unless it gets another expression or zone, or goes on after a pause: then, and at first, it
        is now. It is not `waiting` any more. Workers that listen to the queue of its task hear of
        it.

        With `seen`, the `updated` of what this was made from, raises Refused if it is another now,
        or if there is no such schedule any more.
        """

    def drop_schedule(self, name: str) -> bool:
        """Forget a schedule; whether there was one. Its tasks stay."""

    def retry_notices(self, ids: Sequence[str]) -> int:
        """Let these be pending again and due now, their `tries` forgiven and their age counted
        anew; how many had failed, or were pending. What is delivered stays so.
        """

    def drop_notices(self, ids: Sequence[str]) -> int:
        """Forget these; how many there were."""


class UpkeepStore(StoreBase, Protocol):
    """What time brings, done by whoever is there: every worker and every server."""

    def promote(self, limit: int) -> float | None:
        """Make up to `limit` due tasks `pending`, and end up to `limit` that have not been started
        by their `start_before` (as `decide(task, Expire())` says). The answer is when time brings
        the next thing: a task that is due, one that expires, a schedule to be looked at, the next
        start that a queue's rate allows while tasks wait for it; None if nothing will come.

        Passes on what is in the outbox to up to about `limit` of those that wait for it: an ended
        task is taken from the set of what a dependent waits for, and
        `core.flows.model.decide_waiting` says what becomes of the dependent. A note leaves the
        outbox when all dependents have heard of it, or when its task is not ended any more; one
        that was deleted before its end counts as `cancelled`. Passing on twice, or being killed in
        the midst of it, does no harm.

        The answer may lie in the past: then there are more, call again; or `due_schedules` has
        some.
        """

    def due_schedules(self, limit: int) -> list[Schedule]:
        """List up to `limit` that are to be looked at by now, the longest due first; no paused
        ones.
        """

    def fire(self, firing: Firing) -> bool:
        """In one step, if the schedule's `updated` and `last` are those that the firing names:
        submit the tasks (an id that is there is not accepted again), and set `last`, `next` and
        `last_task`, to the last of them that another does not keep out by holding its unique word;
        if there is none, it stays. `waiting` is the firing's. Whether that was done.
        """

    def sample(self) -> float:
        """Write down the figures of the minutes that are over and that nobody has counted yet: by
        the minute, the hour and the day (`core.insight.queue_stats.KEPT`). Of several who do this
        at once, one counts. What was submitted and what ended is counted in arrears, from indexes,
        so nothing that runs pays for it; of very many it may be reckoned from a part. An end counts
        in the minute in which the store heard of it. The answer is in how many seconds there is
        more to do.
        """

    def totals(self) -> str | None:
        """Read what was counted for metrics (`core.insight.totals`); None: nothing yet."""

    def put_totals(self, totals: str, known: str | None) -> bool:
        """Keep this in its place, if that is still the one known; whether it is."""

    def forget(self, retention: Mapping[Kept, float], limit: int) -> int:
        """Forget what has been kept for long enough by its queue's retention, or by the one given
        for what the queue does not say: whole tasks as `purge` does, logs, results. About `limit`
        at a time; the answer is how many were seen to: 0 if nothing is left to be forgotten.

        The newest task of a schedule is kept, however old.
        """


class DeliveryStore(StoreBase, Protocol):
    """What whoever delivers notices needs."""

    def take_notices(
        self, hooks: Sequence[str], limit: int, lease: float, age: float
    ) -> list[Notice]:
        """Take up to `limit` pending notices whose time has come, the longest due first, to hooks
        of these names ('' stands for all that go to a URL): one more of their `tries`, and nobody
        else is given them before `lease` seconds are over.

        Also lets fail those of other hooks that have been due for longer than `age`, and forgets
        what has been delivered, or has failed, `core.notify.notices.KEPT` after it was made; some
        of each at a time. Cheap if there is nothing to do.
        """

    def add_notices(self, found: Sequence[Notice]) -> None:
        """Keep notices that no change of a task brings, such as that of a lost worker: each unless
        there is one of its id, so that several may find the same. Each names a queue that is there.
        """

    def settle_notice(self, notice: Notice, delivery: Delivery) -> bool:
        """Note what came of a try; whether it was still this one's to tell: nothing is done unless
        the notice is pending and has just as many `tries`, and, if it was not delivered, as many
        `forgiven`: whoever had it retried meanwhile was promised another try. What is put back has
        one more of its `tries` forgiven.
        """


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


class Store(
    SubmitStore,
    FileStore,
    WorkerStore,
    AdminStore,
    UpkeepStore,
    DeliveryStore,
    MoveStore,
    Protocol,
):
    """A database that holds tasks, queues and workers: all that its kinds of callers need.

    A store inherits from this. What has a body above is so for a store in one place, that is no
    file and no SQL database, until it says otherwise.
    """


def known_workers(store: ReadStore) -> list[Worker]:
    """List all workers for people to look at; while a part of the store is away, as the rest knows
    them.
    """
    try:
        return store.workers()
    except StoreUnreachable:
        if not store.in_parts:
            raise
        return store.workers_of(store.reach(()).queues)


def known_lost_workers(store: ReadStore, alive: Collection[Worker]) -> list[LostWorker]:
    """List the workers that are down for people to look at, the newest first: those that were given
    up within a day and are not back. None while the place that knows them is away.
    """
    try:
        return lost_workers.still_listed(store.lost_workers(), alive, store.now())
    except StoreUnreachable:
        if not store.in_parts:
            raise
        return []
