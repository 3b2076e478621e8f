"""The operator's verbs on tasks and queues over a store, one function each (see `operator`).

Each takes the road of every change: get, decide, commit; and goes round again when somebody was
faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from signal import Signals

from msgspec import UNSET
from msgspec.structs import replace

from stayer.core import codec, ids, units
from stayer.core import meta as own_fields
from stayer.core.errors import (
    BadInput,
    DeletedId,
    NotHeld,
    Refused,
    UnknownTask,
)
from stayer.core.happenings import (
    Ask,
    Cancel,
    DeclareComplete,
    DeclareFailed,
    Happening,
    Hold,
    Release,
    Retry,
    Set,
    SetMeta,
)
from stayer.core.lifecycle import decide
from stayer.core.limits import check_length
from stayer.core.model import (
    FINISHED,
    JSON,
    QUEUED,
    RUNNING,
    Fault,
    Filter,
    NewTask,
    State,
    Submitted,
    Task,
    Value,
    Verb,
)
from stayer.core.notify import notices
from stayer.core.submit import checks
from stayer.core.submit.compare import find_differences
from stayer.core.submit.policy import check as check_policy
from stayer.service import sent_files
from stayer.store import REMEMBERED, AdminStore, ReadStore, Store, WorkerStore, known_workers

BATCH = 500
"""How many tasks a verb on many touches at a time, so that others get their turn in between."""


PREFIX_LETTERS = 4
"""How many letters of an id name a task that is to be changed: fewer may be a slip in another's."""

ERROR_TEXT = 10_000
"""How many characters somebody may say of what went wrong."""

LIMITS = {"time": "time_limit", "silence": "silence_limit", "memory": "memory_limit"}
"""What can be limited in a task (seconds, seconds, bytes), and what its policy calls it."""


def get(store: ReadStore, id: str) -> Task:
    """Get the task with this id."""
    task = store.get([id])[0]
    if task is None:
        raise UnknownTask(f"no task {id!r} in {store.url}: `stayer ls` lists those there are")
    return task


def resolve(store: ReadStore, prefix: str, *, to_change: bool = False) -> str:
    """Find the full id of the one task whose id is this, or was generated and begins with it.

    An id that somebody chose is never meant by less: `job-1` is not short for `job-12`. Who wants
    `to_change` the task gives at least `PREFIX_LETTERS` letters of its id. Of a task of a flow, the
    beginning of the flow's id will do: `5mzz.sweep.1`.
    """
    if store.get([prefix])[0] is not None:
        return prefix
    found = _generated(store, prefix) if prefix else []
    if not found:
        raise UnknownTask(f"no task {prefix!r} in {store.url}: `stayer ls` lists those there are")
    return choose_id(prefix, found, UnknownTask, to_change=to_change)


def _generated(store: ReadStore, prefix: str) -> list[str]:
    """List ids that were generated and begin so, or are of flows with such ids."""
    head, dot, rest = prefix.partition(".")
    if not dot:
        matches = store.find(Filter(prefix=prefix), None, BATCH).tasks
        return [task.id for task in matches if ids.is_generated(task.id)]
    matches = store.find(Filter(prefix=head), None, BATCH).tasks
    flows = {task.flow for task in matches if task.flow and ids.is_generated(task.flow)}
    wanted = [f"{flow}.{rest}" for flow in sorted(flows) if flow.startswith(head)]
    return [task.id for task in store.get(wanted) if task is not None] if wanted else []


def choose_id(prefix: str, ids: Sequence[str], error: type[BadInput], *, to_change: bool) -> str:
    """Choose the one id that was found for this beginning of it; raises `error` if that is too
    short.
    """
    if len(ids) > 1:
        raise error(
            f"{prefix!r} is the beginning of several ids ({ids[0]}, {ids[1]} …): give more of it"
        )
    if to_change and len(prefix) < PREFIX_LETTERS:
        raise error(
            f"{prefix!r} is too short for a command that changes something: give at least "
            f"{PREFIX_LETTERS} letters, if {ids[0]} is meant"
        )
    return ids[0]


def difference(new: NewTask, answer: Submitted) -> str | None:
    """Say in what the task that is there is another than the one asked for, in words, or None."""
    there = answer.task
    if answer.fresh or unique_holder(new, answer):
        return None
    if answer.purged:
        again = units.rfc3339(there.updated + REMEMBERED)
        return (
            f"has been deleted ({there.state}): its id is not accepted again before {again}, so "
            "choose another one"
        )
    fields = find_differences(new, there)
    if "queue" in fields:
        return f"is there already in queue {there.queue}, not {new.queue}: it was left as it is"
    if "name" in fields or "command" in fields:
        return "is there already, and runs something else: it was left as it is"
    return "is there already with other parameters: it was left as it is" if fields else None


def check_startable(store: Store, tasks: Sequence[NewTask]) -> None:
    """BadInput if one of these could never start: its time is over, or a file of it is not in the
    store. Those that are there stay until it is submitted.
    """
    sent_files.keep(store, tasks)
    _refuse_overdue(store, tasks)


def _refuse_overdue(store: ReadStore, tasks: Sequence[NewTask]) -> None:
    """BadInput if one of these could never start, since that is to be before now. Who submits the
    same once more, to be sure that it is there, is not refused. A server looks itself.
    """
    limited = [task for task in tasks if task.start_before is not None]
    if not limited or store.remote_operator is not None:
        return
    now = store.now()
    overdue = [
        task for task in limited if task.start_before is not None and task.start_before <= now
    ]
    for task, there in zip(overdue, store.get([task.id for task in overdue]), strict=True):
        if there is None:
            over = units.rfc3339(task.start_before or 0.0)
            raise BadInput(
                f"start_before {over} is over (it is {units.rfc3339(now)} by the store's clock): "
                "it would never start. Give a later moment, or leave it out"
            )


def refuse_deleted(new: NewTask, answer: Submitted) -> None:
    """DeletedId if the task was here and has been deleted: who counts on it would wait for ever."""
    if answer.purged:
        raise DeletedId(f"task {new.id} {difference(new, answer)}")


def unique_holder(new: NewTask, answer: Submitted) -> Task | None:
    """Find the task that keeps the one asked for out because it holds its unique word, or None."""
    return answer.task if not answer.fresh and answer.task.id != new.id else None


def find_all(store: ReadStore, filter: Filter, batch: int = BATCH) -> Iterator[Task]:
    """Find every task that matches, so many at a time."""
    cursor: str | None = None
    while True:
        page = store.find(filter, cursor, batch)
        yield from page.tasks
        if page.next is None:
            return
        cursor = page.next


def cancel(store: WorkerStore, id: str, grace: float | None = None) -> Task:
    """Cancel a task: at once if it waits, else by asking its worker. Twice is once."""

    def unless_wanted(task: Task) -> Happening | None:
        if task.state == "cancelled" or (task.state in RUNNING and task.cancel_wanted):
            return None
        return Cancel(grace)

    return apply(store, id, unless_wanted)


def complete(store: WorkerStore, id: str, result: Value = None) -> Task:
    """Declare a task complete by hand, with a result: one that waits, or that has ended otherwise.
    A running one is refused: cancel it first.
    """
    codec.pack(result, "the result", codec.RESULT_LIMIT)  # says what is wrong with it
    return apply(store, id, lambda task: DeclareComplete(result))


def fail(store: WorkerStore, id: str, error: str = "") -> Task:
    """Declare a task failed by hand: one that waits, or that has ended otherwise. It is not retried
    by itself. A running one is refused: cancel it first.
    """
    check_length("error", error, ERROR_TEXT)
    fault = Fault("DeclaredFailed", error or "somebody declared it failed")
    return apply(store, id, lambda task: DeclareFailed(fault))


def hold(store: WorkerStore, id: str) -> Task:
    """Keep a task from being taken until it is released."""
    return apply(store, id, lambda task: None if task.held else Hold())


def release(store: WorkerStore, id: str) -> Task:
    """Let a held task be taken again. One that was not held stays as it is; one that has ended is
    refused.
    """
    return apply(store, id, lambda task: Release() if task.held or task.state in FINISHED else None)


def pause(store: WorkerStore, id: str) -> Task:
    """Stop a running task where it is, until it is resumed. Twice is once."""
    return apply(store, id, lambda task: _order_unless_open(store, task, "pause"))


def resume(store: WorkerStore, id: str) -> Task:
    """Let a paused task run on. Twice is once."""
    return apply(store, id, lambda task: _order_unless_open(store, task, "resume"))


def signal(store: WorkerStore, id: str, name: str) -> Task:
    """Send a signal (`USR1`, `SIGUSR1` or its number) to a running task's process."""
    order = Ask("signal", {"signal": _signal_name(name)})
    return apply(store, id, lambda task: _unless_in_thread(store, task, order))


def stack(store: WorkerStore, id: str) -> Task:
    """Let a running Python task write to its log where it is."""

    def if_python(task: Task) -> Happening:
        if task.command is not None:
            raise Refused(
                f"task {task.id} runs a command: only tasks in Python (--run, --app) show a stack"
            )
        return Ask("stack")

    return apply(store, id, if_python)


def set(
    store: WorkerStore,
    id: str,
    *,
    priority: int | None = None,
    limits: Mapping[str, float] | None = None,
    more_time: float | None = None,
    notify: Sequence[str] | None = None,
    meta: Mapping[str, JSON] | None = None,
) -> Task:
    """Change the priority, limits (named as in `LIMITS`; 0 is none), or who hears of it, of a
    task that has not ended; a running one hears of limits. `more_time` is added to its time limit.
    `meta` are fields of the user's own, of a task in whatever state: those that are not named stay
    as they are, and None takes one away.
    """
    wanted = dict(limits or {})
    unknown = [name for name in wanted if name not in LIMITS]
    if unknown:
        raise BadInput(f"no limit is called {unknown[0]!r}: there are {', '.join(LIMITS)}")
    own = None if meta is None else SetMeta(own_fields.check_names("meta", meta))
    if not wanted and priority is None and more_time is None and notify is None:
        if own is None:
            raise BadInput(
                "say what to set: the priority, who is told, meta, or a limit of "
                f"{', '.join(LIMITS)}"
            )
        return _set_meta(store, id, own)
    hooks = None if notify is None else notices.parse_all(notify)
    if priority is not None:
        checks.check_priority(priority)
    asks = partial(_setting, priority=priority, limits=wanted, more_time=more_time, notify=hooks)
    task = apply(store, id, lambda task: _unless_in_thread(store, task, asks(task)))
    return task if own is None else _set_meta(store, id, own)


def _set_meta(store: WorkerStore, id: str, wanted: SetMeta) -> Task:
    return apply(
        store,
        id,
        lambda task: None if own_fields.merge(task.meta, wanted.fields) == task.meta else wanted,
    )


def _setting(
    task: Task,
    priority: int | None,
    limits: Mapping[str, float],
    more_time: float | None,
    notify: tuple[str, ...] | None,
) -> Set:
    policy = replace(task.policy, **{LIMITS[name]: value for name, value in limits.items()})
    for_worker: dict[str, JSON] = dict(limits)
    if more_time is not None:
        for_worker["more_time"] = more_time
        if policy.time_limit:
            policy = replace(policy, time_limit=policy.time_limit + more_time)
        elif task.state in QUEUED:
            raise Refused(f"task {task.id} has no time limit of its own that could grow: set one")
    check_policy(policy)
    return Set(
        UNSET if priority is None else priority,
        UNSET if policy == task.policy else policy,
        for_worker,
        UNSET if notify is None else notify,
    )


def settle(store: WorkerStore, task: Task, happening: Happening) -> Task:
    """Bring what happened to an attempt into the store, for the worker that holds it.

    Raises NotHeld if (worker, attempt) hold the task no longer.
    """
    held = task
    while True:
        answer = store.commit([decide(held, happening)])[0]
        if answer is not None:
            return answer
        current = store.get([task.id])[0]
        if current is None:
            raise NotHeld(f"task {task.id} is no longer there: it was deleted while it ran")
        if (current.worker, current.attempt) != (task.worker, task.attempt) or (
            current.state not in RUNNING
        ):
            raise NotHeld(
                f"task {task.id} is no longer held by attempt {task.attempt} of worker "
                f"{task.worker}: it is {current.state}, attempt {current.attempt}. "
                "Stop working on it; whatever it did since is refused"
            )
        held = current


def delete(store: AdminStore, id: str) -> None:
    """Forget a finished task; its id stays refused for a while."""
    task = get(store, id)
    if not store.purge([id], FINISHED, float("inf"), 1):
        if task.state in FINISHED and task.dependents:
            raise Refused(f"task {id} is needed by tasks that are to run after it: they come first")
        raise Refused(f"task {id} is {task.state}: only a finished task can be deleted, cancel it")


def purge(
    store: AdminStore, before: float, states: Sequence[State] = FINISHED
) -> Iterator[list[str]]:
    """Forget the tasks that ended before then, in small batches: yields their ids."""
    if any(state not in FINISHED for state in states):
        raise BadInput(f"only finished tasks can be purged: {', '.join(FINISHED)}")
    while purged := store.purge(None, states, before, BATCH):
        yield purged


def apply(store: WorkerStore, id: str, choose: Callable[[Task], Happening | None]) -> Task:
    while True:
        task = get(store, id)
        happening = choose(task)
        if happening is None:
            return task
        answer = store.commit([decide(task, happening)])[0]
        if answer is not None:
            return answer
        if isinstance(happening, Retry) and task.unique is not None:
            refuse_if_not_unique(store, task)


def refuse_if_not_unique(store: ReadStore, task: Task) -> None:
    """Refuse a retry that was not applied though nobody has touched the task: nothing else can keep
    it from being run again.
    """
    if store.get([task.id])[0] != task:
        return
    known = Filter(queues=(task.queue,), unique=task.unique)
    others = [each for each in store.find(known, None, BATCH).tasks if each.id != task.id]
    holder = next((each for each in others if each.state not in FINISHED), None)
    by = f"task {holder.id} ({holder.state}) holds" if holder else "another task still holds"
    raise Refused(
        f"task {task.id} can't run again now: {by} its unique word {task.unique!r}. Wait for its "
        "end, or cancel it"
    )


def _unless_in_thread(store: ReadStore, task: Task, order: Ask | Set) -> Ask | Set:
    """Refuse the order where the task runs in a thread, as its worker's record says."""
    if task.state in RUNNING and (isinstance(order, Ask) or order.limits):
        verb = order.verb if isinstance(order, Ask) else "set"
        for worker in known_workers(store):
            if worker.id == task.worker and worker.handles and worker.handles.threads:
                raise Refused(
                    f"task {task.id} runs in a thread of worker {worker.id}: {verb} is for tasks "
                    "in processes. `cancel` asks it to stop, `stack` shows where it is"
                )
    return order


def _order_unless_open(store: ReadStore, task: Task, verb: Verb) -> Ask | Set | None:
    """Make the order; None if it is the last one that came, and is still to be done."""
    if task.state in QUEUED:
        raise Refused(
            f"task {task.id} is {task.state}: only a running task can be asked to {verb}; hold and "
            "release are for those that wait"
        )
    verbs = [order.verb for order in task.orders if order.verb in ("pause", "resume")]
    return None if verbs[-1:] == [verb] else _unless_in_thread(store, task, Ask(verb))


def _signal_name(written: str) -> str:
    name = written.upper()
    try:
        found = (
            Signals(int(name)) if name.isdecimal() else Signals["SIG" + name.removeprefix("SIG")]
        )
    except (KeyError, ValueError):
        raise BadInput(f"{written!r} is not a signal: write for example TERM, USR1 or 15") from None
    if found.name in ("SIGSTOP", "SIGCONT", "SIGTSTP"):
        raise BadInput(f"{found.name} would confuse its keeper: use pause and resume")
    return found.name
