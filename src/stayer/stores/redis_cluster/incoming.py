"""The list that any language may push tasks to: `LPUSH <prefix>:incoming '{"queue": "q"}'`.

On a cluster the list is on one node and the queues are on others. So an item gets an id in the step
in which it leaves the list for another one beside it, and stays there until its task is where it
belongs: whoever takes it up once more, because the first one died, submits it under the same id,
which is accepted once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from stayer.core import ids
from stayer.core.errors import BadInput, Refused
from stayer.core.happenings import Cancel
from stayer.core.lifecycle import decide
from stayer.core.limits import WRITTEN
from stayer.core.model import RUNNING, Change, NewTask, Submitted, Task
from stayer.stores.redis.connection.server import Call
from stayer.stores.redis.errors import translated
from stayer.stores.redis.incoming import (
    ITEMS_AT_ONCE,
    SAID,
    SHOWN,
    cut_item,
    difference,
    id_to_delete,
    log_refused,
    task_of,
    too_long,
)
from stayer.stores.redis.keys import key
from stayer.stores.redis.pack.changes import Arguments
from stayer.stores.redis.pack.tasks import pack_tasks
from stayer.stores.redis_cluster.fan_out import FanOut
from stayer.stores.redis_cluster.router import Shards

Commit = Callable[[Sequence[Change]], Sequence[Task | None]]


def count_waiting(shards: Shards) -> int:
    """Return how many items are there, with those that somebody has begun to take."""
    return int(
        _run(shards, "number_incoming", WRITTEN, SHOWN, waits=False)[0]
    )  # nothing is numbered


def take(fan_out: FanOut, commit: Commit, limit: int) -> int:
    """Take up to so many items, oldest first, fewer if they are long; how many are left. An item
    for a queue that can't be reached stays, with all that come after those that were looked at
    together with it.
    """
    shards, misses = fan_out.shards, fan_out.misses
    room = WRITTEN
    while limit > 0 and room > 0 and fan_out.misses == misses:
        drawn = [ids.generate() for _ in range(min(limit, ITEMS_AT_ONCE))]
        _, length, beginning, *found = _run(shards, "number_incoming", WRITTEN, SHOWN, *drawn)
        if length:
            _refuse_long(shards, length, beginning)
        items = [each.partition(b" ") for each in found]
        if not items and not length:
            break
        for group in _runs([(each[0].decode(), each[2]) for each in items]):
            _take(fan_out, commit, group)
            if fan_out.misses > misses:
                break
        limit -= max(1, len(items))
        room -= sum(map(len, found)) + length
    return count_waiting(shards)


def _refuse_long(shards: Shards, length: int, beginning: bytes) -> None:
    refusal = (cut_item(beginning), too_long(length))
    if _run(shards, "refuse_long", length, beginning, *refusal):
        log_refused(key("incoming", shards.nodes.options.prefix), [refusal])


Item = tuple[str, bytes]
"""Its id, and what it says."""


def _runs(items: Sequence[Item]) -> list[list[Item]]:
    """Return what can be taken together: a message that takes a task back comes after that task."""
    runs: list[list[Item]] = []
    alone = True
    for item in items:
        is_deletion = id_to_delete(item[1]) is not None
        if alone or is_deletion:
            runs.append([])
        runs[-1].append(item)
        alone = is_deletion
    return runs


def _take(fan_out: FanOut, commit: Commit, items: Sequence[Item]) -> None:
    shards = fan_out.shards
    refused: dict[str, str] = {}
    late: set[str] = set()
    if (id := id_to_delete(items[0][1])) is not None:
        if (problem := _cancel(shards, commit, id)) is not None:
            refused[items[0][0]] = problem
    else:
        tasks: dict[str, NewTask] = {}
        for drawn, item in items:
            try:
                tasks[drawn] = _task(shards, drawn, item)
            except (BadInput, TypeError) as error:  # what one can't take must not stand in the way
                refused[drawn] = str(error)
        late = _submit(fan_out, tasks, refused)
    done = [
        part
        for drawn, item in items
        if drawn not in late
        for part in _outcome(drawn, item, refused.get(drawn))
    ]
    _run(shards, "incoming_done", *done)
    problems = [(cut_item(item), refused[drawn]) for drawn, item in items if drawn in refused]
    log_refused(key("incoming", shards.nodes.options.prefix), problems)


def _submit(fan_out: FanOut, tasks: Mapping[str, NewTask], refused: dict[str, str]) -> set[str]:
    """Submit all of them, or else those whose queues can be reached; the answer is the others.
    Those that are there already as other tasks are refused.
    """

    def submit(some: Mapping[str, NewTask]) -> bool:
        answers = fan_out.shards.submit(list(some.values()))
        for (drawn, new), answer in zip(some.items(), answers, strict=True):
            if not answer.fresh and (why := _explain_refusal(new, answer)):
                refused[drawn] = why
        return True

    if not tasks or fan_out.attempt(lambda: submit(tasks)) is not None:
        return set()
    late: set[str] = set()
    for queue in dict.fromkeys(new.queue for new in tasks.values()):
        some = {drawn: new for drawn, new in tasks.items() if new.queue == queue}
        if fan_out.at(queue, partial(submit, some)) is None:
            late |= some.keys()
    return late


def _explain_refusal(new: NewTask, answer: Submitted) -> str | None:
    """Return why an item is not accepted: another has its id, or its word; None if it
    is the same.
    """
    if answer.purged:
        return (
            f"task {new.id!r} has been here and was deleted: give the item another id, or wait "
            "until this one is forgotten"
        )
    if answer.task.id != new.id:
        return f"its unique word {new.unique!r} is held by task {answer.task.id!r}"
    return difference(new, answer.task)


def _outcome(drawn: str, item: bytes, problem: str | None) -> tuple[Any, ...]:
    kept = b"" if problem is None else cut_item(item).encode()
    return drawn.encode() + b" " + item, kept, (problem or "")[:SAID]


def _task(shards: Shards, drawn: str, item: bytes) -> NewTask:
    new = task_of(item, drawn)
    with translated(shards.nodes.url):
        pack_tasks([new], Arguments(fixed=0))  # says what can't be kept
    return new


def _cancel(shards: Shards, commit: Commit, id: str) -> str | None:
    """Cancel a task, and return what is wrong with that; nothing if somebody has just done it."""
    while True:
        [task] = shards.get([id])
        if task is None:
            return f"no task {id!r} to delete"
        if task.state == "cancelled":
            return None
        if task.state in RUNNING and task.cancel_wanted:
            return None
        try:
            change: Change = decide(task, Cancel())
        except Refused as error:
            return str(error)
        if commit([change])[0] is not None:
            return None


def _run(shards: Shards, name: str, *arguments: Any, waits: bool = True) -> Any:
    place = key("incoming", shards.nodes.options.prefix)
    return shards.nodes.run_many([Call(place, name, arguments, waits=waits)])[0]
