"""Why a task is where it is, in words for people, and when it will start and end."""

from __future__ import annotations

from collections.abc import Sequence

from stayer.core.insight.explanation import Explanation, Reason
from stayer.service.control import tasks as control
from stayer.service.explain.expect import expect
from stayer.service.explain.look import Look
from stayer.service.explain.reasons import NEEDS_SOMEBODY, REASONS, SILENT
from stayer.store import ReadStore


def explain(store: ReadStore, id: str) -> Explanation:
    """Give all reasons that hold, and a forecast."""
    look = Look(store, control.get(store, id))
    task = look.task
    reasons = tuple(found for each in REASONS if (found := each(look)))
    return Explanation(
        id=task.id,
        state=task.state,
        reasons=reasons,
        ahead=look.ahead if task.state == "pending" else None,
        forecast=None if _needs_somebody(reasons) else expect(look),
    )


def why_waiting(found: Explanation) -> str:
    """Say in one sentence why a queued task is not running."""
    # When it is due tells nothing of a task that no worker would run then, either.
    refused = (each.text for each in found.reasons if each.reason == "refused")
    return next(refused, found.reasons[0].text if found.reasons else f"it is {found.state}")


def needs_somebody(found: Explanation) -> bool:
    """Return whether a queued task waits for somebody to do something, and not only for its
    turn.
    """
    return _needs_somebody(found.reasons)


def _needs_somebody(reasons: Sequence[Reason]) -> bool:
    return any(each.reason in NEEDS_SOMEBODY for each in reasons)


def why_silent(found: Explanation) -> str | None:
    """Say why nothing is heard of a running task; None if its worker is well."""
    return next((each.text for each in found.reasons if each.reason in SILENT), None)
