"""Calling `stayer`: in this process where that is the same, in one of its own where it matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from stayer.cli.main import cli
from tests.quick_popen import QuickPopen


@dataclass
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def refuses(self, *words: str, code: int = 2) -> None:
        """One line on stderr with these words, nothing on stdout, this exit code."""
        assert (self.code, self.out) == (code, ""), self
        assert self.err.startswith("stayer: "), self
        assert self.err.count("\n") == 1, self
        assert self.err.endswith("\n"), self
        assert "Traceback" not in self.err, self
        for word in words:
            assert word in self.err, self

    def works(self, note: str = "") -> Outcome:
        """It did, and had nothing to complain of; or said this by the way."""
        assert self.code == 0, self
        assert note in self.err if note else not self.err, self
        return self


class Here:
    """Calls the command in this process."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment

    def __call__(
        self, *arguments: str, input: str | bytes | None = None, **environment: str
    ) -> Outcome:
        done = CliRunner(env={**self.environment, **environment}).invoke(
            cli, list(arguments), input=input
        )
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Outcome(done.exit_code, done.stdout, done.stderr)


class Apart:
    """Calls the command in a process of its own, as a shell does."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self.environment = environment
        self.folder = folder

    def start(
        self, *arguments: str, before: Sequence[str] = (), **options: Any
    ) -> subprocess.Popen[str]:
        """Start it; `before` is a command that starts it in turn."""
        environment = {**os.environ, **self.environment, **options.pop("environment", {})}
        streams = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        return QuickPopen(
            [*before, sys.executable, "-m", "stayer", *arguments],
            env=environment,
            cwd=self.folder,
            text=True,
            encoding="utf-8",
            **{**streams, **options},
        )

    def __call__(
        self,
        *arguments: str,
        input: str | None = None,
        before: Sequence[str] = (),
        **options: Any,
    ) -> Outcome:
        if input is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(*arguments, before=before, **options)
        out, err = process.communicate(input)
        return Outcome(process.returncode, out or "", err or "")
