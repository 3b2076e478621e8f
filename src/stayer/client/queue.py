"""A queue: putting tasks into it, looking at it, pausing it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from stayer.client.handle import TaskHandle, as_stored
from stayer.client.submit import (
    Defaults,
    Options,
    TaskOptions,
    build,
    submit,
    submit_many,
    with_parameters,
)
from stayer.client.values import Duration, Moment, Storable, seconds
from stayer.core.errors import BadInput, UnknownTask
from stayer.core.model import STATES, State, Submitted, Value
from stayer.core.queue_model import KEPT, Kept, QueueInfo
from stayer.core.queue_settings import WrittenSettings
from stayer.service.control import queues as queue_control
from stayer.service.control import tasks as control
from stayer.store import Store


class Queue:
    """A named list of tasks, made by its first task."""

    def __init__(self, store: Store, name: str, defaults: Defaults) -> None:
        build(name, None, defaults)  # checks the name
        self._store = store
        self._defaults = defaults
        self.name = name

    def __repr__(self) -> str:
        return f"<Queue {self.name} in {self._store.url}>"

    def enqueue(
        self,
        parameters: Storable = None,
        *,
        id: str | None = None,
        connection: object = None,
        **options: Unpack[Options],
    ) -> str:
        """Submit a task; its id. An id that is there already is not accepted again; that of a
        deleted task raises DeletedId. Nor is a task accepted whose `unique` word another one of the
        queue holds: the answer is then that one's id.

        It runs when the tasks named in `after` are complete, and gets their results as its inputs;
        should one of them fail, `when_failed` says whether to cancel it, run it, or hold it.

        With a `connection` of yours to the same database, the task is there if and only if your
        transaction commits.
        """
        return self.submit(parameters, id=id, connection=connection, **options).id

    def submit(
        self,
        parameters: Storable = None,
        *,
        id: str | None = None,
        connection: object = None,
        **options: Unpack[Options],
    ) -> TaskHandle[Value]:
        """Submit as `enqueue` does, but answer with a handle, which says in `fresh` whether this
        call made the task or it was there already.
        """
        new = build(self.name, parameters, self._defaults, id=id, **options)
        return self._handle(submit(self._store, new, connection))

    def enqueue_many(
        self,
        parameters: Iterable[Storable],
        *,
        ids: Iterable[str] | None = None,
        connection: object = None,
        **common: Unpack[Options],
    ) -> list[str]:
        """Submit a task for each of the parameters; their ids, in the same order.

        `ids` are theirs one by one, the other options hold for all. If it fails on the way, the
        error says how many were accepted.
        """
        made = self.submit_many(parameters, ids=ids, connection=connection, **common)
        return [task.id for task in made]

    def submit_many(
        self,
        parameters: Iterable[Storable],
        *,
        ids: Iterable[str] | None = None,
        connection: object = None,
        **common: Unpack[Options],
    ) -> list[TaskHandle[Value]]:
        """Submit as `enqueue_many` does, but answer with handles."""
        pattern = build(self.name, None, self._defaults, **common)
        tasks = with_parameters(pattern, parameters, ids)
        return [self._handle(each) for each in submit_many(self._store, tasks, connection)]

    def _handle(self, answer: Submitted) -> TaskHandle[Value]:
        return TaskHandle(self._store, answer.task, as_stored, answer.fresh)

    def schedule(
        self,
        parameters: Storable,
        eta: Moment,
        *,
        id: str | None = None,
        connection: object = None,
        **options: Unpack[TaskOptions],
    ) -> str:
        """Submit a task that is due at this moment; its id."""
        return self.enqueue(parameters, id=id, eta=eta, connection=connection, **options)

    def info(self) -> QueueInfo:
        """Read its settings, and how many tasks it has in each state."""
        found = self._store.queues([self.name])
        return found[0] if found else QueueInfo(name=self.name)

    def counts(self) -> dict[State, int]:
        """Count its tasks in each state."""
        return self.info().counts

    def count(self, state: State | None = None) -> int:
        """Count its tasks, in this state or at all."""
        if state is not None and state not in STATES:
            raise BadInput(f"no state is called {state!r}: they are {', '.join(STATES)}")
        counts = self.counts()
        return sum(counts.values()) if state is None else counts.get(state, 0)

    def peek(self, limit: int = 10) -> list[TaskHandle[Value]]:
        """List what would be taken next, best first, without taking it."""
        found = self._store.peek(self.name, limit)
        return [TaskHandle(self._store, task, as_stored) for task in found]

    def pause(self) -> None:
        """Let no more of its tasks be taken; what runs, runs on."""
        queue_control.pause_queue(self._store, self.name)

    def resume(self) -> None:
        """Let its tasks be taken again."""
        queue_control.resume_queue(self._store, self.name)

    def set_limit(self, limit: int | None) -> None:
        """Set how many of its tasks may run at once; None: any number."""
        self.set(limit=limit)

    def set(self, **settings: Unpack[WrittenSettings]) -> QueueInfo:
        """Change those of its settings that are named; None takes one away."""
        return queue_control.set_queue(self._store, self.name, **settings)

    def set_retention(self, /, **kept: Duration | None) -> None:
        """Set how long after their end its `complete`, `failed` and `cancelled` tasks are kept, and
        `log` and `result` of them; None: as the workers are told.
        """
        if unknown := [what for what in kept if what not in KEPT]:
            raise BadInput(f"nothing kept is called {unknown[0]!r}: there are {', '.join(KEPT)}")
        given = ((what, kept[what]) for what in KEPT if what in kept)
        wanted: dict[Kept, float | None] = {
            what: None if time is None else seconds(time) for what, time in given
        }
        self._store.set_queue(self.name, retention=wanted)

    def delete(self, task_id: str) -> None:
        """Forget one of its tasks that has ended; its id stays refused for a while."""
        task = control.get(self._store, task_id)
        if task.queue != self.name:
            raise UnknownTask(f"task {task_id} is in queue {task.queue}, not in {self.name}")
        control.delete(self._store, task_id)

    def drop(self, *, force: bool = False) -> int:
        """Delete it with its tasks; how many they were. Unfinished ones only with `force`."""
        return queue_control.drop_queue(self._store, self.name, force=force)
