"""What earlier identities left in the state directory, and nobody will come for."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from stayer.core.model import RUNNING
from stayer.store import Store
from stayer.worker.attempts import HeldAttempts
from stayer.worker.refused_results import REFUSED_RESULT_KEPT_S, remove_outdated
from stayer.worker.run_directory import Run
from stayer.worker.run_removal import discard, find_refused_result, task_of
from stayer.worker.state_directory import StateDirectory

logger = logging.getLogger("stayer.worker")


def clear_leftovers(store: Store, state: StateDirectory, holdings: HeldAttempts) -> None:
    """Remove the run directories of attempts that the store has given up, what is left of others,
    and lease files that no keeper reads. What the store still lists as held waits until it is lost.
    """
    state.clear_what_was_cut_short()
    ours = {held.run.folder for held in holdings}
    _clear_remains(store, state, ours)
    needed: set[str | None] = {state.worker_id, *(worker.id for worker in store.workers())}
    for run in state.runs():
        worker = _worker_of(run)
        known = worker not in (None, state.worker_id) and run.folder not in ours
        if known and not (run.has_keeper() or run.has_ended() or _is_held(store, run)):
            logger.info("removing %s: the store has given it up", run.folder)
            run.remove()
        else:
            needed.add(worker)
    remove_outdated(store, state.path)
    if None in needed:
        return  # something runs here, and which lease it goes by can't be told
    for path in state.path.glob("lease-*"):
        if state.holder_of(path) not in needed:
            path.unlink(missing_ok=True)


def _clear_remains(store: Store, state: StateDirectory, ours: set[Path]) -> None:
    """Folders without `task.json`: an older version was cut short when it made or removed them."""
    for folder in state.run_folders():
        run = Run(folder)
        if folder in ours or (folder / "task.json").exists() or find_refused_result(folder):
            continue
        if run.has_keeper() or run.keeper_lives() or _may_be_uncommitted(store, run):
            continue
        logger.info("removing %s: it is what was left of a run directory", folder)
        run.close()
        discard(folder)


def _may_be_uncommitted(store: Store, run: Run) -> bool:
    """Return whether it says how an attempt ended that the store may still wait for."""
    ended = run.end_recorded_at()
    if ended is None:
        return False
    id, attempt = task_of(run.folder), run.folder.name.rpartition(".")[2]
    if id is None:
        return time.time() < ended + REFUSED_RESULT_KEPT_S
    [task] = store.get([id])
    return task is not None and task.state in RUNNING and str(task.attempt) == attempt


def _worker_of(run: Run) -> str | None:
    try:
        return str(run.description["worker"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_held(store: Store, run: Run) -> bool:
    try:
        about = run.description
        id, worker, attempt = about["task"]["id"], about["worker"], about["attempt"]
    except (OSError, ValueError, KeyError, TypeError):
        return True
    [task] = store.get([id])
    if task is None or task.state not in RUNNING:
        return False
    return (task.worker, task.attempt) == (worker, attempt)
