"""Why a task is where it is, in words for people, and when it will start and end.

A reason is a small function of what was looked up once (`Look`): add it to `REASONS`, those that
count most first. Behind a server, the server explains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property

from stayer import control
from stayer.core import forecast, rate
from stayer.core.explanation import Explanation, Forecast, Reason
from stayer.core.forecast import Durations, Line, Runs
from stayer.core.lanes import handled, lane_of
from stayer.core.model import (
    FINISHED,
    QUEUED,
    RUNNING,
    Filter,
    QueueInfo,
    Task,
    Worker,
)
from stayer.core.units import ago, format_duration
from stayer.store import ServedStore, Store

_SAMPLES = 500
"""How many finished tasks of the queue tell how long one takes."""
_LINE = 50
"""How many of those before it are looked at one by one."""
_NAMED = 3
"""How many tasks are named in a sentence."""


class Look:
    """What a reason may need to know, each looked up when it is first asked for."""

    def __init__(self, store: Store, task: Task) -> None:
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
        return self.store.workers()

    @cached_property
    def listening(self) -> list[Worker]:
        """Those that hear of the task's queue, and live."""
        return [
            each
            for each in self.workers
            if self.task.queue in each.queues and each.state != "STALE"
        ]

    @cached_property
    def able(self) -> list[Worker]:
        """Those of them that take tasks, and such ones as this."""
        lane = lane_of(self.task)
        return [
            each
            for each in self.listening
            if not each.draining and (each.handles is None or handled(lane, each.handles))
        ]

    @cached_property
    def holder(self) -> Worker | None:
        """Who has it."""
        return next((each for each in self.workers if each.id == self.task.worker), None)

    @cached_property
    def ahead(self) -> int:
        """How many are taken before it."""
        return self.store.ahead(self.task.id)

    @cached_property
    def running(self) -> Sequence[Task]:
        """What runs in its queue."""
        wanted = Filter(queues=(self.task.queue,), states=RUNNING)
        return self.store.find(wanted, None, _LINE).tasks


def explain(store: Store, id: str) -> Explanation:
    """All reasons that hold, and a forecast."""
    if isinstance(store, ServedStore):
        return store.explain(id)
    look = Look(store, control.get(store, id))
    task = look.task
    return Explanation(
        id=task.id,
        state=task.state,
        reasons=tuple(found for each in REASONS if (found := each(look))),
        ahead=look.ahead if task.state == "pending" else None,
        forecast=_forecast(look),
    )


def why_waiting(store: Store, task: Task) -> str:
    """Why a queued task is not running, in one sentence."""
    reasons = explain(store, task.id).reasons
    return reasons[0].text if reasons else f"it is {task.state}"


def why_silent(store: Store, task: Task) -> str | None:
    """Why nothing is heard of a running task; None if its worker is well."""
    found = (each.text for each in explain(store, task.id).reasons if each.reason in _SILENT)
    return next(found, None)


# Of tasks that wait


def _held(look: Look) -> Reason | None:
    if look.task.held and look.task.state in QUEUED:
        return Reason("held", "it is held, until somebody releases it")
    return None


def _waits_for_others(look: Look) -> Reason | None:
    if look.task.state != "waiting":
        return None
    some, number = look.store.waits(look.task.id, _NAMED)
    more = f" and {number - len(some):,} more" if number > len(some) else ""
    return Reason("waiting", f"for {', '.join(some)}{more} to end" if some else "for others to end")


def _waits_for_its_node(look: Look) -> Reason | None:
    task = look.task
    if task.state != "pending" or task.near_node is None or task.near_until is None:
        return None
    left = format_duration(max(0, int(task.near_until - look.now)))
    return Reason(
        "near",
        f"it waits for node {task.near_node}, where {task.policy.near} has run, for another "
        f"{left}; then any node may take it",
    )


def _is_due(look: Look) -> Reason | None:
    task = look.task
    if task.state != "scheduled" or task.eta is None:
        return None
    due = f"in {format_duration(max(0, int(task.eta - look.now)))}"
    if task.attempt and task.ending not in (None, "done", "snoozed"):
        what = f" ({task.error.type})" if task.error else ""
        return Reason(
            "retry", f"attempt {task.attempt} ended: {task.ending}{what}; the next is due {due}"
        )
    return Reason("eta", f"it is due {due}")


def _queue_paused(look: Look) -> Reason | None:
    queue = look.queue
    if look.task.state not in QUEUED or not queue.paused:
        return None
    return Reason("queue-paused", f"queue {queue.name} is paused: `stayer resume -q {queue.name}`")


def _queue_full(look: Look) -> Reason | None:
    queue = look.queue
    if look.task.state != "pending" or queue.limit is None:
        return None
    if sum(queue.counts.get(state, 0) for state in RUNNING) < queue.limit:
        return None
    by = _named([task.id for task in look.running])
    return Reason("queue-full", f"queue {queue.name} is limited to {queue.limit} at once{by}")


def _key_full(look: Look) -> Reason | None:
    task, queue = look.task, look.queue
    if task.state != "pending" or task.key is None:
        return None
    limit = queue.key_limits.get(task.key, queue.key_limit)
    if limit is None:
        return None
    wanted = Filter(queues=(task.queue,), states=RUNNING, key=task.key)
    running = look.store.find(wanted, None, max(limit, _NAMED + 1)).tasks
    if len(running) < limit:
        return None
    by = _named([each.id for each in running])
    return Reason(
        "key-full", f"key {task.key} is limited to {limit} at once in queue {queue.name}{by}"
    )


def _rate_spent(look: Look) -> Reason | None:
    queue = look.queue
    if look.task.state != "pending" or queue.rate is None or queue.next_start is None:
        return None
    left = format_duration(max(0, math.ceil(queue.next_start - look.now)))
    return Reason(
        "rate",
        f"queue {queue.name} is limited to {rate.written(queue.rate)}: the next task may begin in "
        f"{left}",
    )


def _others_turn(look: Look) -> Reason | None:
    task, fair = look.task, look.queue.fair
    if task.state != "pending" or fair is None:
        return None
    wanted = Filter(queues=(task.queue,), states=("pending",), held=False)
    waiting = look.store.find(wanted, None, _SAMPLES).tasks
    mine = getattr(task, fair)
    others = sum(getattr(each, fair) != mine and each.priority == task.priority for each in waiting)
    if not others:
        return None
    number = f"{others:,}" if len(waiting) < _SAMPLES else f"over {others:,}"
    return Reason(
        "turns",
        f"{fair}s take turns: {number} waiting tasks of others go first, as long as theirs have "
        "run less",
    )


def _nobody_listens(look: Look) -> Reason | None:
    if look.task.state not in QUEUED or look.listening:
        return None
    name = look.task.queue
    return Reason("no-worker", f"no worker listens to queue {name}: `stayer worker -q {name}`")


def _nobody_takes(look: Look) -> Reason | None:
    if look.task.state not in QUEUED or look.able or not look.listening:
        return None
    name = look.task.queue
    if all(worker.draining for worker in look.listening):
        return Reason("draining", f"the workers of queue {name} are draining: they take no more")
    kind = f"{look.task.kind!r}" if look.task.kind else "tasks with neither name nor command"
    how = (
        "--allow-command" if look.task.command else "--app" if look.task.name else "--exec or --run"
    )
    nodes = _named(sorted({worker.node for worker in look.listening}))
    return Reason(
        "no-handler",
        f"no worker of queue {name} can run {kind}{nodes}: start one with {how} for it"
        + _meant(look.task.name, look.listening),
    )


def _meant(name: str | None, workers: Sequence[Worker]) -> str:
    """A name that they do take and that is like this one."""
    known = {each for worker in workers if worker.handles for each in worker.handles.names}
    own = None if name is None else name.rpartition(".")[2]
    alike = sorted(each for each in known if each.rpartition(".")[2] == own)
    return f", or was {alike[0]!r} meant?" if alike else ""


def _workers_busy(look: Look) -> Reason | None:
    if look.task.state != "pending" or not look.able:
        return None
    if any(worker.running < worker.slots for worker in look.able):
        return None
    slots = sum(worker.slots for worker in look.able)
    what = "the one slot" if slots == 1 else f"all {slots} slots"
    return Reason("busy", f"{what} of its workers are busy" if slots > 1 else f"{what} is busy")


def _others_first(look: Look) -> Reason | None:
    if look.task.state != "pending" or not look.ahead:
        return None
    number = (
        "one task of its queue is" if look.ahead == 1 else f"{look.ahead:,} tasks of its queue are"
    )
    return Reason("ahead", f"{number} taken first: they have a higher priority, or are older")


def _about_to_start(look: Look) -> Reason | None:
    if look.task.state != "pending" or look.task.held or look.queue.paused or look.ahead:
        return None
    if (
        _queue_full(look)
        or _key_full(look)
        or _rate_spent(look)
        or not any(worker.running < worker.slots for worker in look.able)
    ):
        return None
    return Reason("next", "it is the next to be taken")


# Of tasks that run


def _worker_silent(look: Look) -> Reason | None:
    worker = look.holder
    if look.task.state not in RUNNING or worker is None or worker.state != "STALE":
        return None
    since = format_duration(max(0, int(look.now - worker.beat_at)))
    silent = f"its worker on {worker.node} has been silent for {since}"
    if worker.keeps:
        return Reason(
            "worker-keeps",
            f"{silent}, and keeps its tasks: once you know that machine to be gone, "
            f"`stayer workers drop {worker.id}`",
        )
    return Reason(
        "worker-silent",
        f"{silent}: the task stands still there, and goes to another worker if it stays so",
    )


def _asked_to_stop(look: Look) -> Reason | None:
    if look.task.state in RUNNING and look.task.cancel_wanted:
        return Reason("cancel-wanted", "it is asked to stop, and killed if it does not")
    return None


def _paused(look: Look) -> Reason | None:
    if look.task.state in RUNNING and look.task.paused:
        return Reason("paused", f"it is paused: `stayer resume {look.task.id}` lets it run on")
    return None


def _runs(look: Look) -> Reason | None:
    task = look.task
    if task.state == "reserved":
        return Reason("reserved", f"a worker on {task.node} has it, and is about to start it")
    if task.state != "started":
        return None
    ran = format_duration(max(0, look.now - (task.started_at or look.now)))
    attempt = f", attempt {task.attempt}" if task.attempt > 1 else ""
    said = f"it has run on {task.node} for {ran}{attempt}"
    if task.progress and task.progress.message:
        said += f": {task.progress.message}"
    return Reason("running", said)


def _says_nothing(look: Look) -> Reason | None:
    task = look.task
    heard = task.progress.at if task.progress else None
    if task.state != "started" or task.paused or heard is None or look.now - heard < 600:
        return None
    return Reason("no-progress", f"it last told of its progress {ago(look.now - heard)}")


# Of tasks that have ended


def _has_ended(look: Look) -> Reason | None:
    task = look.task
    if task.state not in FINISHED:
        return None
    when = ago(max(0.0, look.now - (task.finished_at or look.now)))
    if task.state == "complete":
        return Reason("complete", f"it was complete {when}")
    again = f"`stayer retry {task.id}` runs it again"
    if task.state == "cancelled":
        return Reason("cancelled", f"it was cancelled {when}: {again}")
    fault = f", {task.error.type}: {task.error.message}".rstrip(": ") if task.error else ""
    return Reason("failed", f"it failed {when} ({task.ending}{fault}): {again}")


_SILENT = ("worker-silent", "worker-keeps")

REASONS: tuple[Callable[[Look], Reason | None], ...] = (
    _held,
    _waits_for_others,
    _is_due,
    _waits_for_its_node,
    _queue_paused,
    _queue_full,
    _key_full,
    _rate_spent,
    _nobody_listens,
    _nobody_takes,
    _workers_busy,
    _others_turn,
    _others_first,
    _about_to_start,
    _worker_silent,
    _asked_to_stop,
    _paused,
    _runs,
    _says_nothing,
    _has_ended,
)


def _named(words: Sequence[str]) -> str:
    """` (a, b, c and 4 more)`."""
    if not words:
        return ""
    more = f" and {len(words) - _NAMED:,} more" if len(words) > _NAMED else ""
    return f" ({', '.join(words[:_NAMED])}{more})"


# When


def _forecast(look: Look) -> Forecast | None:
    """None where nothing can be said: it has ended, or somebody must do something first."""
    task = look.task
    if task.state == "started" and not task.paused and not _worker_silent(look):
        found = forecast.of_running(_as_runs(task, look.now), _history(look))
    elif task.state in ("pending", "scheduled") and not (task.held or look.queue.paused):
        found = forecast.of_waiting(task.kind, _line(look), _history(look))
    else:
        return None
    if found.starts is None and found.ends is None:
        return None
    return Forecast(
        starts=None if found.starts is None else found.starts.after(look.now),
        ends=None if found.ends is None else found.ends.after(look.now),
        samples=found.samples,
    )


def _history(look: Look) -> Durations:
    """How long the newest complete tasks of the queue took, by kind."""
    history: dict[str, list[float]] = {}
    for kind, seconds in look.store.durations(look.task.queue, _SAMPLES):
        history.setdefault(kind, []).append(seconds)
    return history


def _line(look: Look) -> Line:
    task, queue = look.task, look.queue
    slots = sum(worker.slots for worker in look.able)
    number = look.ahead if task.state == "pending" else queue.counts.get("pending", 0)
    ahead = look.store.peek(task.queue, min(number, _LINE)) if number else []
    busy = look.running
    if queue.limit is not None and queue.limit < slots:
        slots = queue.limit
    else:
        able = {worker.id for worker in look.able}
        everything = look.store.find(Filter(states=RUNNING), None, _LINE).tasks
        busy = [each for each in everything if each.worker in able]
    return Line(
        slots=slots,
        running=[_as_runs(each, look.now) for each in busy],
        ahead=[each.kind for each in ahead],
        more=max(0, number - len(ahead)),
        not_before=max(0.0, (task.eta or 0.0) - look.now) if task.state == "scheduled" else 0.0,
    )


def _as_runs(task: Task, now: float) -> Runs:
    ran = max(0.0, now - task.started_at) if task.started_at is not None else 0.0
    progress = task.progress
    if progress is None or progress.remaining is None:
        return Runs(task.kind, ran)
    since = max(0.0, now - (progress.at or now))
    return Runs(task.kind, ran, max(0.0, progress.remaining - since))
