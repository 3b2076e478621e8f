"""Running uv, git and podman: what they print goes to the log, and a failure has their words."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from .cache import Lock

_WORDS_BYTES = 16_000
_MESSAGE_CHARACTERS = 4_000
_LOOK_S = 1.0
_PASSING = re.compile(
    r"error sending request|failed to fetch|connection (?:refused|reset|aborted|timed out|closed)"
    r"|dns error|name or service not known|temporary failure|could not resolve host"
    r"|network is unreachable|no route to host|timed? ?out|operation timed out"
    r"|unable to access|could not read from remote repository|early eof|unexpected disconnect"
    r"|no such file or directory \(os error 2\)|not a git repository: '"
    r"|no such host|server misbehaving|toomanyrequests|unexpected eof"
    r"|(?:status|error:?) (?:code )?\(?(?:429|5\d\d)\b|no space left on device|disk quota",
    re.IGNORECASE,
)
"""Words of trouble that may be over when it is tried again: network, server, disk, and a cache that
somebody has deleted meanwhile.
"""
_CREDENTIALS = re.compile(r"(://)[^/@\s]+@")


class Unprepared(Exception):
    """The code of the task can't be had; `passing`: perhaps later; `is_printed`: these are words
    that a program has printed, so the log has them.
    """

    def __init__(self, message: str, *, passing: bool = False, is_printed: bool = False) -> None:
        super().__init__(message)
        self.passing = passing
        self.is_printed = is_printed


class Programs:
    """These, with the variables that are for them alone, and the time that all of it may take."""

    def __init__(
        self,
        variables: Mapping[str, str],
        time_limit: float,
        output: int = 1,
    ) -> None:
        """`output` is the descriptor that all they print goes to."""
        self._output = output
        self._variables = dict(variables)
        self._until = time.monotonic() + time_limit
        self._time_limit = time_limit
        self._secrets = [part for value in variables.values() for part in _secrets(value)]
        self._locks: list[Lock] = []

    @contextmanager
    def under(self, lock: Lock) -> Iterator[None]:
        """Let what is run meanwhile hold this lock, too, until the last of its processes is gone;
        and let whoever waits for it see that something goes on.
        """
        self._locks.append(lock)
        try:
            yield
        finally:
            self._locks.remove(lock)

    def check_time(self) -> None:
        """Show life, and raise Unprepared if all of it has taken too long."""
        for lock in self._locks:
            lock.show_life()
        if time.monotonic() > self._until:
            raise Unprepared(
                f"it took longer than the {self._time_limit:g} seconds that it may take",
                passing=True,
            )

    def say(self, text: str) -> None:
        """Print something beside what they print."""
        say(text, self._output)

    def run(
        self, words: Sequence[str], *, cwd: str, variables: Mapping[str, str] | None = None
    ) -> str:
        """Run one to its end and return what it printed; Unprepared if it fails."""
        printed, code = self._run(words, cwd, {**self._variables, **(variables or {})})
        if code == 0:
            return printed
        if code < 0:
            raise Unprepared(
                f"{os.path.basename(words[0])} was killed by "
                f"{signal.Signals(-code).name}: {_message(printed)}",
                passing=True,
            )
        passing = _PASSING.search(printed) is not None
        raise Unprepared(_message(printed), passing=passing, is_printed=True)

    def _run(self, words: Sequence[str], cwd: str, variables: dict[str, str]) -> tuple[str, int]:
        try:
            process = subprocess.Popen(
                words,
                cwd=cwd,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[lock.descriptor for lock in self._locks],
            )
        except OSError as error:
            raise Unprepared(f"{words[0]} can't be run: {error.strerror}", passing=True) from None
        assert process.stdout is not None
        printed = b""
        with process, process.stdout as output:
            while True:
                try:
                    self.check_time()
                except Unprepared:
                    process.kill()
                    raise
                if not select.select([output], [], [], _LOOK_S)[0]:
                    continue
                piece = os.read(output.fileno(), 65536)
                if not piece:
                    break
                printed = (printed + piece)[-_WORDS_BYTES * 4 :]
                self.say(self._without_secrets(piece.decode(errors="replace")))
            code = process.wait()
        return self._without_secrets(printed.decode(errors="replace")), code

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return _CREDENTIALS.sub(r"\1***@", text)


def say(text: str, output: int = 1) -> None:
    """Print to the log of the task, or to another descriptor."""
    data = text.encode(errors="replace")
    while data:
        data = data[os.write(output, data) :]


def find_uv(path: str | None = None) -> str | None:
    """Find the one that was installed with Stayer, else the one of the PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    return beside if os.access(beside, os.X_OK) else shutil.which("uv", path=path)


def _secrets(value: str) -> list[str]:
    """Find the parts of addresses that nobody is to read: user name and password."""
    found = re.findall(r"://([^/@\s]+)@", value)
    return [part for each in found for part in (each, each.partition(":")[2]) if len(part) > 3]


def _message(printed: str) -> str:
    """Return the part that says what went wrong."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", printed).strip()
    began = re.search(r"^(?:error|fatal):? ?", text, re.MULTILINE | re.IGNORECASE)
    return (text[began.end() :] if began else text)[-_MESSAGE_CHARACTERS:] or "no message"
