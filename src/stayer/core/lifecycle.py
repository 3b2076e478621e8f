"""The state machine: everything that may become of a task, and nothing else knows it.

`TABLE` says which states an event may lead to; `decide` says which one, and what changes with it:
all of it, with what follows from the step as such (`core.effects`), so that stores only apply it.
Pure: the same task and event always give the same change. The diagram in the docs is drawn from
`TABLE`.

One arrow is not in it: a worker that was declared lost too early may still bring its result. It
decides from what it holds (`started`, `Done`); the store applies that `late` change to the task
that went back to `pending`, if nobody has touched it since.
"""

from __future__ import annotations

from math import inf
from typing import TypedDict, assert_never

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, force_setattr, replace

from stayer.core import effects, errors, retries
from stayer.core import meta as own_fields
from stayer.core.errors import Refused
from stayer.core.happenings import (
    Ask,
    Cancel,
    DeclareComplete,
    DeclareFailed,
    Done,
    Due,
    Edit,
    Expire,
    Fail,
    Happening,
    Hold,
    Interrupt,
    Note,
    Pin,
    Ready,
    Release,
    Reserve,
    Retry,
    Set,
    SetMeta,
    Snooze,
    Start,
    Stop,
    UpstreamFailed,
    WaitAgain,
    WorkerLost,
)
from stayer.core.insight.fingerprint import fingerprint
from stayer.core.limits import NOTE, cut
from stayer.core.model import (
    FINISHED,
    JSON,
    QUEUED,
    RUNNING,
    STATES,
    Change,
    Ending,
    Fault,
    Order,
    Pinned,
    Policy,
    State,
    Task,
    Value,
    Verb,
)
from stayer.core.units import as_wait

_BY_HAND = "by hand"
EXPIRED = Fault("Expired", "too old to be started")
OVERDUE = Fault("Expired", "its deadline came while it ran")

NOT_TO_THREADS: tuple[Verb, ...] = ("pause", "resume", "signal", "set")
"""What can be asked of a process, but not of a thread."""

LATE = 0.1
"""What is told within so many seconds is told at once."""


TABLE: dict[tuple[State, type[Happening]], tuple[State, ...]] = {
    ("waiting", Ready): ("pending", "scheduled"),
    ("waiting", UpstreamFailed): ("waiting", "pending", "scheduled", "cancelled"),
    ("scheduled", Due): ("pending",),
    ("pending", Reserve): ("reserved",),
    ("reserved", Start): ("started",),
    **{(state, Done): ("complete",) for state in RUNNING},
    **{(state, Fail): ("failed", "pending", "scheduled", "cancelled") for state in RUNNING},
    **{(state, Interrupt): ("pending", "cancelled") for state in RUNNING},
    **{(state, WorkerLost): ("pending", "failed", "cancelled") for state in RUNNING},
    **{(state, Snooze): ("scheduled", "cancelled") for state in RUNNING},
    **{(state, Stop): ("cancelled",) for state in RUNNING},
    **{(state, Expire): ("failed",) for state in QUEUED},
    **{(state, Cancel): ("cancelled",) for state in QUEUED},
    **{(state, Cancel): (state,) for state in RUNNING},
    **{
        (state, DeclareComplete): ("complete",)
        for state in (*QUEUED, *FINISHED)
        if state != "complete"
    },
    **{(state, DeclareFailed): ("failed",) for state in (*QUEUED, *FINISHED) if state != "failed"},
    **{(state, Ask): (state,) for state in RUNNING},
    **{(state, Note): (state,) for state in RUNNING},
    **{(state, Pin): (state,) for state in (*QUEUED, *RUNNING)},
    **{(state, Set): (state,) for state in (*QUEUED, *RUNNING)},
    **{(state, SetMeta): (state,) for state in STATES},
    ("waiting", Edit): ("waiting",),
    **{(state, Edit): ("pending", "scheduled") for state in ("pending", "scheduled")},
    **{(state, Retry): ("pending", "scheduled", "waiting") for state in FINISHED},
    **{(state, WaitAgain): ("waiting",) for state in QUEUED},
    **{(state, Hold): (state,) for state in (*QUEUED, *RUNNING)},
    **{(state, Release): (state,) for state in (*QUEUED, *RUNNING)},
}


def decide(task: Task, happening: Happening, ago: float = 0.0) -> Change:
    """Say what becomes of the task: what must still hold, and the whole effect. Raises Refused if
    the table has no entry. `ago`: how long it has waited to be told, in seconds.
    """
    allowed = TABLE.get((task.state, type(happening)))
    if allowed is None:
        raise Refused(_refusal(task, happening))
    change = _decide(task, happening)
    force_setattr(change, "happening", happening)  # just made, and nobody else has it yet
    assert change.to in allowed, (task.state, happening, change.to)
    return date_back(change, ago) if ago else change


def date_back(change: Change, ago: float) -> Change:
    """Date the start or end of which a change tells so many seconds back; less than 0: it was later
    than the store's clock says, which was set back while it ran.
    """
    is_of_attempt = change.effect.attempt is not None
    is_late = LATE <= abs(ago) < inf
    return replace(change, ago=ago) if is_of_attempt and is_late else change


def with_checkpoint(change: Change, saved: bytes) -> Change:
    """Let a change bring along what the attempt saved last, if no beat could. As with a beat, that
    sets the count of losses to 0.
    """
    effect = change.effect
    kept = replace(
        effect,
        sets={**effect.sets, "losses": 0},
        times={**effect.times, "checkpoint_at": 0.0},
    )
    return replace(change, effect=kept, checkpoint=saved)


def _decide(task: Task, happening: Happening) -> Change:
    match happening:
        case Done(result=result):
            return _complete(task, result)
        case Ready(near=near):
            to = _ready(task)
            return _change(task, to, near=near if to == "pending" else None)
        case UpstreamFailed():
            return _after_failed_upstream(task, happening)
        case Due():
            return _change(task, "pending")
        case Reserve():
            raise Refused(
                f"task {task.id} is {task.state}: only Store.reserve gives it to a worker"
            )
        case Start(pid=pid):
            return _change(task, "started", {"pid": pid})
        case Fail():
            return _fail(task, happening)
        case Interrupt(note=note):
            # An attempt that never began says nothing about those that were lost before it.
            began = task.state == "started"
            return _hand_back(task, "interrupted", note, {"losses": 0} if began else {})
        case WorkerLost(note=note):
            return _lose(task, note)
        case Snooze():
            return _snooze(task, happening)
        case Stop():
            return _finish_cancelled(task)
        case Expire():
            return _finish_failed(task, "expired", EXPIRED)
        case Cancel(grace=grace):
            return _cancel(task, grace)
        case DeclareComplete(result=result):
            return _declare_complete(task, result)
        case DeclareFailed(error=error):
            return _declare(_finish_failed(task, "error", error, note=_BY_HAND))
        case Ask(verb=verb, arguments=arguments):
            return _ask(task, verb, arguments)
        case Note(event=event, note=note):
            return _change(task, task.state, word=event, note=note)
        case Pin(pinned=pinned, lock=lock):
            return _pin(task, pinned, lock)
        case Set():
            return _set(task, happening)
        case SetMeta():
            return _set_meta(task, happening)
        case Edit():
            return _edit(task, happening)
        case Retry():
            return _retry(task, happening)
        case WaitAgain(waits=waits, held=held):
            return _change(
                task, "waiting", {"held": held}, word="waits again", order=True, waits=waits
            )
        case Hold():
            return _change(task, task.state, {"held": True}, word="held", order=True)
        case Release():
            return _change(task, task.state, {"held": False}, word="released", order=True)
        case _:
            assert_never(happening)


class _Sets(TypedDict, total=False):
    """The fields of a task that a happening may set."""

    held: bool
    pid: int | None
    error: Fault | None
    failures: int
    interruptions: int
    losses: int
    priority: int
    policy: Policy
    orders: tuple[Order, ...]
    notify: tuple[str, ...]
    meta: dict[str, JSON] | None
    fingerprint: str | None
    returned_from: str
    start_before: float
    pinned: Pinned | None
    lock: str | None


_NOTHING: _Sets = {}


def _change(
    task: Task,
    to: State,
    sets: _Sets = _NOTHING,
    *,
    word: str | None = None,
    note: str | None = None,
    ending: Ending | None = None,
    delay: float | UnsetType | None = UNSET,
    near: tuple[str, float] | None = None,
    waits: tuple[str, ...] | UnsetType = UNSET,
    order: bool = False,
    from_start: bool = False,
    result: Value | UnsetType = UNSET,
    edit: Edit | None = None,
    deadline: float | None = None,
) -> Change:
    """Make the change of a task as it is now. `order`: it takes the next number, so that whoever
    read the task before must read it again; the rest is as in `effects.effect`.
    """
    finish = task.finish_before if task.start_before is None else None
    if finish is not None and task.state in RUNNING and to in QUEUED:
        sets = {**sets, "start_before": finish}
    return Change(
        id=task.id,
        state=task.state,
        worker=task.worker,
        attempt=task.attempt,
        last_order=task.last_order,
        queue=task.queue,
        unique_is_free=task.state in FINISHED,
        result=result,
        parameters=UNSET if edit is None else edit.parameters,
        effect=effects.effect(
            task.state,
            to,
            sets if edit is None else {**_unpinning(edit), **sets, **edit.sets},
            word=word,
            note=note,
            ending=ending,
            delay=delay,
            near=near,
            waits=waits,
            order=task.last_order + 1 if order else None,
            from_start=from_start,
            deadline=deadline,
        ),
    )


def _unpinning(edit: Edit) -> _Sets:
    """Return what becomes of the pin of a task whose code is edited: it was that of other code."""
    return {"pinned": None, "lock": None} if "code" in edit.sets else _NOTHING


def _complete(task: Task, result: Value) -> Change:
    """Written out: of all changes the one that is made most often."""
    return Change(
        id=task.id,
        state=task.state,
        worker=task.worker,
        attempt=task.attempt,
        last_order=task.last_order,
        queue=task.queue,
        late=True,
        effect=effects.completion(task.state, task.worker),
        result=result,
    )


def _ready(task: Task) -> State:
    return "pending" if task.eta is None else "scheduled"


def _after_failed_upstream(task: Task, failed: UpstreamFailed) -> Change:
    to: State = _ready(task) if failed.last else "waiting"
    match task.policy.when_failed:
        case "cancel":
            fault = Fault("Forsaken", f"it was to run after {failed.upstream}")
            return _finish_cancelled(task, {"error": fault})
        case "hold":
            return _change(task, to, {"held": True}, word="held", note=failed.upstream)
        case "run":
            return _change(task, to)
        case _ as never:
            assert_never(never)


def _cancel(task: Task, grace: float | None) -> Change:
    if task.state in QUEUED:
        return _finish_cancelled(task)
    return _ask(task, "cancel", {} if grace is None else {"grace": grace})


def _pin(task: Task, pinned: Pinned, lock: str | None) -> Change:
    note = ", ".join(f"{name} {value}" for name, value in asdict(pinned).items() if value)
    sets: _Sets = {"pinned": pinned, "lock": lock}
    return _change(task, task.state, sets, word="pinned", note=cut(note, NOTE), order=True)


def _declare_complete(task: Task, result: Value) -> Change:
    sets: _Sets = {"orders": (), "error": None, "fingerprint": None}
    return _declare(
        _change(task, "complete", sets, ending="done", note=_BY_HAND, order=True, result=result)
    )


def _declare(change: Change) -> Change:
    """Let a person's word on how a task ended hold, also where it has ended before: it does not run
    again, so it needs no unique word.
    """
    return replace(change, unique_is_free=False)


def _finish_failed(
    task: Task, ending: Ending, fault: Fault, sets: _Sets = _NOTHING, note: str | None = None
) -> Change:
    # Scripts of stores let tasks expire too, and know no kinds.
    runs = task.program if ending == "expired" else task.kind
    mark = fingerprint(runs, ending, fault)
    fields: _Sets = {**sets, "orders": (), "error": fault, "fingerprint": mark}
    return _change(
        task,
        "failed",
        fields,
        ending=ending,
        note=note,
        order=note is not None,
        result=None if task.state == "complete" else UNSET,
    )


def _finish_cancelled(task: Task, sets: _Sets = _NOTHING) -> Change:
    return _change(task, "cancelled", {**sets, "orders": ()}, ending="cancelled")


def _fail(task: Task, fail: Fail) -> Change:
    if task.cancel_wanted:
        return _finish_cancelled(task, {"error": fail.error})
    failures = task.failures + 1
    policy = task.policy
    may_retry = retries.is_retry_allowed(policy, failures, fail.ending, fail.error, fail.bases)
    if not fail.final and fail.ending != "expired" and may_retry:
        wait = retries.wait(policy, failures, task.id) if fail.after is None else fail.after
        sets: _Sets = {"error": fail.error, "failures": failures, "losses": 0, "orders": ()}
        raised = retries.raise_limits(policy, fail.ending)
        if raised != policy:
            sets["policy"] = raised
        if wait > 0:
            return _change(task, "scheduled", sets, ending=fail.ending, delay=wait)
        return _change(task, "pending", sets, ending=fail.ending, delay=None)
    return _finish_failed(task, fail.ending, fail.error, {"failures": failures})


def _snooze(task: Task, snooze: Snooze) -> Change:
    if task.cancel_wanted:
        return _finish_cancelled(task)
    sets: _Sets = {"orders": ()}
    if snooze.note is None:
        sets["losses"] = 0
    if snooze.error is not None:
        sets["error"] = snooze.error
    return _change(
        task, "scheduled", sets, ending=snooze.ending, delay=snooze.delay, note=snooze.note
    )


def _hand_back(task: Task, ending: Ending, note: str | None, sets: _Sets) -> Change:
    """Back to its old place in the queue, free of charge; held there if it was to stand still."""
    if task.cancel_wanted:
        return _finish_cancelled(task)
    fields: _Sets = {**sets, "interruptions": task.interruptions + 1, "orders": ()}
    if _is_to_pause(task):
        fields["held"] = True
        note = f"{note}; held, for it was paused" if note else "held, for it was paused"
    return _change(task, "pending", fields, ending=ending, note=note)


def _is_to_pause(task: Task) -> bool:
    """Return whether it is to be paused: the last order that is still open counts."""
    verbs = [order.verb for order in task.orders if order.verb in ("pause", "resume")]
    return verbs[-1] == "pause" if verbs else task.paused


def _lose(task: Task, note: str | None) -> Change:
    if task.cancel_wanted:
        unproven = Fault("Unproven", "node lost: its process may have run on for a while")
        return _finish_cancelled(task, {"error": unproven})
    # Only an attempt that had started can be what kills its workers; news of progress or a
    # checkpoint sets the count back to 0 (Store.beat).
    started = task.state == "started"
    losses = task.losses + started
    if started and losses >= task.policy.losses:
        fault = Fault(
            "Lost",
            f"its worker died {losses} times in a row while it ran, with no progress or checkpoint "
            "in between: set aside. Look into what it does to its node, then retry it.",
        )
        change = _finish_failed(task, "lost", fault, {"losses": losses})
    else:  # a late `done` of this very attempt is still welcome
        mine = f"{task.worker} {task.attempt}"
        change = _hand_back(task, "lost", note, {"losses": losses, "returned_from": mine})
    return replace(change, losses_before=task.losses)


def _ask(task: Task, verb: Verb, arguments: dict[str, JSON], sets: _Sets = _NOTHING) -> Change:
    order = Order(task.last_order + 1, verb, arguments)
    text = ", ".join(
        f"{value}" if name == verb else f"{name} {value}" for name, value in arguments.items()
    )
    fields: _Sets = {**sets, "orders": (*task.orders, order)}
    return _change(task, task.state, fields, word=verb, note=text, order=True)


def _set(task: Task, wanted: Set) -> Change:
    becomes: _Sets = {}
    if wanted.priority is not UNSET:
        becomes["priority"] = wanted.priority
    if wanted.policy is not UNSET:
        becomes["policy"] = wanted.policy
    if wanted.notify is not UNSET:
        becomes["notify"] = wanted.notify
    if wanted.limits and task.state in RUNNING:
        return _ask(task, "set", wanted.limits, becomes)
    return _change(task, task.state, becomes, word="set", order=True)


def _set_meta(task: Task, wanted: SetMeta) -> Change:
    """Change nothing else: what has ended ended when it did, and nobody has to look for work."""
    merged = own_fields.merge(task.meta, wanted.fields)
    change = _change(
        task,
        task.state,
        {"meta": merged},
        word=None if wanted.by_task else "meta",
        note=own_fields.describe(wanted.fields),
        order=True,
    )
    times = {} if task.state in FINISHED else change.effect.times
    effect = replace(change.effect, times=times, wakes_queue=False, wakes_worker=False)
    return replace(change, effect=effect, unique_is_free=False)


def _edit(task: Task, edit: Edit) -> Change:
    to: State = "scheduled" if edit.is_early else "pending"
    if task.state == "waiting":
        to = "waiting"
    return _change(task, to, word="edited", note=edit.note, order=True, edit=edit)


def _retry(task: Task, retry: Retry) -> Change:
    """Counters at zero, and a deadline counts anew; the attempt's number goes on, logs stay, and so
    does what it saved, unless it is to begin from the start.
    """
    edit = retry.edit
    is_early = retry.keeps_eta if edit is None or "eta" not in edit.sets else edit.is_early
    ready: State = "scheduled" if is_early else "pending"
    sets: _Sets = {"error": None, "failures": 0, "interruptions": 0, "losses": 0}
    code = task.code if edit is None else edit.sets.get("code", task.code)
    keeps_pin = task.pinned is not None and (edit is None or "code" not in edit.sets)
    is_dated = edit is not None and "finish_before" in edit.sets
    if retry.unpins and (code is not None or keeps_pin):
        sets |= {"pinned": Pinned("", anew=True), "lock": None}
    return _change(
        task,
        "waiting" if retry.waits else ready,
        sets,
        waits=retry.waits or UNSET,
        result=None,
        delay=UNSET if is_early else None,
        order=True,
        from_start=retry.from_start,
        word="retried from the start" if retry.from_start else "retried",
        note=None if edit is None else edit.note,
        edit=edit,
        deadline=None if is_dated else task.policy.deadline,
    )


def is_early(task: Task, now: float) -> bool:
    """Return whether the moment that its submitter chose is still to come: then a retry waits for
    it.

    Once it has been tried, its eta is that of a retry or of a snooze, which are over with its end.
    """
    return task.attempt == 0 and task.eta is not None and task.eta > now


def read_exception(error: BaseException, fault: Fault) -> Happening:
    """Translate an exception that ended a task's code into what happened to it; `fault` describes
    it.
    """
    match error:
        case errors.Snooze(delay=delay) if (wait := as_wait(delay)) is not None:
            return Snooze(wait)
        case errors.Retry(after=after):
            return Fail(fault, after=as_wait(after), bases=retries.base_names(type(error)))
        case _:
            final = isinstance(error, errors.GiveUp)
            return Fail(fault, final=final, bases=retries.base_names(type(error)))


def acknowledge(orders: tuple[Order, ...], number: int) -> tuple[Order, ...]:
    """Return the orders still open once those up to `number` are carried out; a cancel stays
    wanted.
    """
    return tuple(
        Order(order.number, order.verb, order.arguments, acknowledged=True)
        if order.number <= number
        else order
        for order in orders
        if order.number > number or order.verb == "cancel"
    )


def _refusal(task: Task, happening: Happening) -> str:
    what = type(happening).__name__.lower()
    text = f"task {task.id} is {task.state}"
    match happening:
        case DeclareComplete() | DeclareFailed() if task.state in RUNNING:
            return (
                f"{text}: what runs has an end of its own. Cancel it first, and then say how it "
                "ended (`--stop` does both)"
            )
        case DeclareComplete() | DeclareFailed():
            return f"{text} already"
        case Retry():
            return f"{text}: only a finished task can be retried"
        case Cancel() | Hold() | Release() | Set() | Pin() if task.state in FINISHED:
            return f"{text}: it has ended, there is nothing to {what}"
        case Edit() if task.state in RUNNING:
            return (
                f"{text}: what runs can't be edited. `stayer set` changes its limits; or cancel it "
                "and retry it with changes, or clone it"
            )
        case Edit():
            return f"{text}: it has ended. Retry it with these changes, or clone it"
        case Ask(verb=verb):
            return f"{text}: only a running task can be asked to {verb}"
        case _:
            return f"{text}: {what} is not possible now"
