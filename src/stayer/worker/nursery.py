"""The worker's side of the nursery: started when needed, asked by a line in its pipe."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from stayer import keeper
from stayer.keeper.nursery import version

_CODE = Path(keeper.__file__).with_name("__main__.py")  # the folder would need `runpy`
_START_TIMEOUT_S = 10.0
"""How long a new nursery may take until it listens."""
_PRELOAD = "preload\n"


class NurseryGone(Exception):
    """No nursery could be had; the task is not started."""


class Nursery:
    """Talk to the nursery, a process of its own (`keeper/nursery.py`): start it, send it lines.

    There is one for each state directory and version of the keepers' code.
    """

    def __init__(self, state: Path) -> None:
        self._state = state
        self._version = version()  # of the code as it was when this worker started
        self._fifo = state / f"nursery-{self._version}.fifo"
        self._started: subprocess.Popen[bytes] | None = None
        self._preload = state / "preload.json"

    def preload(self, zygotes: Mapping[str, object]) -> None:
        """Have these processes import code, and fork tasks; those of before end."""
        if not zygotes and not self._preload.exists():
            return
        if zygotes:
            made = self._preload.with_suffix(".tmp")
            with open(made, "wb", opener=_private) as file:  # it holds the worker's variables
                file.truncate()
                file.write(json.dumps(zygotes).encode())
            made.replace(self._preload)
        else:
            self._preload.unlink()
        with suppress(OSError, NurseryGone):  # then it is told when a task is started
            self._send(_PRELOAD)

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
            if self._ensure() and self._preload.exists() and not line.startswith(_PRELOAD):
                line = _PRELOAD + line
            time.sleep(0.005)

    def _ensure(self) -> bool:
        """Start a nursery unless one is being started; whether that was done."""
        if self._started is not None and self._started.poll() is None:
            return False
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
        return True


def _private(path: str, how: int) -> int:
    return os.open(path, how | os.O_NOFOLLOW, 0o600)


def _write(fifo: Path, line: bytes) -> None:
    descriptor = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
