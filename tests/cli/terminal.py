"""A terminal in which a command runs, and somebody who reads and types."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
from types import TracebackType
from typing import Any, Self

from tests.cli.running import Apart


class Terminal:
    """Runs the command with a screen of this size; `screen=False` pipes its stdout elsewhere."""

    def __init__(
        self, apart: Apart, *arguments: str, width: int = 80, height: int = 24, **options: Any
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
        environment = {"TERM": "xterm-256color", **options.pop("environment", {})}
        self.process: subprocess.Popen[str] = apart.start(
            *arguments,
            environment=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            **{**streams, **options},
        )
        os.close(theirs)
        self.text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def until(self, text: str) -> None:
        """Read until the screen has shown this since the last time."""
        seen = len(self.text)
        while text not in self.text[seen:]:
            assert self._more(), f"the command ended without {text!r}: {self.text}"

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._ours, text.encode())

    def echoes(self) -> bool:
        """Whether it shows what is typed, line by line, as a shell wants it."""
        wanted = termios.ECHO | termios.ICANON
        return bool(termios.tcgetattr(self._ours)[3] & wanted == wanted)

    def press_until(self, keys: str, text: str) -> None:
        """Press these keys, again and again as people do, until the screen shows the text.

        Python misses a signal that comes just before it blocks.
        """
        seen = len(self.text)
        while text not in self.text[seen:]:
            self.type(keys)
            while text not in self.text[seen:] and self._has_more():
                assert self._more(), f"the command ended without {text!r}: {self.text}"

    def _has_more(self) -> bool:
        """Whether it prints something within two seconds."""
        poll = select.poll()  # which takes descriptors of any number
        poll.register(self._ours, select.POLLIN)
        return bool(poll.poll(2000))

    def interrupt(self) -> int:
        """Press Ctrl-C, again and again as people do, until it has ended; its exit code.

        Python misses a signal that comes just before it blocks.
        """
        while True:
            self.type("\x03")
            while self._has_more():
                if not self._more():
                    return self.end()

    def end(self) -> int:
        """Read to the end; its exit code."""
        while self._more():
            pass
        return self.process.wait()

    def _more(self) -> bool:
        try:
            piece = os.read(self._ours, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # that is how a terminal ends
                raise
            return False
        self.text += piece.decode()
        return bool(piece)
