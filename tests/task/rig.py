"""Playing worker and keeper: a run directory, the variables, and the runner in a real process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from stayer.core import codec
from stayer.core.model import Task, Value
from stayer.worker.run_directory import Run

PATIENCE = 60


class Rig:
    """One task, and the folder with its code."""

    def __init__(self, folder: Path) -> None:
        self.code = folder / "code"
        self.code.mkdir()
        self.attempt = 0
        self._runs = folder / "run"

    @property
    def folder(self) -> Path:
        """The run directory of the last attempt."""
        return self._runs / f"task.{self.attempt}"

    def write(self, name: str, source: str) -> str:
        """A file of the user's; its path."""
        path = self.code / name
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return str(path)

    def prepare(self, parameters: Value = None, name: str | None = None) -> dict[str, str]:
        """The run directory of the next attempt, which finds the last one's checkpoint."""
        before = self.folder / "checkpoint"
        self.attempt += 1
        self.folder.mkdir(parents=True)
        if before.exists():
            (self.folder / "checkpoint").write_bytes(before.read_bytes())
        task = Task(
            id="task", queue="q", name=name, parameters=parameters, attempt=self.attempt,
            state="reserved", tags=("x",), created=1_700_000_000.5,
        )  # fmt: skip
        content = {"task": codec.record(task), "worker": "w", "attempt": self.attempt, "keeper": {}}
        (self.folder / "task.json").write_text(json.dumps(content))
        files = {f"STAYER_{file.upper()}": str(self.folder / file)
                 for file in ("report", "checkpoint", "result")}  # fmt: skip
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("STAYER_")},
            **files,
            "STAYER_TASK_ID": "task",
            "STAYER_ATTEMPT": str(self.attempt),
            "STAYER_DIR": str(self.folder),
        }

    def start(
        self, kind: str, target: str, parameters: Value = None, name: str | None = None
    ) -> subprocess.Popen[str]:
        """The runner, as a keeper starts it, but with its output on a pipe."""
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "stayer.task", kind, target],
            env=self.prepare(parameters, name),
            cwd=self.code,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )

    def run(
        self, kind: str, target: str, parameters: Value = None, name: str | None = None
    ) -> Ended:
        return self.end(self.start(kind, target, parameters, name))

    def end(self, process: subprocess.Popen[str]) -> Ended:
        """Wait until it has ended."""
        with process:
            log, _ = process.communicate(timeout=PATIENCE)
        return Ended(self.folder, process.returncode, log)

    def run_class(self, source: str, parameters: Value = None) -> Ended:
        """A class in a file."""
        return self.run("class", self.write("work.py", source), parameters)

    def run_app(self, source: str, name: str, parameters: Value = None) -> Ended:
        """A function of an app."""
        self.write("jobs.py", APP + textwrap.dedent(source))
        return self.run("app", "jobs", parameters, f"jobs.{name}")


APP = "import stayer\nfrom stayer import App, Context\napp = App('sqlite:////nowhere/stayer.db')\n"


class Ended:
    """What a task left behind."""

    def __init__(self, folder: Path, code: int, log: str) -> None:
        self.folder = folder
        self.code = code
        self.log = log

    @property
    def result(self) -> Any:
        """The result of a task that went well."""
        assert self.code == 0, self.log
        assert not (self.folder / "error").exists()
        return Run(self.folder).result()

    @property
    def error(self) -> dict[str, str]:
        """What a task that failed says of it."""
        assert self.code == 1, self.log
        assert not (self.folder / "result").exists()
        content: dict[str, str] = json.loads((self.folder / "error").read_text())
        return content

    @property
    def reports(self) -> list[dict[str, Any]]:
        lines = (self.folder / "report").read_text().splitlines()
        return [json.loads(line) for line in lines]
