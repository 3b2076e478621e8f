"""All that a store shows, as JSON. Runs with the current code and with the older one that made the
data, so it calls nothing but the contract.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stayer.core.model import Filter, Task
from stayer.store import Store

_PAGE = 100
_ALL = 1000


def shown(store: Store) -> dict[str, Any]:
    """Read every record, in an order that does not depend on the store."""
    tasks = _tasks(store)
    ids = [task.id for task in tasks]
    queues = store.queues()
    said = {
        "now": store.now(),
        "identity": store.identity(),
        "tasks": {task.id: task for task in tasks},
        "of tasks": {task.id: _of(store, task) for task in tasks},
        "upstreams": dict(zip(ids, store.upstreams(ids), strict=True)),
        "queues": {queue.name: queue for queue in queues},
        "next": {
            queue.name: [task.id for task in store.peek(queue.name, _ALL)] for queue in queues
        },
        "durations": {queue.name: store.durations(queue.name, _ALL) for queue in queues},
        "failures": store.failures((), _ALL),
        "flows": store.flows(None, _ALL),
        "notices": store.notices(None, None, None, _ALL),
        "schedules": store.schedules(),
        "workers": {worker.id: worker for worker in store.workers()},
        "held": {
            worker.id: sorted(task.id for task in store.holdings(worker.id))
            for worker in store.workers()
        },
        "events": store.watch(0, 0, _ALL),
        "stats": {step: store.figures(0, store.now(), step, ()) for step in (60, 3600, 86400)},
    }
    return msgspec.json.decode(msgspec.json.encode(said), type=dict)


def _tasks(store: Store) -> list[Task]:
    found: list[Task] = []
    cursor = None
    while True:
        page = store.find(Filter(), cursor, _PAGE)
        found += page.tasks
        if page.next is None:
            return sorted(found, key=lambda task: task.id)
        cursor = page.next


def _of(store: Store, task: Task) -> dict[str, Any]:
    attempts = store.attempts(task.id)
    return {
        "attempts": attempts,
        "events": store.events(task.id),
        "checkpoint": store.checkpoint(task.id),
        "waits": store.waits(task.id, _ALL),
        "ahead": store.ahead(task.id),
        "log": {each.attempt: store.log(task.id, each.attempt, 0, 10**6) for each in attempts},
        "usage": {each.attempt: store.usage(task.id, each.attempt) for each in attempts},
    }
