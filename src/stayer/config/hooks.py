"""What a file says of hooks and notices, checked when it is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stayer.core.errors import BadConfig, BadInput


def read_hooks(path: Path, in_file: Mapping[str, object]) -> dict[str, Any]:
    """Read the tables `[notices]` and `[hooks.NAME]`, as they are written; paths are the file's."""
    rules, found = in_file.get("notices", {}), in_file.get("hooks", {})
    if not rules and not found:
        return {}
    from stayer.core.notify import hooks  # few have any, and all would pay

    if not isinstance(rules, dict):
        raise BadConfig(f"{path}: notices is not a table: write [notices], its settings below")
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise BadConfig(f"{path}: hooks: write [hooks.NAME] before what a hook is")
    try:
        read = hooks.read_rules(rules)
        for setting in ("worker_lost", "late", "no_progress"):
            for name in getattr(read, setting):
                if name not in found:
                    known = ", ".join(found) or "none"
                    raise BadInput(f"{setting}: no hook is called {name!r}: there are {known}")
    except BadInput as error:
        raise BadConfig(f"{path}: notices.{error}") from None
    for name, table in found.items():
        try:
            hooks.read_hook(name, table)
        except BadInput as error:
            raise BadConfig(f"{path}: hooks.{name}: {error}") from None
    return {
        "notices": _placed(path, rules),
        "hooks": {name: _placed(path, table) for name, table in found.items()},
    }


def _placed(path: Path, table: dict[str, Any]) -> dict[str, Any]:
    placed: dict[str, Any] = {
        name: str(path.parent / os.path.expanduser(table[name]))
        for name in ("secret_file", "password_file")
        if name in table
    }
    return {**table, **placed}
