"""What the reasons and the forecast of a task rest on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from stayer.core.errors import StoreUnreachable
from stayer.core.liveness.silent import silent_for, stuck_for
from stayer.core.model import RUNNING, Filter, Task
from stayer.core.ordering.lanes import takes
from stayer.core.queue_model import QueueInfo
from stayer.core.worker_model import Worker
from stayer.store import ReadStore, known_workers

SAMPLES = 500
"""How many finished tasks of the queue tell how long one takes."""
LINE = 50
"""How many of those before it are looked at one by one."""


class Look:
    """What a reason may need to know, each looked up when it is first asked for."""

    def __init__(self, store: ReadStore, task: Task) -> None:
        self.store = store
        self.task = task
        self.now = store.now()

    @cached_property
    def queue(self) -> QueueInfo:
        """The task's queue."""
        return next(iter(self.store.queues([self.task.queue])), QueueInfo(name=self.task.queue))

    @cached_property
    def workers(self) -> list[Worker]:
        """All there are."""
        return known_workers(self.store)

    @cached_property
    def live_workers(self) -> list[Worker]:
        """Those that hear of the task's queue, and live."""
        return [
            each
            for each in self.workers
            if self.task.queue in each.queues and each.state != "STALE"
        ]

    @cached_property
    def able_workers(self) -> list[Worker]:
        """Those of them that take tasks, and such ones as this."""
        return [
            each
            for each in self.live_workers
            if not each.draining and (each.handles is None or takes(self.task, each.handles))
        ]

    @cached_property
    def holder(self) -> Worker | None:
        """Who has it."""
        return next((each for each in self.workers if each.id == self.task.worker), None)

    @cached_property
    def responsive_workers(self) -> list[Worker]:
        """Those that could take it, were heard of lately, and whose threads, if any, answer."""
        return [
            each
            for each in self.able_workers
            if silent_for(each, self.now) is None and stuck_for(each, self.now) is None
        ]

    @cached_property
    def before(self) -> Sequence[Task]:
        """The first of those that stand before it and can be run by somebody."""
        number = self.store.ahead(self.task.id)
        return [each for each in self._first(number) if self._is_for_somebody(each)]

    @cached_property
    def ahead(self) -> int:
        """How many are taken before it: what nobody can run is passed over."""
        number = self.store.ahead(self.task.id)
        return len(self.before) + max(0, number - LINE)

    def _first(self, number: int) -> Sequence[Task]:
        return self.store.peek(self.task.queue, min(number, LINE)) if number else ()

    def _is_for_somebody(self, task: Task) -> bool:
        """Return whether a worker could take it; with nobody there, all of them wait alike."""
        return not self.able_workers or any(
            each.handles is None or takes(task, each.handles) for each in self.able_workers
        )

    @cached_property
    def running_in_queue(self) -> Sequence[Task]:
        """What runs in its queue."""
        wanted = Filter(queues=(self.task.queue,), states=RUNNING)
        return self.store.find(wanted, None, LINE).tasks

    @cached_property
    def running_anywhere(self) -> Sequence[Task]:
        """What runs in all queues, or in those that can be reached: it is for an estimate."""
        try:
            return self.store.find(Filter(states=RUNNING), None, LINE).tasks
        except StoreUnreachable:
            if not self.store.in_parts:
                raise
            there = self.store.reach(()).queues
            return self.store.find(Filter(queues=there, states=RUNNING), None, LINE).tasks

    @cached_property
    def key_limit(self) -> int | None:
        """How many tasks of its key may run at once."""
        if self.task.key is None:
            return None
        return self.queue.key_limits.get(self.task.key, self.queue.key_limit)

    @cached_property
    def running_of_key(self) -> Sequence[Task]:
        """What runs of its key in its queue."""
        wanted = Filter(queues=(self.task.queue,), states=RUNNING, key=self.task.key)
        return self.store.find(wanted, None, max(LINE, self.key_limit or 0)).tasks

    @cached_property
    def until_any_node(self) -> float:
        """How long it still waits for a place on the node of its data; 0 if there is one, or if it
        waits for none.
        """
        node, until = self.task.near_node, self.task.near_until
        if node is None or until is None:
            return 0.0
        there = (each for each in self.responsive_workers if each.node == node)
        return (
            0.0 if any(each.running < each.slots for each in there) else max(0.0, until - self.now)
        )
