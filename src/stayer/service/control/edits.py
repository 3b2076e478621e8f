"""Changing what was submitted: retry with changes, edit what waits, clone."""

from __future__ import annotations

from msgspec.structs import replace

from stayer.core.errors import (
    BadInput,
    Refused,
)
from stayer.core.flows import sweep
from stayer.core.flows.model import SWEEP_PART, part_of
from stayer.core.happenings import (
    Edit,
    Happening,
    Retry,
)
from stayer.core.lifecycle import is_early
from stayer.core.model import (
    FINISHED,
    QUEUED,
    NewTask,
    Submitted,
    Task,
)
from stayer.core.submit.edits import Edits, apply_edits, make_clone
from stayer.service.control.tasks import (
    apply,
    check_startable,
    difference,
    get,
    refuse_deleted,
    unique_holder,
)
from stayer.service.degraded.ambiguous import naming_drawn_ids
from stayer.store import ReadStore, Store, WorkerStore


def retry(
    store: WorkerStore,
    id: str,
    *,
    from_start: bool = False,
    now: bool = False,
    latest_code: bool = False,
    edits: Edits | None = None,
) -> Task:
    """Run a finished task again, with its counters at zero, once what it runs after has ended: in
    whatever way, for that is what somebody asks for who retries this one alone.

    It goes on from its last checkpoint, with the results of its finished steps; `from_start`: from
    nothing. One that was cancelled before its eta keeps that; `now`: it does not wait for it.
    `latest_code`: what its code means is found out anew, instead of what it was pinned to. `edits`
    change what it does from now on; its history says so.
    """

    def when_possible(task: Task) -> Happening:
        early = not now and task.eta is not None and is_early(task, store.now())
        known = task if task.state not in FINISHED else replace(task, eta=None, start_before=None)
        edit = apply_edits(known, _filled_in(store, task, edits), store.now()) if edits else None
        waits: tuple[str, ...] = ()
        if task.upstreams:
            [of] = store.upstreams([task.id])
            upstreams = store.get((*of.after, *of.behind))
            waits = tuple(each.id for each in upstreams if each and each.state not in FINISHED)
        return Retry(waits, from_start, early, edit, latest_code)

    return apply(store, id, when_possible)


def edit(store: WorkerStore, id: str, edits: Edits) -> Task:
    """Change what a task that waits is to do: what it runs, its parameters, times and limits. Its
    history says what has changed. One that is as wanted already stays as it is.
    """
    if not edits:
        raise BadInput("say what to change: the command, the parameters, a limit …")

    def unless_same(task: Task) -> Happening | None:
        wanted = apply_edits(task, _filled_in(store, task, edits), store.now())
        if wanted is None and task.state in QUEUED:
            return None
        return wanted or Edit(note="")  # which is refused

    return apply(store, id, unless_same)


def clone(store: Store, id: str, edits: Edits, *, owner: str | None = None) -> Submitted:
    """Submit a task like this one, with changes. Results, times, attempts, checkpoints and its
    place in a flow are not copied. Raises BadInput.
    """
    return submit_clone(store, cloned_task(store, id, edits, owner=owner))


def submit_clone(store: Store, new: NewTask) -> Submitted:
    """Submit what `cloned_task` made; raises Refused if another task stands in its way."""
    check_startable(store, [new])
    with naming_drawn_ids(store, [new]):
        answer = store.submit([new])[0]
    refuse_deleted(new, answer)
    if holder := unique_holder(new, answer):
        raise Refused(
            f"not cloned: task {holder.id} ({holder.state}) has the same unique word "
            f"{new.unique!r}. Wait for its end, or give the clone another word, or none"
        )
    if (other := difference(new, answer)) is not None:
        raise Refused(f"not cloned: task {new.id} {other}")
    return answer


def cloned_task(store: ReadStore, id: str, edits: Edits, *, owner: str | None = None) -> NewTask:
    """Make the task that `clone` submits."""
    task = get(store, id)
    after: tuple[str, ...] = ()
    if task.upstreams and "after" not in edits.fields:
        after = store.upstreams([id])[0].after
        inside = [each for each in after if part_of(task.flow, each)[0] != each]
        if inside:
            raise Refused(
                f"task {id} gets the results of {inside[0]} as a part of flow {task.flow}, which "
                "a clone is not: retry it with these changes, or give the clone another `after`, "
                "or none (--clear after)"
            )
    return make_clone(task, _filled_in(store, task, edits), after, owner=owner, now=store.now())


def _filled_in(store: ReadStore, task: Task, edits: Edits) -> Edits:
    """Let other parameters of a task of a sweep change its command, which has them in its words.
    What has been deleted of the sweep can't be asked: then the edits stay as they are.
    """
    changes_parameters = bool(edits.parameters) or "parameters" in edits.fields
    keeps_command = task.command is not None and not {"command", "name"} & edits.fields.keys()
    if task.flow is None or task.part != SWEEP_PART or not (changes_parameters and keeps_command):
        return edits
    flow = store.flow(task.flow)
    template = None if flow is None else flow.parts[0].template
    known = edits.fields.get("parameters", task.parameters)
    if template is None or not isinstance(known, dict):
        return edits
    command = sweep.fill_command(template, {**known, **edits.parameters})
    return replace(edits, fields={**edits.fields, "command": command})
