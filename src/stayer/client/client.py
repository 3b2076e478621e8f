"""The door of a Python program to a store."""

from __future__ import annotations

import functools
import logging
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Self, TypeVar, Unpack
from weakref import WeakValueDictionary

from stayer import config
from stayer.client.flow import FlowHandle, Plan
from stayer.client.handle import TaskHandle, as_stored
from stayer.client.listener import Listener
from stayer.client.processor import Processor
from stayer.client.queue import Queue
from stayer.client.submit import Defaults, Life, Options, build
from stayer.client.values import Duration, Moment, Storable, epoch, seconds
from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.filters import check_filter
from stayer.core.flows.sweep import plan_sweep
from stayer.core.insight.comparison import Comparison
from stayer.core.insight.failures import LIMIT as FAULTS
from stayer.core.insight.failures import Failures
from stayer.core.model import (
    JSON,
    STATE_WORDS,
    Filter,
    NewTask,
    SentFile,
    StateWord,
    Task,
    Value,
    states_meant,
)
from stayer.core.notify.notices import Notice, NoticeState
from stayer.core.queue_model import QueueInfo
from stayer.core.schedules import parse
from stayer.core.schedules.model import CatchUp, Overlap, Schedule
from stayer.core.submit.names import check_word
from stayer.core.worker_model import EVERYTHING, Handles, Worker
from stayer.service import sent_files
from stayer.service.control import compare as compare_control
from stayer.service.control import flows as flow_control
from stayer.service.control import notices as notice_control
from stayer.service.control import queues as queue_control
from stayer.service.control import schedules
from stayer.service.control import tasks as control
from stayer.service.lease.forced_drop import drop_by_force
from stayer.service.operator import operator_of
from stayer.store import Store
from stayer.stores import open_store

W = TypeVar("W", bound=str)
logger = logging.getLogger("stayer")


class Client:
    """A connection to a store, for submitting tasks, following them and working on them.

    May be used by several threads.
    """

    def __init__(self, url: str | None = None) -> None:
        settings = config.load({} if url is None else {"store": url})
        if settings.passed_over is not None:
            logger.warning("not read: %s", settings.passed_over)
        if url is None:
            config.refuse_own_store_in_test(settings)
        store = open_store(settings.store, token=config.token_for(settings))
        store.setup()
        self._use(store, settings)

    @classmethod
    def _over(cls, store: Store) -> Self:
        """Make a client of a store that is open."""
        made = cls.__new__(cls)
        made._use(store, config.load({"store": store.url}))
        return made

    def _use(self, store: Store, settings: config.Config) -> None:
        self.store = store
        self.defaults = Defaults(settings.owner, settings.retries, settings.submitter or None)
        self._lease = settings.lease
        # A listener that beats is kept alive by the thread that does it.
        self._listeners: WeakValueDictionary[str, Listener] = WeakValueDictionary()

    def __repr__(self) -> str:
        return f"<Client of {self.store.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its listeners, which gives back what they hold, and all connections."""
        for listener in list(self._listeners.values()):
            listener.close()
        self.store.close()

    def get_queue(self, name: str) -> Queue:
        """Get the queue with this name, whether it is there already or not."""
        return Queue(self.store, name, self.defaults)

    def get_task(self, id: str) -> TaskHandle[Value]:
        """Get the task with this id; UnknownTask if there is none."""
        return TaskHandle(self.store, control.get(self.store, id), as_stored)

    def compare(self, tasks: Iterable[str | TaskHandle[Value]], *, all: bool = False) -> Comparison:
        """Compare tasks: parameters, metrics, steps, durations and results side by side, only rows
        in which they differ unless you want `all`. An id may be that of a flow or sweep.
        """
        ids = [task if isinstance(task, str) else task.id for task in tasks]
        found = compare_control.tasks_meant(self.store, ids)
        return compare_control.compare(self.store, found, all=all)

    def submit(self, flow: Plan) -> FlowHandle:
        """Submit a flow (see `stayer.client.flow_builder.Flow`): all of it, or nothing. One with an
        id that is there already is not accepted again.
        """
        build_task = functools.partial(_build, defaults=self.defaults)
        new, tasks = flow.laid_out(build_task, self.defaults.owner)
        return FlowHandle(self.store, flow_control.submit(self.store, new, tasks)[0])

    def sweep(
        self,
        grid: Mapping[str, Iterable[JSON]],
        *,
        queue: str,
        parameters: Mapping[str, JSON] | None = None,
        throttle: int | None = None,
        id: str | None = None,
        title: str | None = None,
        **options: Unpack[Options],
    ) -> FlowHandle:
        """Submit a task for each combination of the values in the grid, at most `throttle` of them
        at once; `handle.compare()` gives what became of each. Each gets its values in its
        parameters, beside those that all have in common; in a command `{name}` stands for a value.
        """
        pattern = build(queue, parameters and dict(parameters), self.defaults, **options)
        values = {name: list(each) for name, each in grid.items()}
        new, tasks = plan_sweep(values, pattern, id=id, name=title, throttle=throttle)
        return FlowHandle(self.store, flow_control.submit(self.store, new, tasks)[0])

    def send_file(self, path: str | os.PathLike[str], name: str | None = None) -> SentFile:
        """Send a file of this machine to the store, unless it is there; return what goes into the
        `files` of a Code. `name` is the path under which its task finds it.
        """
        return sent_files.send(self.store, path, name)

    def get_flow(self, id: str) -> FlowHandle:
        """Get the flow with this id; UnknownFlow if there is none."""
        return FlowHandle(self.store, flow_control.get(self.store, id))

    def flows(self) -> Iterator[FlowHandle]:
        """List all flows, newest first."""
        return (FlowHandle(self.store, flow) for flow in flow_control.find_all(self.store))

    def get_listener(
        self,
        queues: str | Sequence[str],
        *,
        lease: Duration | None = None,
        names: str | Sequence[str] | None = None,
        handles: Handles | None = None,
        node: str | None = None,
        heartbeat: Duration | None = None,
    ) -> Listener:
        """Get who takes tasks from these queues, in this order. It renews its lease every
        `heartbeat`, if that is not given eight times in the lease.

        It takes all tasks, unless their `names` are given (patterns such as `video.*`) or, in full,
        what it `handles`.
        """
        if names is not None and handles is not None:
            raise BadInput("give either names or handles, not both: handles has names too")
        if names is not None:
            handles = Handles(names=_names_of("names", names))
        listener = Listener(
            self.store,
            _names_of("queues", queues),
            lease=self._lease if lease is None else seconds(lease),
            heartbeat=None if heartbeat is None else seconds(heartbeat),
            handles=EVERYTHING if handles is None else handles,
            node=node or socket.gethostname(),
        )
        self._listeners[listener.worker.id] = listener
        return listener

    def get_processor(self, task: TaskHandle[object] | Task) -> Processor:
        """Get who works on a claimed task: also one that another process has claimed."""
        record = task if isinstance(task, Task) else task.record
        return Processor(self.store, task, self._listeners.get(record.worker or ""))

    def queues(self) -> list[QueueInfo]:
        """List all queues, by name."""
        return queue_control.list_queues(self.store)

    def workers(self) -> list[Worker]:
        """List all that take tasks, listeners included."""
        return self.store.workers()

    def set_worker(
        self,
        worker: str,
        *,
        queues: str | Sequence[str] = (),
        add_queues: str | Sequence[str] = (),
        remove_queues: str | Sequence[str] = (),
        slots: int | None = None,
        reset: bool = False,
    ) -> Worker:
        """Let a worker take tasks from other queues, or run more or fewer at once; what it runs
        goes on. With `reset`, it goes by its flags and settings again.
        """
        return operator_of(self.store).set_worker(
            worker,
            queues=_names_of("queues", queues),
            add_queues=_names_of("add_queues", add_queues),
            remove_queues=_names_of("remove_queues", remove_queues),
            slots=slots,
            reset=reset,
        )

    def drop_worker(
        self, worker: str, *, force: bool = False, grace: Duration | None = None
    ) -> int:
        """Give up a stale worker, and return its tasks to the queue; how many there were. With
        `force`, one that is alive is told to stop first, within the grace (30 s). Then this waits
        until the worker has confirmed it, or its lease and a margin have passed.
        """
        if not force:
            return operator_of(self.store).drop_worker(worker)
        limit = None if grace is None else seconds(grace)
        return drop_by_force(self.store, worker, limit).tasks

    def notices(
        self, task: str | None = None, state: NoticeState | None = None, limit: int = 100
    ) -> list[Notice]:
        """List notices, delivered or not, newest first: of this task, in this state."""
        return list(islice(notice_control.find_all(self.store, task, state), limit))

    def retry_notices(self, ids: Sequence[str]) -> int:
        """Deliver these now, as if they were new; how many. What is delivered stays so."""
        return notice_control.retry(self.store, ids)

    def schedules(self) -> list[Schedule]:
        """List all schedules, by name."""
        return self.store.schedules()

    def add_schedule(
        self,
        name: str,
        cron: str,
        parameters: Storable = None,
        *,
        queue: str,
        zone: str = "UTC",
        overlap: Overlap = "skip",
        catch_up: CatchUp = "last",
        jitter: Duration = 0.0,
        paused: bool = False,
        replace: bool = False,
        task: str | None = None,
        command: Sequence[str] | None = None,
        **options: Unpack[Life],
    ) -> Schedule:
        """Let the clock submit a task, which runs the function `task` or this command. The same
        once more is no error; another one of that name takes its place with `replace`.
        """
        new = build(queue, parameters, self.defaults, name=task, command=command, **options)
        wanted = Schedule(
            name=name, cron=cron, zone=zone, overlap=overlap, catch_up=catch_up,
            jitter=seconds(jitter), paused=paused, task=parse.without_id(new),
        )  # fmt: skip
        return schedules.add(self.store, wanted, replacing=replace)

    def pause_schedule(self, name: str) -> None:
        """Let it tick no more until it is resumed."""
        schedules.pause(self.store, name)

    def resume_schedule(self, name: str) -> None:
        """Let it tick again, from now on."""
        schedules.resume(self.store, name)

    def run_schedule(self, name: str) -> TaskHandle[Value]:
        """Submit its task now, once, apart from its ticks."""
        return TaskHandle(self.store, schedules.run(self.store, name), as_stored)

    def drop_schedule(self, name: str) -> None:
        """Forget it; its tasks stay."""
        schedules.drop(self.store, name)

    def failures(self, queues: str | Sequence[str] = (), limit: int = FAULTS) -> Failures:
        """Show what failed in these queues, or in all, by fault, the most frequent first."""
        return self.store.failures(_words(queues), limit)

    def find(
        self,
        *,
        ids: str | Sequence[str] = (),
        prefix: str | None = None,
        queues: str | Sequence[str] = (),
        states: StateWord | Sequence[StateWord] = (),
        name: str | None = None,
        owner: str | None = None,
        key: str | None = None,
        unique: str | None = None,
        tags: str | Sequence[str] = (),
        worker: str | None = None,
        held: bool | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        flow: str | None = None,
        fingerprint: str | None = None,
        search: str | None = None,
        meta: Mapping[str, JSON] | None = None,
        where: Mapping[str, JSON] | None = None,
    ) -> Iterator[TaskHandle[Value]]:
        """Find the tasks for which all of this holds, newest first. `meta` has fields of your own,
        `where` parameters, by the path to each: `{"layers[0].size": 64}`.
        """
        if unknown := [state for state in _words(states) if state not in STATE_WORDS]:
            raise BadInput(f"no state is called {unknown[0]!r}: they are {', '.join(STATE_WORDS)}")
        wanted = Filter(
            ids=_words(ids),
            prefix=prefix,
            queues=_words(queues),
            states=states_meant(_words(states)),
            name=name,
            owner=owner,
            key=key,
            unique=unique,
            tags=_words(tags),
            worker=worker,
            held=held,
            since=None if since is None else epoch(since),
            until=None if until is None else epoch(until),
            flow=flow,
            fingerprint=fingerprint,
            search=search,
            meta=_conditions(meta),
            where=_conditions(where),
        )
        check_filter(wanted)
        found = control.find_all(self.store, wanted)
        return (TaskHandle(self.store, task, as_stored) for task in found)


def _build(
    queue: str, parameters: Storable, *, defaults: Defaults, **options: Unpack[Options]
) -> NewTask:
    return build(queue, parameters, defaults, **options)


def _conditions(given: Mapping[str, JSON] | None) -> tuple[str, ...]:
    return tuple(f"{path}={codec.encode(value)}" for path, value in (given or {}).items())


def _words(given: W | Sequence[W]) -> tuple[W, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _names_of(what: str, given: str | Sequence[str]) -> tuple[str, ...]:
    try:
        found = _words(given)
    except TypeError:
        raise BadInput(f"{what} {given!r}: give a name, or a list of names") from None
    for name in found:
        check_word(what.removesuffix("s"), name)
    return found
