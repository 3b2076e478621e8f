"""Why a task is where it is, in words for people, and when it will start and end.

Behind a server, the server explains.
"""

from __future__ import annotations

from stayer.core.insight.explanation import Explanation
from stayer.core.model import Task
from stayer.service.control import tasks as control
from stayer.service.explain.expect import expect
from stayer.service.explain.look import Look
from stayer.service.explain.reasons import REASONS, SILENT
from stayer.store import ServedStore, Store


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
        forecast=expect(look),
    )


def why_waiting(store: Store, task: Task) -> str:
    """Why a queued task is not running, in one sentence."""
    reasons = explain(store, task.id).reasons
    # When it is due tells nothing of a task that no worker would run then, either.
    refused = (each.text for each in reasons if each.reason == "refused")
    return next(refused, reasons[0].text if reasons else f"it is {task.state}")


def why_silent(store: Store, task: Task) -> str | None:
    """Why nothing is heard of a running task; None if its worker is well."""
    found = (each.text for each in explain(store, task.id).reasons if each.reason in SILENT)
    return next(found, None)
