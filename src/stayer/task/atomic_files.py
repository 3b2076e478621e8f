"""Writing files so that a reader finds the old content or the new, whatever happens between."""

from __future__ import annotations

import os
import threading
from contextlib import suppress


def replace(path: str, data: bytes, *, sync: bool = True) -> None:
    """Replace a file at once; it is on the disk when this returns. Without `sync`, another sees to
    that.
    """
    # By process and thread, because a task may have many of both.
    temporary = f"{path}.{os.getpid()}-{threading.get_ident()}.tmp"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    if not sync:
        return
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
