"""All that follows when a task comes from one state into another, as data: see `model.Effect`.

`lifecycle.decide` says what happens; this fills in what goes with it, whatever the reason: times,
holder, event, attempt, who is woken. Pure, and the one place that knows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from stayer.core.model import (
    FINISHED,
    QUEUED,
    RUNNING,
    AttemptNews,
    Effect,
    Ending,
    State,
)
from stayer.core.notify.notices import meaning

_HELD_BY_NOBODY = ("worker", "node", "pid", "started_at", "usage", "near_node", "near_until")
"""What a task does not have that has just come to wait, unless its change says so."""
_HAS_NOT_ENDED = ("finished_at", "ending", "start_before", "finish_before", "fingerprint")
"""What a task does not have that has left its end. It had its chance to be started in time."""


def effect(
    state: State,
    to: State,
    sets: Mapping[str, Any],
    *,
    word: str | None = None,
    note: str | None = None,
    ending: Ending | None = None,
    delay: float | UnsetType | None = UNSET,
    near: tuple[str, float] | None = None,
    waits: tuple[str, ...] | UnsetType = UNSET,
    order: int | None = None,
    from_start: bool = False,
    deadline: float | None = None,
) -> Effect:
    """Make the effect of a change that leads `to` here and `sets` these fields. `word` says what
    happened, if that is not its `ending`: it names the event if the state stays, else it is the
    event's note. `order` is the number that it takes, if it takes one; `deadline`, in how many
    seconds it has to have ended, if that counts from now.
    """
    common = _common(state, to, ending)
    fields = {**common.sets, **sets}
    own: dict[str, Any] = {"sets": fields}
    if order is not None:
        fields["last_order"] = order
        own["wakes_queue"] = own["wakes_worker"] = True
    if delay is None:
        fields["eta"] = None
    elif delay is not UNSET:
        own["times"] = {**common.times, "eta": delay}
    if near is not None:
        fields["near_node"], until = near
        fields.pop("near_until", None)
        own["times"] = {**own.get("times", common.times), "near_until": until}
    if deadline is not None:
        ends = dict.fromkeys(("start_before", "finish_before"), deadline)
        for name in ends:
            fields.pop(name, None)
        own["times"] = {**own.get("times", common.times), **ends}
    if from_start:
        fields |= {"progress": None, "checkpoint_at": None}
        own["forgets_checkpoint"] = True
    if waits is not UNSET:
        own["waits"] = waits
    if to == state:
        own["event"], own["note"] = ending or word, note or None
    elif word or note:
        own["note"] = ": ".join(each for each in (ending or word, note) if each)
    if common.attempt is not None:
        own["attempt"] = _attempt_news(state, to, ending, fields)
    return replace(common, **own)


@cache
def _common(state: State, to: State, ending: Ending | None) -> Effect:
    """Make what all changes of this kind have in common: working it out took half of the time of
    `lifecycle.decide`.
    """
    fields = {"returned_from": None, **_fields_cleared(state, to)}
    if ending is not None:
        fields["ending"] = ending
    moves = to != state
    return Effect(
        to=to,
        sets=fields,
        times={"updated": 0.0},
        moment=_moment(to) if moves else None,
        event=to if moves else ending,
        note=ending if moves else None,
        attempt=_attempt_news(state, to, ending, fields),
        hook_words=meaning(state, to, ending),
        waits=() if moves and state == "waiting" else UNSET,
        ends=moves and to in FINISHED,
        ends_run=state in RUNNING and to not in RUNNING,
        enters_lane=to == "pending",
        wakes_queue=moves and to in ("pending", "scheduled"),
    )


@lru_cache(maxsize=256)
def completion(state: State, worker: str | None) -> Effect:
    """Return the effect of running to the end. It is shared, since it is by far the most frequent.

    The worker is named, for the end is welcome late: then nobody holds the task any more.
    """
    sets = {"error": None, "orders": (), "worker": worker}
    return effect(state, "complete", sets, ending="done")


def _fields_cleared(state: State, to: State) -> dict[str, Any]:
    """Return the fields that a change from one state to another clears."""
    cleared: dict[str, Any] = {}
    if to == state:
        return cleared
    if to in QUEUED:
        cleared |= dict.fromkeys(_HELD_BY_NOBODY)
    if to == "started":
        cleared["start_before"] = None
    if state == "started":
        cleared["paused"] = False
    if state in FINISHED and to not in FINISHED:
        cleared |= dict.fromkeys(_HAS_NOT_ENDED)
    return cleared


def _moment(to: State) -> Literal["started_at", "finished_at"] | None:
    if to == "started":
        return "started_at"
    return "finished_at" if to in FINISHED else None


def _attempt_news(
    state: State, to: State, ending: Ending | None, fields: Mapping[str, Any]
) -> AttemptNews | None:
    """Return what the change says of the attempt; None if it says nothing, or there is none."""
    if state not in RUNNING:
        return None
    if ending is not None:
        return AttemptNews(ending=ending, error=fields.get("error"))
    return AttemptNews(pid=fields.get("pid")) if to == "started" != state else None
