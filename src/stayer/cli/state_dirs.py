"""The state directories that workers on this machine use unless told otherwise."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stayer.config import Config


_DIGEST_LENGTH = 12


def default_state_dir(store: str | None, *, threads: bool = False) -> Path:
    """Return where a worker of the store of this identity keeps its state if neither a flag nor a
    file says. Workers of two stores never meet: the second has a directory with a longer name, and
    keeps it.
    """
    from stayer.worker.state_directory import belongs_to_another

    usual = _home() / ("threads" if threads else "worker")
    if store is None:
        return usual
    own = usual.with_name(f"{usual.name}-{sha256(store.encode()).hexdigest()[:_DIGEST_LENGTH]}")
    return own if own.exists() or belongs_to_another(usual, store) else usual


def default_state_dirs() -> list[Path]:
    """Return all that workers of this user have without saying so, of any store."""
    names = ("worker", "threads")
    return [each for name in names for each in sorted([*_home().glob(f"{name}*")])]


def _home() -> Path:
    home = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    return home / "stayer"


def state_dir_in_file(config: Config) -> Path | None:
    """Return what the table [worker] of stayer.toml says of it."""
    named = config.worker.get("state_dir")
    return Path(named) if named else None
