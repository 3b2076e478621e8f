"""The names and forms of what is in a run directory: see `docs/reference/run-directory.md`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

JSON_LIMIT_BYTES = 16_000_000
_BLOCK_BYTES = 4096
"""Orders fill whole blocks, so that one that was read can hold the next when the disk is full."""
TASK_PART = "task"
"""The part of a run directory that the task has."""
FILES_PART = "files"
"""Where in that part the files are that came along with the task."""
NEW, GONE = ".new.", ".gone."
"""How the name begins of one that is being made, and of one that is being removed."""
REFUSED_RESULT_FILE = "result.refused"
"""A result that the store would not take. It stays when the rest is removed."""


def read_object(read: Callable[[], bytes]) -> dict[str, Any] | None:
    """Read a JSON object; None if there is none that can be read."""
    try:
        content = json.loads(read())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def in_blocks(words: bytes) -> bytes:
    """Pad with spaces to whole blocks, which no reader of JSON minds."""
    return words.ljust(max(1, -(-len(words) // _BLOCK_BYTES)) * _BLOCK_BYTES)


def signature(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when the file is replaced; None if there is nothing."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
