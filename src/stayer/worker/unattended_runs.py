"""What runs, or stands still, in a state directory that no worker has: for `stayer doctor`."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from stayer.worker.run_directory import Run
from stayer.worker.state_directory import lock_holders


class UnattendedRun(Struct, frozen=True):
    """A run with a keeper and no worker."""

    task: str
    is_frozen: bool
    folder: Path


def list_unattended(state: Path) -> list[UnattendedRun]:
    """List all runs of a state directory; none while a worker looks after it. Changes nothing."""
    try:
        if lock_holders(os.stat(state / "lock").st_ino):
            return []
        folders = sorted((state / "run").iterdir())
    except OSError:
        return []
    return [_describe(run) for run in map(Run, folders) if run.has_keeper()]


def _describe(run: Run) -> UnattendedRun:
    status = run.process_status or {}
    try:
        task = str(run.description["task"]["id"])
    except (OSError, ValueError, KeyError, TypeError):
        task = run.folder.name
    return UnattendedRun(task, "fenced" in status.get("stopped", ()), run.folder)
