"""`cancel`: cancel tasks, and those that were to run after them."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property

from stayer.cli.act_on_tasks import Manner, TaskVerb, act_on_tasks, acts_on_tasks
from stayer.cli.command import Given, command
from stayer.cli.common_options import grace_option
from stayer.cli.output import note, plural
from stayer.cli.selection import Selection
from stayer.cli.silent_workers import find_silent
from stayer.core.errors import StoreUnreachable
from stayer.core.model import QUEUED, RUNNING, Task
from stayer.core.worker_model import Worker
from stayer.service.control import flows as flow_control
from stayer.service.operator import operator_of
from stayer.store import Store, known_workers


@command()
@grace_option
@acts_on_tasks
def cancel(given: Given, selection: Selection, manner: Manner, grace: float | None) -> int:
    """Cancel tasks; running ones are asked to stop, then killed.

    Name tasks, or give a filter: then it cancels all unfinished tasks that match, unless --state
    says otherwise. `stayer wait` returns when a running one has ended. Tasks that were to run after
    a cancelled one are cancelled too, unless they were submitted with --when-failed.
    """
    downstream = _CancelledDownstream(given.store())
    verb = TaskVerb(
        name="cancel",
        act=lambda store, id: downstream.of(operator_of(store).cancel(id, grace)),
        describe=_Description(given.store()).of,
        states=(*QUEUED, *RUNNING),
    )
    code = act_on_tasks(given, verb, selection, manner)
    downstream.print_number()
    return code


class _CancelledDownstream:
    """Counts those that are cancelled with others, which they were to run after."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cancelled: set[str] = set()
        self._before: int | None = None
        with suppress(StoreUnreachable):  # of a part, perhaps: what is asked for may be elsewhere
            if any(queue.counts.get("waiting") for queue in store.queues()):
                self._before = store.last_event()

    def of(self, task: Task) -> Task:
        """Remember the task if it was cancelled, and return it."""
        if self._before is not None and task.state == "cancelled":
            self._cancelled.add(task.id)
        return task

    def print_number(self) -> None:
        """Say how many they are, if any."""
        if self._before is None or not self._cancelled:
            return
        with suppress(StoreUnreachable):
            number = flow_control.count_upstream_failed_since(
                self._store, self._before, self._cancelled
            )
            if number:
                were = "was" if number == 1 else "were"
                note(f"{plural(number)} that {were} to run after these {were} cancelled too")


class _Description:
    """Says what becomes of a task that is cancelled."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, task: Task) -> str:
        if task.state == "cancelled":
            return "cancelled"
        worker = self._silent.get(task.worker or "")
        if worker is None:
            return "asked to stop"
        then = f"dropped (`stayer workers rm {worker.id}`)" if worker.keeps else "declared lost"
        return (
            f"asked to stop, but the worker on {worker.node} is silent: this happens when that is "
            f"heard of again, or {then}"
        )

    @cached_property
    def _silent(self) -> dict[str, Worker]:
        workers = {worker.id: worker for worker in known_workers(self._store)}
        return {id: workers[id] for id in find_silent(list(workers.values()), self._store.now())}
