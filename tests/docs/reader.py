"""Somebody who does what a page says: saves its files, types its commands, in two terminals."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.docs.pages import PATIENCE, Block, Step, steps

LOOKING = (
    "stayer ls",
    "stayer show",
    "stayer flow show",
    "stayer log",
    "stayer workers",
    "stayer notices",
    "tail",
)
"""A reader who does not see it yet looks again."""
HERS = ("laptop", "left", "ago", "just", "now")
"""Words that may differ for the reader."""

_PROGRAMS = {
    "stayer": f'exec "{sys.executable}" -m stayer "$@"',
    "python3": f'exec "{sys.executable}" "$@"',
    "sqlite3": f'exec "{sys.executable}" -c \'import sqlite3, sys\n'
    "with sqlite3.connect(sys.argv[1]) as connection:\n"
    '    connection.executescript(sys.argv[-1])\' "$@"',
    "sleep": 'exec /bin/sleep "$(awk "BEGIN { print $1 / 10 }")"',
}
"""`stayer` and Python are those of the test, and an hour of sleep is six minutes."""


class Reader:
    """Has a home of her own, and a worker in her second terminal."""

    def __init__(self, home: Path) -> None:
        self.folder = home
        self._home = home
        self._programs = home / "programs"
        self._worker: subprocess.Popen[bytes] | None = None
        self._log = home / "second-terminal"
        self._pids: dict[str, str] = {}
        self._programs.mkdir()
        for name, script in _PROGRAMS.items():
            program = self._programs / name
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the tester's own settings."""
        foreign = ("STAYER_", "PYTEST_")
        kept = {name: os.environ[name] for name in os.environ if not name.startswith(foreign)}
        return {
            **kept,
            "HOME": str(self._home),
            "XDG_DATA_HOME": str(self._home / "data"),
            "XDG_STATE_HOME": str(self._home / "state"),
            "XDG_CONFIG_HOME": str(self._home / "config"),
            "PATH": f"{self._programs}:{os.environ['PATH']}",
            "TZ": "UTC",  # as on the pages
            "PYTHONWARNINGS": "error",
            "COLUMNS": "200",
            "NO_COLOR": "1",
        }

    def follow(self, block: Block) -> None:
        """Do what one block says."""
        if block.language in ("sh", "python"):
            (self.folder / block.title).write_text(block.code)
        elif block.language == "toml":
            with open(self.folder / "stayer.toml", "a", encoding="utf-8") as file:
                file.write(block.code)
        elif block.title == "second terminal":
            for step in steps(block):
                self._type_second(step)
        else:
            assert block.language == "console", block
            for step in steps(block):
                self._type(step)

    def run(self, command: str, expected: int = 0) -> str:
        """What a command prints."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == expected, (command, done.stdout)
        return done.stdout

    def start(self, *command: str, log: Path | None = None) -> subprocess.Popen[bytes]:
        """A program that goes on; for the caller to end."""
        with open(log or self._log, "wb") as output:
            return subprocess.Popen(
                [sys.executable, *command],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def leave(self) -> None:
        """End the worker, and what a failed test left running: a keeper ends its task when its
        run directory is gone.
        """
        if self._worker is not None:
            self._worker.send_signal(signal.SIGQUIT)
            with suppress(subprocess.TimeoutExpired):
                self._worker.wait(PATIENCE)
            self._worker.kill()
            self._worker.wait(PATIENCE)
        shutil.rmtree(self._home / "state", ignore_errors=True)

    def _type(self, step: Step) -> None:
        command = step.command
        if command.startswith("cd "):
            self.folder = self.folder / command.removeprefix("cd ")
            return
        for shown, real in self._pids.items():
            command = command.replace(shown, real)
        expected = 3 if command == "stayer wait forever" else 0
        deadline = time.monotonic() + PATIENCE
        while missing(step.output, printed := self.run(command, expected)):
            assert command.startswith(LOOKING), (command, printed)
            assert time.monotonic() < deadline, (missing(step.output, printed), printed)
            time.sleep(0.1)
        if command == "stayer workers":
            self._note_pid(step.output, printed)

    def _note_pid(self, expected: str, printed: str) -> None:
        """The reader puts her number in the place of that of the page."""
        worker_id = re.compile(r"\S+\.(\d+)\.\d+\.\d+ ")
        [shown], [real] = worker_id.findall(expected), worker_id.findall(printed)
        assert self._worker is not None
        assert int(real) == self._worker.pid
        self._pids[shown] = real

    def _type_second(self, step: Step) -> None:
        if step.command == "^C":
            self._interrupt()
            return
        if self._worker is not None:
            assert self._worker.wait(PATIENCE) == -signal.SIGKILL
        self._worker = self.start("-m", *shlex.split(step.command))
        deadline = time.monotonic() + PATIENCE
        while missing(step.output, printed := self._log.read_text()):
            assert self._worker.poll() is None, printed
            assert time.monotonic() < deadline, (step, printed)
            time.sleep(0.05)

    def _interrupt(self) -> None:
        assert self._worker is not None
        self._worker.send_signal(signal.SIGINT)
        assert self._worker.wait(PATIENCE) == 0, self._log.read_text()
        self._worker = None


def missing(expected: str, printed: str) -> set[str]:
    """What the page promises and the reader does not see."""
    return _essence(expected) - _essence(printed)


def _essence(said: str) -> set[str]:
    """The words that any reader sees."""
    words = re.split(r"[\s,]+", said)
    return {word for word in words if word and not re.search(r"\d|://", word)} - {*HERS}
