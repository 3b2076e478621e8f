"""Removing what may be much without keeping the worker's loop from its tasks.

A task may leave a few files or a million. What is little goes at once; the rest goes in a thread,
one thing after another. Nothing depends on it: what a kill leaves is removed by the next worker.
"""

from __future__ import annotations

import logging
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from stayer.worker import remove_tree

logger = logging.getLogger("stayer.worker")

_LONGEST_RUN_S = 60.0
"""How long a command that removes something may take."""
IN_PASSING = 1_000
"""How many files and folders are removed at once."""

Removal: TypeAlias = Callable[[Iterator[int]], bool]
"""Removes something in so many steps; False if something stays."""


class _Remover:
    """A thread that is there once it is needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[tuple[Path, Removal]] = queue.SimpleQueue()
        self._known: set[Path] = set()
        self._has_thread = False

    def has(self, path: Path) -> bool:
        with self._lock:
            return path in self._known

    def put(self, path: Path, removal: Removal) -> None:
        with self._lock:
            self._known.add(path)
            self._waiting.put((path, removal))
            if not self._has_thread:
                thread = threading.Thread(target=self._run, name="removal", daemon=True)
                try:
                    thread.start()
                except (RuntimeError, MemoryError) as error:  # the next one may begin it
                    logger.warning("%s is removed later: %s", path, error)
                else:
                    self._has_thread = True

    def _run(self) -> None:
        while True:
            path, removal = self._waiting.get()
            try:
                removal(count())
            except FileNotFoundError:
                pass  # somebody else was faster
            except Exception:  # others wait behind it
                logger.exception("%s is removed later", path)
            with self._lock:
                self._known.discard(path)


_REMOVER = _Remover()


def remove_in_background(path: Path, removal: Removal) -> None:
    """Remove something now if it is little, else as much as may be, and the rest in a thread."""
    if _REMOVER.has(path):
        return
    steps = iter(range(IN_PASSING))
    if not removal(steps) and next(steps, None) is None:  # else it can't be removed at all
        _REMOVER.put(path, removal)


def remove(path: Path) -> None:
    """Remove whatever is there, as `remove_tree.remove` does, without keeping the caller."""
    remove_in_background(path, lambda steps: remove_tree.remove(path, steps))


def run(
    folder: Path, words: Sequence[str], variables: Mapping[str, str], user: Mapping[str, Any] | None
) -> None:
    """Run a command that removes what belongs to this folder elsewhere, as this user, without
    keeping the caller.
    """
    as_user: dict[str, Any] = (
        {"user": user["uid"], "group": user["gid"], "extra_groups": user["groups"]} if user else {}
    )

    def removal(steps: Iterator[int]) -> bool:
        done = subprocess.run(
            words, cwd="/", env=variables, timeout=_LONGEST_RUN_S, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, **as_user,
        )  # fmt: skip
        if done.returncode:
            logger.warning("%s: %s", " ".join(words), done.stderr.strip()[-1000:])
        return True

    _REMOVER.put(folder / "elsewhere", removal)
