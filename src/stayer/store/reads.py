"""What readers ask of a store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from stayer.core.availability import Reach
from stayer.core.errors import StoreUnreachable
from stayer.core.flows.model import FlowInfo, FlowPage, Upstreams
from stayer.core.insight.failures import Failures
from stayer.core.insight.health import Finding
from stayer.core.insight.queue_stats import Figures
from stayer.core.liveness import lost_workers
from stayer.core.liveness.lost_workers import LostWorker
from stayer.core.model import (
    Attempt,
    Checkpoint,
    Event,
    Filter,
    LogPiece,
    Page,
    Statistics,
    Task,
    Usage,
)
from stayer.core.notify.notices import NoticePage, NoticeState
from stayer.core.queue_model import QueueInfo
from stayer.core.schedules.model import Schedule
from stayer.core.worker_model import Worker
from stayer.store.base import StoreBase


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

    def count_incoming(self) -> int:
        """Count what programs have pushed and nobody has taken (see `has_incoming`)."""
        return 0

    def workers(self) -> list[Worker]:
        """List all that are not declared lost; `STALE` when their lease is over."""

    def lost_workers(self) -> list[LostWorker]:
        """List the newest of those that were declared lost, the newest first: as many as are kept
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
        return lost_workers.choose_listed(store.lost_workers(), alive, store.now())
    except StoreUnreachable:
        if not store.in_parts:
            raise
        return []
