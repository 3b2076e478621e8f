"""The state directories that workers on this machine use unless told otherwise."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stayer.config import Config


def default_state_dir(*, threads: bool = False) -> Path:
    """Return where a worker keeps its state if neither a flag nor a file says."""
    home = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    return home / "stayer" / ("threads" if threads else "worker")


def state_dir_in_file(config: Config) -> Path | None:
    """Return what the table [worker] of stayer.toml says of it."""
    named = config.worker.get("state_dir")
    return Path(named) if named else None
