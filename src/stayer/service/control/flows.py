"""The operator's verbs on a whole flow, over a store. See `tasks` for single tasks."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from stayer.core import codec, ids, limits
from stayer.core.errors import BadInput, Refused, StoreError, StoreUnreachable, UnknownFlow
from stayer.core.flows import model
from stayer.core.flows.model import FlowInfo, NewFlow, Upstreams
from stayer.core.happenings import Cancel
from stayer.core.lifecycle import decide
from stayer.core.model import FINISHED, RUNNING, Filter, NewTask, State, Task
from stayer.service.control import tasks as control
from stayer.service.control import waits
from stayer.service.degraded.ambiguous import is_in_doubt, unsure
from stayer.service.degraded.retry import Tell, logger, retry_while_unreachable
from stayer.store import ReadStore, Store, WorkerStore

_CANCEL_ORDER: tuple[State, ...] = ("waiting", "scheduled", "pending", *RUNNING)
"""The order in which a flow is cancelled: so that the end of one starts no other."""


_TIDIED_UP = 20
"""How many limits of sweeps to look at when one is set, whether they are still needed."""
_ON_ITS_WAY_S = 3600.0
"""For how long a sweep whose limit was set may not be there yet, in seconds: no limit that young
is taken away."""


def get(store: ReadStore, id: str) -> FlowInfo:
    """Get the flow with this id."""
    flow = store.flow(id)
    if flow is None:
        raise UnknownFlow(f"no flow {id!r} in {store.url}: `stayer flow ls` lists those there are")
    return flow


def find_all(store: ReadStore) -> Iterator[FlowInfo]:
    """Find every flow, newest first."""
    cursor: str | None = None
    while True:
        page = store.flows(cursor, control.BATCH)
        yield from page.flows
        if page.next is None:
            return
        cursor = page.next


def resolve(store: ReadStore, prefix: str, *, to_change: bool = False) -> str:
    """Find the full id of the one flow whose id is this, or was generated and begins with it."""
    if prefix and store.flow(prefix) is not None:
        return prefix
    matches = (flow.id for flow in find_all(store) if prefix and flow.id.startswith(prefix))
    found = [id for id in matches if ids.is_generated(id)]
    if not found:
        raise UnknownFlow(
            f"no flow {prefix!r} in {store.url}: `stayer flow ls` lists those there are"
        )
    return control.choose_id(prefix, found, UnknownFlow, to_change=to_change)


def submit(store: Store, flow: NewFlow, tasks: Sequence[NewTask]) -> tuple[FlowInfo, bool]:
    """Submit a flow, all of it or nothing: what is there now, and whether this call made it."""
    model.check_tasks(flow.name, len(tasks))
    if not tasks:
        raise BadInput(f"flow {flow.name} has no tasks: add at least one")
    limited = _limit_sweep(store, flow, tasks)
    try:
        fresh = store.submit_flow(flow, limited or tasks)
    except StoreError as error:
        if not is_in_doubt(store, error):
            raise
        message = (
            f"{error}. It may be there as {flow.id}: submitted again with this id, it is so once"
        )
        raise unsure(type(error)(message)) from error
    return get(store, flow.id), fresh


def _limit_sweep(store: Store, flow: NewFlow, tasks: Sequence[NewTask]) -> list[NewTask] | None:
    """Return the tasks of a sweep with a throttle with a key of its own, for which the queue has a
    limit: so whichever of them can run does, as soon as there is room. None: it has no throttle,
    or is there already, or its tasks have keys of their own; then they stand in lines. A server
    sees to that itself.
    """
    part = flow.parts[0] if len(flow.parts) == 1 else None
    if part is None or part.at_once is None or part.name != model.SWEEP_PART:
        return None
    if store.remote_operator is not None or store.flow(flow.id) is not None:
        return None
    if any(task.key is not None or task.queue != part.queue for task in tasks):
        return None
    if not _set_throttle(store, flow):
        return None
    return [replace(task, key=model.sweep_key(flow.id), behind=()) for task in tasks]


def _set_throttle(store: Store, flow: NewFlow) -> bool:
    """Set the limit of a sweep's key, unless its queue has so many that no more than as many are
    left for others. Takes away some of sweeps that are gone.
    """
    [part] = flow.parts
    known = store.queues([part.queue])
    there = known[0].key_limits if known else {}
    key = model.sweep_key(flow.id)
    if key in there:
        return True
    sweeps = [(each, model.sweep_of_key(each)) for each in there]
    ours = [(each, id) for each, id in sweeps if id is not None][:_TIDIED_UP]
    gone = [
        each
        for each, id in ours
        if store.flow(id) is None and store.read_record(_way(part.queue, id)) is None
    ]
    most = limits.QUEUE["key_limits"].items
    if most is not None and len(there) - len(gone) >= most // 2:
        return False
    store.record_once(_way(part.queue, flow.id), "", _ON_ITS_WAY_S)
    store.set_queue(part.queue, key_limits={**dict.fromkeys(gone), key: part.at_once})
    return True


def _way(queue: str, flow: str) -> str:
    """Under which name it is recorded that a sweep is on its way."""
    return codec.encode(["sweep", queue, flow])


def tasks_of(store: ReadStore, id: str, states: Sequence[State] = ()) -> list[Task]:
    """List the tasks of the flow, newest first."""
    return list(control.find_all(store, Filter(flow=id, states=tuple(states))))


def cancel(store: WorkerStore, id: str, grace: float | None = None) -> int:
    """Cancel all that has not ended; how many tasks that was. What runs is asked to stop."""
    get(store, id)
    cancelled = 0
    while True:
        wanted = [
            task
            for task in tasks_of(store, id, _CANCEL_ORDER)
            if not (task.state in RUNNING and task.cancel_wanted)
        ]
        if not wanted:
            return cancelled
        wanted.sort(key=lambda task: _CANCEL_ORDER.index(task.state))
        for first in range(0, len(wanted), control.BATCH):
            changes = [
                decide(task, Cancel(grace)) for task in wanted[first : first + control.BATCH]
            ]
            cancelled += sum(task is not None for task in store.commit(changes))


def retry(store: WorkerStore, id: str, *, from_start: bool = False) -> int:
    """Let it go on from where it failed: what failed or was cancelled is run again, what is
    complete stays; how many tasks that is. Those go on from their checkpoints; `from_start`: each
    begins anew.
    """
    flow = get(store, id)
    found = {task.id: task for task in tasks_of(store, id)}
    tied = [task.id for task in found.values() if task.upstreams]
    upstreams = {id: Upstreams() for id in found}
    upstreams.update(zip(tied, store.upstreams(tied), strict=True))
    outside = {each for of in upstreams.values() for each in of.after if each not in found}
    others = {task.id: task.state for task in store.get(sorted(outside)) if task is not None}
    plan = model.again(found, upstreams, others, now=store.now(), from_start=from_start)
    if not plan:
        raise Refused(f"flow {id} is {flow.state}: nothing of it has failed or was cancelled")
    # In one step, so that none hears that another has failed before that one is to run again.
    answers = store.commit([decide(task, happening) for task, happening in plan])
    # What just stands elsewhere in its line is none that goes on.
    return sum(
        now is not None and (task.state in FINISHED or task.held)
        for now, (task, _) in zip(answers, plan, strict=True)
    )


def count_upstream_failed_since(store: ReadStore, event: int, cancelled: Collection[str]) -> int:
    """Count the tasks that were cancelled after that event because they were to run after one of
    these, or after one of which the same is true.
    """
    gone, others = set(cancelled), 0
    while events := store.watch(event, 0.0, control.BATCH):
        event = events[-1].number
        ids = [each.id for each in events if each.event == "cancelled" and each.id not in gone]
        for id, upstreams in zip(ids, store.upstreams(ids), strict=True):
            if not gone.isdisjoint((*upstreams.after, *upstreams.behind)):
                gone.add(id)
                others += 1
    return others


def wait(
    store: ReadStore, id: str, timeout: float | None = None, tell: Tell = logger.warning
) -> FlowInfo:
    """Wait until all of the flow has ended or the time is over. A store that can't be reached for a
    while is waited for, too: `tell` says so.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        seen, flow = retry_while_unreachable(
            lambda: (store.last_event(), get(store, id)), deadline, tell
        )
        left = (
            waits.WATCH_S if deadline is None else min(waits.WATCH_S, deadline - time.monotonic())
        )
        if flow.state in FINISHED or left <= 0:
            return flow
        try:
            store.watch(seen, left, control.BATCH)
        except StoreUnreachable:  # look again, as soon as it is back
            time.sleep(min(left, waits.LOOK_S))
