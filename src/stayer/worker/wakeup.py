"""What wakes the worker's loop: other threads, signals, and keepers that end."""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from stayer.worker.renames import Renames


class Bell:
    """A place to sleep that others can ring."""

    def __init__(self) -> None:
        self._hear, self._rope = os.pipe()
        self._selector = selectors.DefaultSelector()
        for descriptor in (self._hear, self._rope):
            os.set_blocking(descriptor, False)
        self._selector.register(self._hear, selectors.EVENT_READ)
        self._renames: Renames | None = None

    def ring(self) -> None:
        """Wake the sleeper, from any thread."""
        with suppress(BlockingIOError):
            os.write(self._rope, b"\0")

    def ring_on_signals(self) -> None:
        """Let signals wake it too."""
        signal.set_wakeup_fd(self._rope, warn_on_full_buffer=False)

    def ring_when(self, descriptor: int | None) -> None:
        """Let this descriptor wake it, once."""
        if descriptor is not None and descriptor not in self._selector.get_map():
            self._selector.register(descriptor, selectors.EVENT_READ)

    def forget(self, descriptor: int | None) -> None:
        """Stop watching a descriptor that will be closed."""
        if descriptor is not None and descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)

    def ring_when_written(self, folder: Path, names: Iterable[str]) -> bool:
        """Let it wake that a file of one of these names is put there, from now on, and no other;
        False if that can't be heard here, and has to be looked for.
        """
        if self._renames is None:
            try:
                self._renames = Renames()
            except OSError:  # the user may have no more of them
                return False
            self._selector.register(self._renames.descriptor, selectors.EVENT_READ)
        return self._renames.watch(folder, names)

    def sleep(self, timeout: float) -> None:
        """Sleep until it rings, or the time is over."""
        end = time.monotonic() + timeout
        while not self._rings(end - time.monotonic()) and time.monotonic() < end:
            pass

    def _rings(self, timeout: float) -> bool:
        rings = False
        for key, _ in self._selector.select(max(0.0, timeout)):
            if self._renames is not None and key.fd == self._renames.descriptor:
                rings |= self._renames.read_news()
                continue
            rings = True
            if key.fd == self._hear:
                with suppress(BlockingIOError):
                    os.read(self._hear, 4096)
            else:
                self._selector.unregister(key.fd)
        return rings
