"""What operators ask of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Unpack

from stayer.core.model import (
    State,
)
from stayer.core.queue_model import QueueInfo, QueueSettings
from stayer.core.schedules.model import Schedule
from stayer.core.worker_model import Worker, WorkerOrder
from stayer.store.reads import ReadStore


class AdminStore(ReadStore, Protocol):
    """What operators change besides tasks, for which they have the one road (`commit`)."""

    def drain_worker(self, worker: str) -> Worker:
        """Ask it to finish what it runs and take no more: from now on its beats say `drain`. Wakes
        it. The answer is the worker as it is. Raises UnknownWorker, also for one that was declared
        lost.
        """

    def order_worker(self, worker: str, order: WorkerOrder) -> Worker | None:
        """Give a worker an order in the place of its last one: its beats bring it from now on.
        Wakes it. None, and nothing is done, unless the number is one higher than the last one's.
        An order to stop also drains it; from its `ends_at` on, beats are refused (LeaseLost), so
        that the lease ends. The answer is the worker as it is. Raises UnknownWorker, as
        drain_worker does.
        """

    def set_queue(self, name: str, **settings: Unpack[QueueSettings]) -> QueueInfo:
        """Change those of a queue's settings that are named, making it if need be.

        Cheap but for the step between a queue whose keys are limited, or whose owners take turns,
        and one where neither is so: that takes as long as there are tasks waiting.
        """

    def drop_queue(self, name: str, limit: int) -> int:
        """Delete up to `limit` of its tasks; when none is left, the queue. The answer is how many
        are left. Ids of those that had ended stay refused, as after a purge. Pauses it first, so
        that it does not grow meanwhile; refuses (Refused) while one is running, and what is
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
