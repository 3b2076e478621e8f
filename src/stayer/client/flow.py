"""A flow seen from outside: how far it is, and what can be done to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, Self

from stayer.client.handle import TaskHandle, as_stored
from stayer.client.values import Duration, seconds
from stayer.core.errors import TaskCancelled, TaskFailed, WaitTimeout
from stayer.core.flows.model import FlowInfo, NewFlow, task_id
from stayer.core.flows.sweep import Run
from stayer.core.model import FINISHED, Filter, NewTask, State, Value
from stayer.service.control import flows as flow_control
from stayer.service.control import sweeps as sweep_control
from stayer.service.control import tasks as control
from stayer.service.operator import operator_of
from stayer.store import Store


class Plan(Protocol):
    """A flow that can be submitted."""

    def laid_out(
        self, build: Callable[..., NewTask], owner: str | None
    ) -> tuple[NewFlow, list[NewTask]]:
        """Lay out the flow and its tasks."""


class FlowHandle:
    """A flow as it was when last read, with the verbs that change it and read it again."""

    def __init__(self, store: Store, info: FlowInfo) -> None:
        self._store = store
        self._info = info

    def __repr__(self) -> str:
        return f"<FlowHandle {self.id} ({self.info.name}): {self.state}>"

    @property
    def info(self) -> FlowInfo:
        """Its parts, and how many tasks of each are in each state."""
        return self._info

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def state(self) -> State:
        """The state that it would have if it were one task."""
        return self.info.state

    def refresh(self) -> Self:
        """Read it again."""
        self._info = flow_control.get(self._store, self.id)
        return self

    def task(self, part: str, place: int | None = None) -> TaskHandle[Value]:
        """Get the task of a part, or at a place of a map."""
        record = control.get(self._store, task_id(self.id, part, place))
        return TaskHandle(self._store, record, as_stored)

    def tasks(self) -> Iterator[TaskHandle[Value]]:
        """List all of its tasks, newest first."""
        found = control.find_all(self._store, Filter(flow=self.id))
        return (TaskHandle(self._store, task, as_stored) for task in found)

    def compare(self, part: str | None = None) -> list[Run]:
        """List the runs of a sweep, or of a map of a flow: parameters, state, result, duration."""
        self._info, runs = sweep_control.compare(self._store, self.id, part)
        return runs

    def ends_within(self, timeout: Duration | None = None) -> bool:
        """Wait until all of it has ended, well or badly; whether it has."""
        limit = None if timeout is None else seconds(timeout)
        self._info = flow_control.wait(self._store, self.id, limit)
        return self.state in FINISHED

    def wait(self, timeout: Duration | None = None) -> Self:
        """Wait until all is complete; else raises TaskFailed, TaskCancelled or WaitTimeout."""
        if not self.ends_within(timeout):
            raise WaitTimeout(f"flow {self.id} has not ended in the time given: it goes on")
        if self.state == "failed":
            failed = self._store.find(Filter(flow=self.id, states=("failed",)), None, 1).tasks[0]
            raise TaskFailed(failed.id, failed.error)
        if self.state == "cancelled":
            raise TaskCancelled(f"flow {self.id} was cancelled")
        return self

    def cancel(self, grace: Duration | None = None) -> Self:
        """Cancel all that has not ended; what runs is asked to stop."""
        limit = None if grace is None else seconds(grace)
        operator_of(self._store).cancel_flow(self.id, limit)
        return self.refresh()

    def retry(self, *, from_start: bool = False) -> Self:
        """Run again what failed or was cancelled, each from its last checkpoint or from the start;
        what is complete stays.
        """
        operator_of(self._store).retry_flow(self.id, from_start=from_start)
        return self.refresh()
