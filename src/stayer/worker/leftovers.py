"""What earlier identities left in the state directory, and nobody will come for."""

from __future__ import annotations

import logging

from stayer.core.model import RUNNING
from stayer.store import Store
from stayer.worker.holdings import Holdings
from stayer.worker.run import Run
from stayer.worker.state import StateDirectory

logger = logging.getLogger("stayer.worker")


def clear_leftovers(store: Store, state: StateDirectory, holdings: Holdings) -> None:
    """Remove the run directories of attempts that the store has given up, and lease files that no
    keeper reads. What the store still lists as held waits for its burial.
    """
    ours = {held.run.folder for held in holdings}
    needed: set[str | None] = {state.worker_id, *(worker.id for worker in store.workers())}
    for run in state.runs():
        worker = _worker_of(run)
        known = worker not in (None, state.worker_id) and run.folder not in ours
        if known and not (run.is_kept() or run.has_ended() or _is_held(store, run)):
            logger.info("removing %s: the store has given it up", run.folder)
            run.remove()
        else:
            needed.add(worker)
    if None in needed:
        return  # something runs here, and which lease it goes by can't be told
    for path in state.path.glob("lease-*"):
        if state.holder_of(path) not in needed:
            path.unlink(missing_ok=True)


def _worker_of(run: Run) -> str | None:
    try:
        return str(run.about["worker"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_held(store: Store, run: Run) -> bool:
    try:
        about = run.about
        id, worker, attempt = about["task"]["id"], about["worker"], about["attempt"]
    except (OSError, ValueError, KeyError, TypeError):
        return True
    [task] = store.get([id])
    if task is None or task.state not in RUNNING:
        return False
    return (task.worker, task.attempt) == (worker, attempt)
