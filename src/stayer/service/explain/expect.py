"""When a task will start and end, as far as can be told."""

from __future__ import annotations

from stayer.core.insight import forecast
from stayer.core.insight.explanation import Forecast
from stayer.core.insight.forecast import Durations, Line, Runs
from stayer.core.liveness.silent import silent_for, stuck_for
from stayer.core.model import Task
from stayer.core.worker_model import Worker
from stayer.service.explain.look import LINE, SAMPLES, Look


def expect(look: Look) -> Forecast | None:
    """Forecast start and end; None where nothing can be said: it has ended, or somebody must do
    something first.
    """
    task = look.task
    if task.state == "started":
        if task.paused or (look.holder and _is_silent(look.holder, look.now)):
            return None
        found = forecast.forecast_running(_as_runs(task, look.now), _history(look))
    elif task.state in ("pending", "scheduled") and not (task.held or look.queue.paused):
        history = _history(look)
        found = forecast.forecast_waiting(task.kind, _line(look), history)
        if by_key := _line_of_key(look):
            found = forecast.later(found, forecast.forecast_waiting(task.kind, by_key, history))
    else:
        return None
    if found.starts is None and found.ends is None:
        return None
    return Forecast(
        starts=None if found.starts is None else found.starts.after(look.now),
        ends=None if found.ends is None else found.ends.after(look.now),
        samples=found.samples,
    )


def _is_silent(worker: Worker, now: float) -> bool:
    return silent_for(worker, now) is not None or stuck_for(worker, now) is not None


def _history(look: Look) -> Durations:
    """Tell how long the newest complete tasks of the queue took, by kind."""
    history: dict[str, list[float]] = {}
    for kind, seconds in look.store.durations(look.task.queue, SAMPLES):
        history.setdefault(kind, []).append(seconds)
    return history


def _line(look: Look) -> Line:
    task, queue = look.task, look.queue
    slots = sum(worker.slots for worker in look.responsive_workers)
    if task.state == "pending":
        number, ahead = look.ahead, look.before
    else:
        number = queue.counts.get("pending", 0)
        ahead = look.store.peek(task.queue, min(number, LINE)) if number else ()
    busy = look.running_in_queue
    if queue.limit is not None and queue.limit < slots:
        slots = queue.limit
    else:
        responsive = {worker.id for worker in look.responsive_workers}
        busy = [each for each in look.running_anywhere if each.worker in responsive]
    return Line(
        slots=slots,
        running=[_as_runs(each, look.now) for each in busy],
        ahead=[each.kind for each in ahead],
        more=max(0, number - len(ahead)),
        not_before=max(_until_due(look), _until_rate(look, number), look.until_any_node),
    )


def _line_of_key(look: Look) -> Line | None:
    """List what stands between the task and its start because of its key alone."""
    if look.task.state != "pending" or look.key_limit is None:
        return None
    key = look.task.key
    return Line(
        slots=look.key_limit,
        running=[_as_runs(each, look.now) for each in look.running_of_key],
        ahead=[each.kind for each in look.before if each.key == key],
    )


def _until_due(look: Look) -> float:
    task = look.task
    return max(0.0, (task.eta or 0.0) - look.now) if task.state == "scheduled" else 0.0


def _until_rate(look: Look, before: int) -> float:
    """Return how long it is until the rate of its queue lets it begin, behind so many others."""
    rate, following = look.queue.rate, look.queue.next_start
    if rate is None or following is None:
        return 0.0
    return max(0.0, following - look.now + before * rate.per / rate.count)


def _as_runs(task: Task, now: float) -> Runs:
    ran = max(0.0, now - task.started_at) if task.started_at is not None else 0.0
    progress = task.progress
    if progress is None or progress.remaining is None:
        return Runs(task.kind, ran)
    since = max(0.0, now - (progress.at or now))
    return Runs(task.kind, ran, max(0.0, progress.remaining - since))
