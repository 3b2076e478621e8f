"""Removing run directories: whole, or all but a result that the store refused."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from stayer.worker import remove_later, remove_tree, safe_files
from stayer.worker.run_layout import (
    GONE,
    JSON_LIMIT_BYTES,
    REFUSED_RESULT_FILE,
    TASK_PART,
    read_object,
)

_REFUSED_OWNER_FILE = "refused.json"
_HASHED_NAME_PREFIX = "%"
"""How the name of a run directory begins that is not the task's id."""


def put_away(folder: Path) -> Callable[[], None]:
    """Free the name of a run directory, and return what removes it, but for a result that the store
    refused.
    """
    if find_refused_result(folder) is not None:
        return partial(strip, folder)
    return partial(_remove, _rename(folder))


def discard(folder: Path) -> None:
    """Remove a run directory with all that is in it."""
    _remove(_rename(folder))


def _remove(folder: Path | None) -> None:
    if folder is not None:
        remove_later.remove(folder)


def _rename(folder: Path) -> Path | None:
    """Give it another name, and return that: what is left when its removal is cut short is known to
    be of no use. None if there is nothing.
    """
    gone = folder.with_name(f"{GONE}{folder.name}.{time.monotonic_ns()}")
    try:
        folder.rename(gone)
    except FileNotFoundError:
        return None
    except OSError:  # a full disk may have no room for a name: then as it is
        return folder
    return gone


def find_refused_result(folder: Path) -> Path | None:
    """Return the result in it that the store refused, if there is one."""
    paths = (folder / TASK_PART / REFUSED_RESULT_FILE, folder / REFUSED_RESULT_FILE)
    return next((path for path in paths if safe_files.stat_file(path) is not None), None)


def strip(folder: Path) -> None:
    """Leave a refused result alone in its folder, with a word whose it is."""
    whose = task_of(folder)
    if whose is not None and not (folder / _REFUSED_OWNER_FILE).exists():
        safe_files.write(folder / _REFUSED_OWNER_FILE, json.dumps({"id": whose}).encode())
    remove_later.remove_in_background(folder, partial(_strip, folder))


def _strip(folder: Path, steps: Iterator[int]) -> bool:
    for path in _list_other_files(folder):
        if find_refused_result(folder) is None:
            return True  # by now it is another's
        if next(steps, None) is None:
            return False
        # Something that can't be removed keeps nothing else from being so.
        if not remove_tree.remove(path, steps) and next(steps, None) is None:
            return False
    return True


def _list_other_files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name == TASK_PART and path.is_dir() and not path.is_symlink():
            yield from (each for each in path.iterdir() if each.name != REFUSED_RESULT_FILE)
        elif path.name not in (REFUSED_RESULT_FILE, _REFUSED_OWNER_FILE):
            yield path


def task_of(folder: Path) -> str | None:
    """Return the id of the task whose run directory this is, or was; None if it can't be told."""
    about = read_object(lambda: safe_files.read(folder / "task.json", JSON_LIMIT_BYTES)) or {}
    about = (
        about.get("task")
        or read_object(lambda: safe_files.read(folder / _REFUSED_OWNER_FILE, JSON_LIMIT_BYTES))
        or {}
    )
    if isinstance(about, dict) and isinstance(about.get("id"), str):
        return str(about["id"])
    name = folder.name.rpartition(".")[0]
    return name if name and not name.startswith(_HASHED_NAME_PREFIX) else None
