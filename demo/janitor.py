"""Cleans up after the demo, however that ends: also by kill -9.

It is a process of its own that waits for the end of its standard input, which the kernel brings
when the demo is gone. Then it kills whatever still works in the demo's folder, and removes it.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path


def main() -> None:
    """Wait for the demo to end, then clean up."""
    folder = sys.argv[1]
    sys.stdin.buffer.read()
    while kill_all_in(folder):
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


def kill_all_in(folder: str) -> int:
    """Kill every process that has to do with a folder; how many there were."""
    found = [
        pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_in(pid, folder)
    ]
    for pid in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def _is_in(pid: int, folder: str) -> bool:
    """Whether a process names the folder in its arguments or environment, or works there."""
    if pid == os.getpid():
        return False
    process = Path("/proc", str(pid))
    word = folder.encode()
    for file in ("cmdline", "environ"):
        with suppress(OSError):
            if word in (process / file).read_bytes():
                return not _is_zombie(process)
    with suppress(OSError):
        return os.readlink(process / "cwd").startswith(folder)
    return False


def _is_zombie(process: Path) -> bool:
    with suppress(OSError):
        return (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


if __name__ == "__main__":
    main()
