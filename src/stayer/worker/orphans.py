"""Clearing up where neither a keeper nor its nursery is left to do it."""

from __future__ import annotations

import logging
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from stayer.service.lease.heartbeat import moment
from stayer.worker.attempt import HeldAttempt
from stayer.worker.run_directory import Run

logger = logging.getLogger("stayer.worker")

_SWEEP_TIMEOUT_S = 1.0
"""How long to go on killing until nothing is left."""
_SWEEP_POLL_S = 0.005


def declare_end_for_keeper(held: HeldAttempt) -> None:
    """Declare the end where nobody else will: see that nothing is left of it, then write how it
    ended.
    """
    vanished = held.has_vanished()
    if not vanished and not held.is_abandoned():
        return
    run, has_begun = held.run, held.run.has_begun
    note = "its run directory was deleted" if vanished else "its keeper was killed"
    try:
        if run.void() and sweep_strays(run.folder):
            # What does so each time that it runs must be set aside in the end.
            lost: dict[str, Any] = {"keeper_died": None, "note": note}
            run.declare_end(lost if has_begun else {"stop": {"why": "fence", "note": note}})
    except OSError as error:
        logger.warning("of task %s nothing can be said yet: %s", held.task.id, error)


def take_back_unbegun(held: HeldAttempt) -> None:
    """Make sure that no keeper ever comes where none has, and declare that."""
    if not held.waits_in_vain():
        return
    try:
        if held.run.void() and not held.run.has_ended():
            never = {"not_started": "its nursery does not answer", "node": True}
            held.run.declare_end(never)
    except OSError as error:
        logger.warning("task %s can't be taken back yet: %s", held.task.id, error)


def is_over(run: Run) -> bool:
    """Return whether nothing of it is left here, nor will be, and it left nothing to commit."""
    try:
        # Looked at last: it may end while we look.
        return run.void() and sweep_strays(run.folder) and not run.has_ended()
    except OSError as error:
        logger.warning("something may still run in %s: %s", run.folder, error)
        return False
    finally:
        run.close()


def sweep_strays(folder: Path) -> bool:
    """Kill what carries this run directory in its environment; True: nothing is left of it.

    The last resort: a process that has cleared its environment is not found.
    """
    # What an older worker started has the folder itself.
    tags = {b"STAYER_DIR=" + os.fsencode(each) for each in (folder, Run(folder).task_folder)}
    end = moment() + _SWEEP_TIMEOUT_S
    while found := [pid for pid in _processes() if _carries(pid, tags)]:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if moment() > end:
            return False
        time.sleep(_SWEEP_POLL_S)
    return True


def _processes() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _carries(pid: int, tags: set[bytes]) -> bool:
    if pid == os.getpid():
        return False
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return not tags.isdisjoint(file.read().split(b"\0"))
    except OSError:
        return False
