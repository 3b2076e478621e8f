"""What an operator asks for: verbs, carried out here or by a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from stayer.core.insight.explanation import Explanation
from stayer.core.model import (
    JSON,
    Submitted,
    Task,
    Value,
)
from stayer.core.submit.edits import Edits
from stayer.core.worker_model import Worker


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
        """Drop a stale worker and return what it held to the queue; how many tasks that was."""

    def set_worker(
        self,
        worker: str,
        *,
        queues: Sequence[str] = (),
        add_queues: Sequence[str] = (),
        remove_queues: Sequence[str] = (),
        slots: int | None = None,
        reset: bool = False,
    ) -> Worker:
        """Change which queues a worker takes tasks from, and how many it runs at once."""

    def stop_worker(self, worker: str, grace: float | None = None) -> Worker:
        """Tell a worker to stop what it runs, hand that back and leave."""
