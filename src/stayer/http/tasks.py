"""Tasks: looking, and the verbs on one and on many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import quote

from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import replace
from starlette.responses import Response

from stayer.core import codec, ids, units
from stayer.core.errors import BadInput, Refused, TaskCancelled, TaskFailed, UnknownTask
from stayer.core.insight import explanation
from stayer.core.model import (
    FINISHED,
    JSON,
    QUEUED,
    RUNNING,
    Filter,
    State,
    Task,
    Value,
)
from stayer.core.submit.edits import Edits, parse_edits
from stayer.http.filters import SHORT, ListQuery, TaskFilter, is_empty, moment, part_of, to_filter
from stayer.http.pages import encode, encode_all, read_page
from stayer.http.route import Answer, Call
from stayer.http.scopes import check_new, confine_reason
from stayer.service.control import edits as edit_control
from stayer.service.control import tasks as control
from stayer.service.control.statistics import find_statistics
from stayer.service.explain import explain as find_reasons
from stayer.store import Store


def find(call: Call) -> Answer:
    """Answer with a page of tasks, newest first."""
    query: ListQuery = call.query
    filter = to_filter(call.store, query)

    def record_briefly(task: Task) -> dict[str, JSON]:
        return call.record(_without_bulk(task))

    def read(queues: Sequence[str]) -> tuple[list[Raw], str | None]:
        wanted = replace(filter, queues=tuple(queues))
        show = partial(encode_all, record_briefly if query.brief else call.record)
        return read_page(partial(call.store.find, wanted), query.cursor, query.limit, show)

    (tasks, following), away = part_of(call.store, filter.queues, read, query.partial)
    return Answer(Raw(encode({"tasks": tasks, "next": following, **away})))


def _without_bulk(task: Task) -> Task:
    """Leave out of a record what may be megabytes a task."""
    error = None if task.error is None else replace(task.error, traceback=None)
    parameters, result = _if_short(task.parameters), _if_short(task.result)
    return replace(task, parameters=parameters, result=result, env=None, error=error)


def _if_short(value: Value) -> Value:
    if value is None or isinstance(value, bytes):
        return None
    return value if len(codec.encode(value)) <= SHORT else None


def show(call: Call) -> Answer:
    """Answer with the record, attempts and events. The beginning of a generated id will do: `ls`
    prints no more of it.
    """
    try:
        task = _task(call)
    except UnknownTask:
        task = control.get(call.store, control.resolve(call.store, call.path["id"]))
    return Answer(
        {
            **call.record(task),
            "attempts": [codec.attempt_record(each) for each in call.store.attempts(task.id)],
            "events": [codec.event_record(each) for each in call.store.events(task.id)],
        }
    )


def _task(call: Call) -> Task:
    return control.get(call.store, call.path["id"])


def attempts(call: Call) -> Answer:
    """Answer with every attempt."""
    found = call.store.attempts(_task(call).id)
    return Answer({"attempts": [codec.attempt_record(each) for each in found]})


def events(call: Call) -> Answer:
    """Answer with all that happened to a task."""
    found = call.store.events(_task(call).id)
    return Answer({"events": [codec.event_record(each) for each in found]})


def explain(call: Call) -> Answer:
    """Answer with why a task is where it is."""
    found = find_reasons(call.store, call.path["id"])
    who = call.who
    if who is not None and who.queues:
        task = control.get(call.store, found.id)
        reasons = [confine_reason(who, call.store, task, each) for each in found.reasons]
        found = replace(found, reasons=tuple(reasons))
    return Answer(explanation.record(found))


class WhichAttempt(Struct, frozen=True, kw_only=True):
    """One of the task's attempts."""

    attempt: Annotated[int, Meta(ge=1, le=2**31, description="Default: the last one.")] | None = (
        None
    )


def which_attempt(task: Task, attempt: int | None) -> int:
    """Return the attempt that is meant; BadInput if there is none."""
    if attempt is not None and attempt > task.attempt:
        there = f"attempts 1 to {task.attempt}" if task.attempt else "no attempt yet"
        raise BadInput(f"task {task.id} has no attempt {attempt}: there is {there}")
    return attempt or task.attempt


def usage(call: Call) -> Answer:
    """Answer with what an attempt has used over time."""
    task = _task(call)
    attempt = which_attempt(task, call.query.attempt)
    found = call.store.usage(task.id, attempt)
    return Answer({"attempt": attempt, "usage": [codec.usage_record(each) for each in found]})


def statistics(call: Call) -> Answer:
    """Answer with what an attempt has reported of itself."""
    task = _task(call)
    asked = call.query.attempt
    if asked is not None:
        which_attempt(task, asked)
    attempt, found = find_statistics(call.store, task, asked)
    return Answer({"attempt": attempt, **codec.statistics_record(found)})


class CheckpointQuery(Struct, frozen=True, kw_only=True):
    """How much of it."""

    data: Annotated[
        bool, Meta(description="False: only when it was saved, and null if nothing was.")
    ] = True


def checkpoint(call: Call) -> Answer:
    """Answer with the last checkpoint of a task."""
    found = call.store.checkpoint(_task(call).id)
    if not call.query.data:
        attempt, at = (None, None) if found is None else (found.attempt, units.rfc3339(found.at))
        return Answer({"attempt": attempt, "at": at, "data": None})
    if found is None:
        raise Refused(f"task {call.path['id']} has saved nothing yet")
    return Answer(codec.checkpoint_record(found))


def result_of(task: Task) -> Response | JSON:
    """Answer with what a task returned, or why there is nothing."""
    if task.state == "failed":
        raise TaskFailed(task.id, task.error)
    if task.state == "cancelled":
        raise TaskCancelled(f"task {task.id} was cancelled: retry it to have it run again")
    if task.state != "complete":
        raise Refused(f"task {task.id} is {task.state}: wait for it, for example with ?wait=30s")
    if isinstance(task.result, bytes):
        return Response(task.result, media_type="application/octet-stream")
    return task.result


class CancelBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to cancel."""

    grace: (
        Annotated[float, Meta(ge=0, le=units.CENTURY)]
        | Annotated[str, Meta(description="Such as 30s: how long it may take to stop.")]
        | None
    ) = None

    def seconds(self) -> float | None:
        return None if self.grace is None else units.duration(self.grace)


class SignalBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which signal."""

    signal: str


class SetBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to decide otherwise; null for a limit is none."""

    priority: Annotated[int, Meta(gt=-(2**31), lt=2**31)] | None = None
    time_limit: float | str | UnsetType | None = UNSET
    silence_limit: float | str | UnsetType | None = UNSET
    memory_limit: int | str | UnsetType | None = UNSET
    more_time: float | str | UnsetType = UNSET
    notify: tuple[str, ...] | None = None
    meta: Annotated[
        dict[str, Any],
        Meta(description="Fields of your own; null takes one away, others stay as they are."),
    ] = {}


def cancel(call: Call) -> Answer:
    """Cancel a task: at once if it waits, else by asking its worker."""
    body: CancelBody = call.body
    return Answer(call.record(control.cancel(call.store, call.path["id"], body.seconds())))


class CompleteBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What came out of it."""

    result: Annotated[Any, Meta(description='A JSON value, or `{"base64": …}` for bytes.')] = None


class FailBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What went wrong."""

    error: Annotated[str, Meta(max_length=control.ERROR_TEXT)] = ""


def complete(call: Call) -> Answer:
    """Declare a task complete by hand."""
    result = codec.as_value(call.body.result, "result")
    return Answer(call.record(control.complete(call.store, call.path["id"], result)))


def fail(call: Call) -> Answer:
    """Declare a task failed by hand."""
    return Answer(call.record(control.fail(call.store, call.path["id"], call.body.error)))


class RetryBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to run it again."""

    from_start: Annotated[
        bool, Meta(description="Forget its checkpoint, the results of its steps and its progress.")
    ] = False
    now: Annotated[bool, Meta(description="At once, also if it was cancelled before its eta.")] = (
        False
    )
    code: Annotated[
        Literal["pinned", "latest"],
        Meta(description="`latest`: resolve its code anew, instead of what it was pinned to."),
    ] = "pinned"
    changes: Annotated[
        dict[str, Any],
        Meta(description="What is to be different from now on, as in POST …/edit."),
    ] = {}

    def edits(self) -> Edits | None:
        return parse_edits(codec.encode(self.changes), "changes") if self.changes else None


def retry(call: Call) -> Answer:
    """Run a task again, from its checkpoint or from the start, perhaps with changes."""
    body: RetryBody = call.body
    task = edit_control.retry(
        call.store,
        call.path["id"],
        from_start=body.from_start,
        now=body.now,
        latest_code=body.code == "latest",
        edits=body.edits(),
    )
    return Answer(call.record(task))


def edit(call: Call) -> Answer:
    """Change what a task that waits is to do."""
    edits = parse_edits(call.body, "body")
    return Answer(call.record(edit_control.edit(call.store, call.path["id"], edits)))


def clone(call: Call) -> Answer:
    """Submit a task like this one, with changes."""
    edits = parse_edits(call.body, "body")
    who = call.who
    assert who is not None
    asked = dict(edits.fields)
    if who.queues or asked.get("owner") is None:
        asked["owner"] = who.name
    asked["submitted_by"] = call.submitter
    edits = replace(edits, fields=asked)
    new = edit_control.cloned_task(call.store, call.path["id"], edits)
    if new.generated and who.queues and not who.any_id:
        new = replace(new, id=ids.below_queue(new.queue, new.id))
    check_new(who, new)
    answer = edit_control.submit_clone(call.store, new)
    location = f"{call.service.settings.root_path}/v1/tasks/{quote(answer.task.id, safe='')}"
    shown: dict[str, JSON] = {**call.record(answer.task), "fresh": answer.fresh}
    return Answer(shown, 201 if answer.fresh else 200, {"location": location})


def _verb(act: Callable[[Store, str], Task]) -> Callable[[Call], Answer]:
    return lambda call: Answer(call.record(act(call.store, call.path["id"])))


hold = _verb(control.hold)
release = _verb(control.release)
pause = _verb(control.pause)
resume = _verb(control.resume)
stack = _verb(control.stack)


def signal(call: Call) -> Answer:
    """Send a signal to the main process of a task."""
    return Answer(call.record(control.signal(call.store, call.path["id"], call.body.signal)))


def set_task(call: Call) -> Answer:
    """Set priority, limits and hooks of a task, or fields of your own."""
    task = control.set(call.store, call.path["id"], **_setting(call.body))
    return Answer(call.record(task))


def _setting(body: SetBody) -> dict[str, Any]:
    """What `control.set` is to set."""
    limits: dict[str, float] = {}
    for name, read in (
        ("time", units.duration),
        ("silence", units.duration),
        ("memory", units.memory),
    ):
        written = getattr(body, f"{name}_limit")
        if written is not UNSET:
            limits[name] = 0 if written is None else _read(f"{name}_limit", read, written)
    more = None if body.more_time is UNSET else _read("more_time", units.duration, body.more_time)
    if body == SetBody():
        raise BadInput(f"say what to set: {', '.join(SetBody.__struct_fields__)}")
    return {
        "priority": body.priority,
        "limits": limits,
        "more_time": more,
        "notify": body.notify,
        "meta": body.meta or None,
    }


def _read(name: str, read: Callable[[Any], float], written: object) -> float:
    try:
        return read(written)
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from None


def delete(call: Call) -> Response:
    """Forget a task."""
    control.delete(call.store, call.path["id"])
    return Response(status_code=204)


def _bulk(
    call: Call, act: Callable[[str], Task], states: tuple[State, ...], held: bool | None = None
) -> Answer:
    """Apply the verb to a page of what matches; what it no longer fits is left out."""
    query: TaskFilter = call.query
    if is_empty(query):
        raise BadInput("say which tasks: queue=…, state=…, or another parameter of the list")
    wanted: Filter = to_filter(call.store, query)
    if not wanted.states:
        wanted = replace(wanted, states=states)
    if held is not None:
        wanted = replace(wanted, held=held)
    page = call.store.find(wanted, query.cursor, query.limit)
    done: list[JSON] = []
    for task in page.tasks:
        try:
            done.append(call.record(act(task.id)))
        except (Refused, UnknownTask):
            continue
    return Answer({"tasks": done, "next": page.next})


def cancel_many(call: Call) -> Answer:
    """Cancel the tasks that match and have not ended."""
    grace = call.body.seconds()
    return _bulk(call, lambda id: control.cancel(call.store, id, grace), (*QUEUED, *RUNNING))


def retry_many(call: Call) -> Answer:
    """Run again the tasks that match and failed or were cancelled."""
    body: RetryBody = call.body
    edits = body.edits()
    return _bulk(
        call,
        lambda id: edit_control.retry(
            call.store,
            id,
            from_start=body.from_start,
            now=body.now,
            latest_code=body.code == "latest",
            edits=edits,
        ),
        ("failed", "cancelled"),
    )


def hold_many(call: Call) -> Answer:
    """Hold the tasks that match and are not taken yet."""
    return _bulk(call, lambda id: control.hold(call.store, id), QUEUED, held=False)


def release_many(call: Call) -> Answer:
    """Release the tasks that match and are held."""
    return _bulk(call, lambda id: control.release(call.store, id), (), held=True)


def pause_many(call: Call) -> Answer:
    """Pause the running tasks that match."""
    return _bulk(call, lambda id: control.pause(call.store, id), RUNNING)


def resume_many(call: Call) -> Answer:
    """Resume the running tasks that match."""
    return _bulk(call, lambda id: control.resume(call.store, id), RUNNING)


def signal_many(call: Call) -> Answer:
    """Send a signal to the running tasks that match."""
    return _bulk(call, lambda id: control.signal(call.store, id, call.body.signal), RUNNING)


def set_many(call: Call) -> Answer:
    """Set priority, limits and hooks of the unfinished tasks that match."""
    setting = _setting(call.body)
    return _bulk(call, lambda id: control.set(call.store, id, **setting), (*QUEUED, *RUNNING))


def delete_many(call: Call) -> Answer:
    """Forget the finished tasks that match."""

    def forget(id: str) -> Task:
        task = control.get(call.store, id)
        control.delete(call.store, id)
        return task

    return _bulk(call, forget, FINISHED)


class PurgeBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which finished tasks to forget."""

    before: Annotated[str, Meta(description="Ended before: RFC 3339, or how long ago (7d).")]
    states: tuple[State, ...] = FINISHED
    limit: Annotated[int, Meta(ge=1, le=1000)] = 500


def purge(call: Call) -> Answer:
    """Forget what ended long ago, some at a time."""
    body: PurgeBody = call.body
    if any(state not in FINISHED for state in body.states):
        raise BadInput(f"only finished tasks can be purged: {', '.join(FINISHED)}")
    before = moment(call.store, "before", body.before)
    purged = call.store.purge(None, body.states or FINISHED, before, body.limit)
    return Answer({"purged": list[JSON](purged)})
