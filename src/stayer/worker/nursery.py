"""The worker's side of the nursery: started when needed, asked by a line in its pipe."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

from stayer import keeper
from stayer.keeper.nursery import version

_CODE = Path(keeper.__file__).with_name("__main__.py")  # the folder would need `runpy`
_START_TIMEOUT_S = 10.0
"""How long a new nursery may take until it listens."""


class NurseryGone(Exception):
    """No nursery could be had; the task is not started."""


class Nursery:
    """The nursery of this version of the keepers' code, for one state directory."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._version = version()  # of the code as it was when this worker started
        self._fifo = state / f"nursery-{self._version}.fifo"
        self._started: subprocess.Popen[bytes] | None = None

    def start(self, folder: Path) -> None:
        """Have a keeper forked for this run directory."""
        self._send(f"start {folder}\n")

    def retire(self) -> None:
        """Let all nurseries here end when their last keeper has."""
        for fifo in self._state.glob("nursery-*.fifo"):
            try:
                _write(fifo, b"retire\n")
            except OSError:
                continue

    def retire_others(self) -> None:
        """Give those of other versions no more work."""
        for fifo in self._state.glob("nursery-*.fifo"):
            if fifo != self._fifo:
                try:
                    _write(fifo, b"retire\n")
                except OSError:
                    continue

    def _send(self, line: str) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                _write(self._fifo, line.encode())
                return
            except OSError as error:
                if error.errno not in (errno.ENXIO, errno.ENOENT):
                    raise
            if time.monotonic() > deadline:
                raise NurseryGone(f"no nursery answers in {self._state}")
            self._ensure()
            time.sleep(0.005)

    def _ensure(self) -> None:
        if self._started is not None and self._started.poll() is None:
            return
        log = open(self._state / "nursery.log", "ab", opener=_private)  # noqa: SIM115
        with log:
            self._started = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_CODE), str(self._state), self._version],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                env={"PATH": os.environ.get("PATH", os.defpath)},
            )


def _private(path: str, how: int) -> int:
    return os.open(path, how | os.O_NOFOLLOW, 0o600)


def _write(fifo: Path, line: bytes) -> None:
    descriptor = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
