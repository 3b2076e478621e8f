"""Comparing what runs here with what the store says this worker holds."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from stayer.core.happenings import Interrupt
from stayer.core.lifecycle import decide
from stayer.core.model import Task
from stayer.service.degraded.partial import held_by
from stayer.service.lease.heartbeat import moment
from stayer.store import Store
from stayer.worker.attempt import HeldAttempt
from stayer.worker.attempts import HeldAttempts
from stayer.worker.orphans import sweep_strays
from stayer.worker.state_directory import StateDirectory

logger = logging.getLogger("stayer.worker")


def reconcile(
    store: Store,
    state: StateDirectory,
    holdings: HeldAttempts,
    queues: Sequence[str] = (),
    *,
    may_be_frozen: bool = False,
) -> None:
    """Compare with the store: what we run and don't hold is killed, what we hold and don't run is
    handed back, and what was frozen may go on: the store has just confirmed that it is ours.
    `may_be_frozen`: also what does not say that it is, for a full disk keeps a keeper from saying
    so. Of queues that can't be reached, while others (of these, and of what runs) can be, nothing
    is believed.
    """
    fenced = holdings.list_fenced()
    names = {*queues, *(held.task.queue for held in holdings.ours())}
    # The answer is of a moment after this one. Taken when it is here, it could be an hour later:
    # the machine may sleep while we wait for it.
    confirmed = moment()
    found = held_by(store, state.worker_id, names)
    theirs = {(task.id, task.attempt): task for task in found.tasks}
    for held in holdings.ours():
        is_gone = held.key not in theirs and found.covers(held.task.queue)
        if is_gone and not held.lost and not held.run.has_ended():
            logger.warning("task %s is no longer ours: killing it", held.task.id)
            held.end_as_lost()
    for held in holdings.ours() if may_be_frozen else fenced:
        if held.key in theirs:
            held.ask(thaw=confirmed)
    for key, task in theirs.items():
        if key not in holdings:
            _find_or_hand_back(store, state, holdings, task)


def _find_or_hand_back(
    store: Store, state: StateDirectory, holdings: HeldAttempts, task: Task
) -> None:
    run = state.run_for(task)
    if run.has_ended() or run.has_keeper() or run.keeper_lives():
        holdings.take_up(HeldAttempt(task, run))
    elif run.void() and sweep_strays(run.folder):
        if run.has_ended():  # while we looked
            holdings.take_up(HeldAttempt(task, run))
            return
        logger.warning("task %s was not found here: handed back", task.id)
        store.commit([decide(task, Interrupt("not found on its node"))])
        run.remove()
