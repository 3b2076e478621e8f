"""Making a run directory: all that keeper and task need, before either of them is there."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stayer.core import codec
from stayer.core.code import check_clashes, check_file_name
from stayer.core.model import JSON, SentFile, Task, Value
from stayer.worker import safe_files
from stayer.worker.run_layout import FILES_PART, TASK_PART, in_blocks, signature

_INLINE_INPUTS_BYTES = 1_000_000
"""Inputs that are longer are not in `task.json`, which is read often, but in their file alone."""


def make(
    new: Path,
    task: Task,
    keeper: dict[str, Any],
    checkpoint: bytes | None,
    inputs: dict[str, JSON] | None,
    code: dict[str, Any] | None,
    files: Sequence[tuple[SentFile, bytes]],
) -> None:
    """Make all of a run directory. The task's part becomes its user's last of all."""
    user = keeper.get("user")
    new.mkdir(mode=0o700)
    part = new / TASK_PART
    part.mkdir(mode=0o700)
    given = _give(part, task, checkpoint, inputs)
    if code is not None:
        safe_files.write(part / "code.json", json.dumps(code).encode())
    if files:
        _put_files(part / FILES_PART, files)
    safe_files.write(new / "go", in_blocks(b"{}"))
    safe_files.write(new / "go.spare", in_blocks(b""))
    content = {
        "given_checkpoint": given,
        "task": {"id": task.id, "queue": task.queue},
        "worker": task.worker,
        "attempt": task.attempt,
        "keeper": keeper,
    }
    safe_files.write(new / "task.json", json.dumps(content).encode())
    if user:
        for path in (*part.rglob("*"), part):
            os.chown(path, user["uid"], user["gid"], follow_symlinks=False)
        new.chmod(0o711)


def _put_files(folder: Path, files: Sequence[tuple[SentFile, bytes]]) -> None:
    """Write the files that came along. Their names come from the store: each is checked again."""
    folder.mkdir(mode=0o700)
    check_clashes(file.name for file, _ in files)
    for file, data in files:
        path = folder / check_file_name(file.name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        safe_files.write(path, data)
        if file.executable:
            path.chmod(0o700)


def _give(
    part: Path, task: Task, checkpoint: bytes | None, inputs: dict[str, JSON] | None
) -> object:
    """Write what the task is to find; what tells the checkpoint from one that it writes itself."""
    safe_files.write(part / "input", _raw(task.parameters))
    if checkpoint is not None:
        safe_files.write(part / "checkpoint", checkpoint)
    written = codec.encode(inputs or {})
    if inputs is not None:
        safe_files.write(part / "inputs", written.encode())
    about = {
        "task": codec.record(task),
        "inputs": inputs if len(written) <= _INLINE_INPUTS_BYTES else None,
        "worker": task.worker,
        "attempt": task.attempt,
    }
    safe_files.write(part / "task.json", json.dumps(about).encode())
    return signature(part / "checkpoint")


def _raw(parameters: Value) -> bytes:
    """Return parameters as a program reads them: JSON text, or the bytes themselves."""
    if isinstance(parameters, bytes):
        return parameters
    return b"" if parameters is None else codec.encode(parameters).encode()
