"""Each thing that keeps a task where it is, or says what it does.

A reason is a small function of what was looked up once (`Look`): add it to `REASONS`, those that
count most first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from stayer.core.fault_text import fault_line
from stayer.core.insight.explanation import Reason
from stayer.core.liveness.silent import silent_for, stuck_for
from stayer.core.model import FINISHED, QUEUED, RUNNING, Filter
from stayer.core.ordering import rate_limit
from stayer.core.ordering.lanes import find_refused_variables, handles_lane, lane_of
from stayer.core.refused_tasks import REFUSED
from stayer.core.units import ago, format_duration
from stayer.core.worker_model import Worker
from stayer.service.explain.look import SAMPLES, Look

_NAMED = 3
"""How many tasks are named in a sentence."""


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
    by = _list_names([task.id for task in look.running_in_queue])
    return Reason("queue-full", f"queue {queue.name} is limited to {queue.limit} at once{by}")


def _key_full(look: Look) -> Reason | None:
    task, limit = look.task, look.key_limit
    if task.state != "pending" or limit is None or len(look.running_of_key) < limit:
        return None
    by = _list_names([each.id for each in look.running_of_key])
    return Reason(
        "key-full", f"key {task.key} is limited to {limit} at once in queue {task.queue}{by}"
    )


def _rate_spent(look: Look) -> Reason | None:
    queue = look.queue
    if look.task.state != "pending" or queue.rate is None or queue.next_start is None:
        return None
    left = format_duration(max(0, math.ceil(queue.next_start - look.now)))
    return Reason(
        "rate",
        f"queue {queue.name} is limited to {rate_limit.format_rate(queue.rate)}: the next task may "
        f"begin in {left}",
    )


def _others_turn(look: Look) -> Reason | None:
    task, fair = look.task, look.queue.fair
    if task.state != "pending" or fair is None:
        return None
    wanted = Filter(queues=(task.queue,), states=("pending",), held=False)
    waiting = look.store.find(wanted, None, SAMPLES).tasks
    mine = getattr(task, fair)
    others = sum(getattr(each, fair) != mine and each.priority == task.priority for each in waiting)
    if not others:
        return None
    number = f"{others:,}" if len(waiting) < SAMPLES else f"over {others:,}"
    go = "1 waiting task of others goes" if others == 1 else f"{number} waiting tasks of others go"
    return Reason("turns", f"{fair}s take turns: {go} first, as long as theirs have run less")


def _nobody_listens(look: Look) -> Reason | None:
    if look.task.state not in QUEUED or look.live_workers:
        return None
    name = look.task.queue
    gone = [each for each in look.workers if name in each.queues]
    last = f" ({_silence(max(gone, key=lambda each: each.beat_at), look)})" if gone else ""
    runs = "--allow-commands" if look.task.command else "--app MODULE" if look.task.name else ""
    start = " ".join(filter(None, ("stayer worker -q", name, runs)))
    return Reason("no-worker", f"no worker listens to queue {name}{last}: start one, `{start}`")


def _nobody_takes(look: Look) -> Reason | None:
    if look.task.state not in QUEUED or look.able_workers or not look.live_workers:
        return None
    name = look.task.queue
    if all(worker.draining for worker in look.live_workers):
        return Reason("draining", f"the workers of queue {name} are draining: they take no more")
    nodes = _list_names(sorted({worker.node for worker in look.live_workers}))
    if variables := _list_refused_variables(look):
        return Reason(
            "no-handler",
            f"no worker of queue {name} that could run it{nodes} lets tasks set "
            f"{', '.join(variables[:_NAMED])}: start one with --allow-env for it",
        )
    kind = f"{look.task.kind!r}" if look.task.kind else "tasks with neither name nor command"
    how = (
        "--allow-command" if look.task.command else "--app" if look.task.name else "--exec or --run"
    )
    return Reason(
        "no-handler",
        f"no worker of queue {name} can run {kind}{nodes}: start one with {how} for it"
        + _suggest_name(look.task.name, look.live_workers),
    )


def _refused(look: Look) -> Reason | None:
    """Say that the worker that was given it last may not run it."""
    task = look.task
    if task.state != "scheduled" or task.ending != "snoozed":
        return None
    notes = [each.note or "" for each in look.store.events(task.id) if each.event == "scheduled"]
    _, refused, why = notes[-1].partition(REFUSED) if notes else ("", "", "")
    return Reason("refused", f"it was {refused}{why}") if refused else None


def _list_refused_variables(look: Look) -> list[str]:
    """List the variables of the task for which workers leave it, who else could run it."""
    lane = lane_of(look.task)
    for each in look.live_workers:
        if each.handles is not None and not each.draining and handles_lane(lane, each.handles):
            return find_refused_variables(look.task, each.handles.variables)
    return []


def _suggest_name(name: str | None, workers: Sequence[Worker]) -> str:
    """Find a name that they do take and that is like this one."""
    known = {each for worker in workers if worker.handles for each in worker.handles.names}
    own = None if name is None else name.rpartition(".")[2]
    alike = sorted(each for each in known if each.rpartition(".")[2] == own)
    return f", or was {alike[0]!r} meant?" if alike else ""


def _workers_silent(look: Look) -> Reason | None:
    if look.task.state not in QUEUED or not look.able_workers or look.responsive_workers:
        return None
    last = max(look.able_workers, key=lambda each: each.beat_at)
    stuck = [each for each in look.able_workers if stuck_for(each, look.now) is not None]
    if stuck:
        others = ", and no other could take it" if len(look.able_workers) == 1 else ""
        return Reason("threads-stuck", f"{_stuck(stuck[0], look)}{others}")
    return Reason(
        "workers-silent",
        f"{_silence(last, look)}, and so has every other that could take it: `stayer workers`"
        if len(look.able_workers) > 1
        else f"{_silence(last, look)}, and no other could take it: `stayer workers`",
    )


def _stuck(worker: Worker, look: Look) -> str:
    since = format_duration(max(0, int(stuck_for(worker, look.now) or 0)))
    return (
        f"the threads of the worker on {worker.node} have not answered for {since}: a task there "
        "keeps all of them from running"
    )


def _threads_stuck(look: Look) -> Reason | None:
    worker = look.holder
    if look.task.state not in RUNNING or worker is None or stuck_for(worker, look.now) is None:
        return None
    return Reason(
        "threads-stuck",
        f"{_stuck(worker, look)}, perhaps this one. One that is cancelled, or past its time limit, "
        "is killed after its grace, with the other threads",
    )


def _silence(worker: Worker, look: Look) -> str:
    since = format_duration(max(0, int(look.now - worker.beat_at)))
    return f"the worker on {worker.node} has been silent for {since}"


def _workers_busy(look: Look) -> Reason | None:
    if look.task.state != "pending" or not look.responsive_workers:
        return None
    if any(worker.running < worker.slots for worker in look.responsive_workers):
        return None
    slots = sum(worker.slots for worker in look.responsive_workers)
    return Reason(
        "busy",
        "the one slot of its worker is busy"
        if slots == 1
        else f"all {slots} slots of its workers are busy",
    )


def _others_first(look: Look) -> Reason | None:
    if look.task.state != "pending" or not look.ahead:
        return None
    if look.ahead == 1:
        text = "one task of its queue is taken first: it has a higher priority, or is older"
    else:
        text = (
            f"{look.ahead:,} tasks of its queue are taken first: they have a higher priority, or "
            "are older"
        )
    return Reason("ahead", text)


def _about_to_start(look: Look) -> Reason | None:
    if look.task.state != "pending" or look.task.held or look.queue.paused or look.ahead:
        return None
    if (
        _queue_full(look)
        or _key_full(look)
        or _rate_spent(look)
        or _too_old(look)
        or look.until_any_node
        or not any(worker.running < worker.slots for worker in look.responsive_workers)
    ):
        return None
    return Reason("next", "it is the next to be taken")


def _too_old(look: Look) -> Reason | None:
    """Workers see to that; with none alive it stays as it is, but is never started."""
    task = look.task
    if task.state not in QUEUED or task.start_before is None or task.start_before > look.now:
        return None
    since = ago(look.now - task.start_before)
    if task.start_before == task.finish_before:
        return Reason("expired", f"its deadline came {since}: the next worker to come ends it")
    return Reason("expired", f"it expired {since} without a start: the next worker to come ends it")


def _expires(look: Look) -> Reason | None:
    task = look.task
    if task.state not in QUEUED or task.start_before is None or task.start_before <= look.now:
        return None
    left = format_duration(math.ceil(task.start_before - look.now))
    if task.start_before == task.finish_before:
        return Reason("expires", f"its deadline comes in {left}: then it ends")
    return Reason("expires", f"if it has not been started in {left}, it never is")


# Of tasks that run


def _worker_silent(look: Look) -> Reason | None:
    worker = look.holder
    if look.task.state not in RUNNING or worker is None:
        return None
    silence = silent_for(worker, look.now)
    if silence is None:
        return None
    silent = f"its worker on {worker.node} has been silent for {format_duration(int(silence))}"
    if worker.keeps:
        return Reason(
            "worker-keeps",
            f"{silent}, and keeps its tasks: once you know that machine to be gone, "
            f"`stayer workers rm {worker.id}`",
        )
    left = worker.lease - silence
    still = f"in {format_duration(math.ceil(left))} " if left > 0 else ""
    return Reason(
        "worker-silent",
        f"{silent}: {still}the task stands still there, and goes to another worker if it stays so",
    )


def _asked_to_stop(look: Look) -> Reason | None:
    if look.task.state in RUNNING and look.task.cancel_wanted:
        if look.holder and look.holder.handles and look.holder.handles.threads:
            return Reason(
                "cancel-wanted", "it is asked to stop: in a thread, it has to look for that"
            )
        return Reason("cancel-wanted", "it is asked to stop, and killed if it does not")
    return None


def _paused(look: Look) -> Reason | None:
    if look.task.state in RUNNING and look.task.paused:
        return Reason("paused", f"it is paused: `stayer resume {look.task.id}` lets it run on")
    return None


def _runs(look: Look) -> Reason | None:
    task = look.task
    if task.state == "reserved":
        if look.holder is not None and stuck_for(look.holder, look.now) is not None:
            return None  # it may run, or not: the worker can't tell
        return Reason("reserved", f"a worker on {task.node} has it, and is about to start it")
    if task.state != "started":
        return None
    ran = format_duration(max(0, look.now - (task.started_at or look.now)))
    attempt = f", attempt {task.attempt}" if task.attempt > 1 else ""
    text = f"it has run on {task.node} for {ran}{attempt}"
    if task.progress and task.progress.message:
        text += f": {task.progress.message}"
    return Reason("running", text)


def _says_nothing(look: Look) -> Reason | None:
    task = look.task
    reported_at = task.progress.at if task.progress else None
    if (
        task.state != "started"
        or task.paused
        or reported_at is None
        or look.now - reported_at < 600
    ):
        return None
    return Reason("no-progress", f"it last told of its progress {ago(look.now - reported_at)}")


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
    fault = f", {fault_line(task.error)}" if task.error else ""
    return Reason("failed", f"it failed {when} ({task.ending}{fault}): {again}")


SILENT = ("worker-silent", "worker-keeps", "threads-stuck")
NEEDS_SOMEBODY = ("held", "queue-paused", "no-worker", "no-handler", "draining", "refused")
"""As long as one of these holds, no task starts by itself."""

REASONS: tuple[Callable[[Look], Reason | None], ...] = (
    _too_old,
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
    _refused,
    _workers_silent,
    _workers_busy,
    _others_turn,
    _others_first,
    _about_to_start,
    _expires,
    _worker_silent,
    _threads_stuck,
    _asked_to_stop,
    _paused,
    _runs,
    _says_nothing,
    _has_ended,
)


def _list_names(words: Sequence[str]) -> str:
    """List some names in brackets: ` (a, b, c and 4 more)`."""
    if not words:
        return ""
    more = f" and {len(words) - _NAMED:,} more" if len(words) > _NAMED else ""
    return f" ({', '.join(words[:_NAMED])}{more})"
