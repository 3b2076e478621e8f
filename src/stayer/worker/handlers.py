"""What a worker runs for a task: the argv, by the kind of task it is."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from msgspec import Struct

from stayer.core.errors import BadConfig
from stayer.core.model import Handles, Task
from stayer.runners.stack import STACK_SIGNAL
from stayer.worker.task_user import TaskUser, TaskUsers, try_out

_RUNNER = (sys.executable, "-P", "-m", "stayer.runners")
_SECRET = ("STAYER_STORE", "STAYER_CONFIG", "STAYER_TOKEN")


class Handlers(Struct, frozen=True, kw_only=True):
    """The configured handlers: what may run here, and nothing else."""

    exec: tuple[str, ...] | None = None
    run: str | None = None
    app: str | None = None
    names: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    schedules: tuple[dict[str, Any], ...] = ()
    """What the app declares, as `core.scheduling` reads it."""
    environment: dict[str, str] = {}
    users: TaskUsers = TaskUsers()
    """Whose processes they are."""

    @property
    def handles(self) -> Handles:
        """What to reserve."""
        plain = self.exec is not None or self.run is not None
        return Handles(plain=plain, names=self.names, programs=self.programs)

    def argv(self, task: Task) -> list[str]:
        """The process for a task."""
        if task.command is not None:
            return list(task.command)
        if task.name is not None:
            return [*_RUNNER, "app", self.app or ""]
        if self.exec is not None:
            return [*self.exec, task.id]
        return [*_RUNNER, "class", self.run or ""]

    def stack_signal(self, task: Task) -> int | None:
        """What makes the process write its stack to the log; None if it is no runner of ours."""
        is_python = task.command is None and (task.name is not None or self.exec is None)
        return STACK_SIGNAL if is_python else None

    def env(self, task: Task, folder: Path) -> dict[str, str]:
        """The process's environment: the worker's, less what opens the store, and the interface."""
        kept = {name: value for name, value in os.environ.items() if name not in _SECRET}
        if user := self.users.of(task.queue):
            kept = user.environment(kept)
        return {
            **kept,
            **self.environment,
            **(task.env or {}),
            "STAYER_TASK_ID": task.id,
            "STAYER_ATTEMPT": str(task.attempt),
            "STAYER_DIR": str(folder),
            "STAYER_REPORT": str(folder / "report"),
            "STAYER_CHECKPOINT": str(folder / "checkpoint"),
            "STAYER_RESULT": str(folder / "result"),
            **({"STAYER_INPUTS": str(folder / "inputs")} if task.upstreams else {}),
        }

    def try_out(self, user: TaskUser, runs: Path) -> None:
        """See whether this user can run what is configured; raises BadConfig."""
        file = self.run.partition(":")[0] if self.run else None
        program = self.exec[0] if self.exec else None
        try_out(user, runs, file=file, program=program)


def configure(
    *,
    exec: str | None = None,
    run: str | None = None,
    app: str | None = None,
    allow_commands: bool = False,
    allow_command: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
    users: TaskUsers | None = None,
) -> Handlers:
    """Handlers from flags, checked: what can't work is said before any task is taken."""
    if exec is not None and run is not None:
        raise BadConfig("--exec and --run both take tasks without a name: give one of them")
    if not (exec or run or app or allow_commands or allow_command):
        raise BadConfig(
            "a worker needs something to run: give --exec CMD, --run FILE, --app MODULE, or "
            "--allow-commands for the commands that tasks bring along"
        )
    users = users or TaskUsers()
    whose: list[TaskUser | None] = [*users.all()] or [None]
    # Each of the users must be able to load it.
    found = [_asked(app, user) for user in whose] if app else [((), ())]
    names, schedules = found[0]
    return Handlers(
        exec=tuple(shlex.split(exec)) if exec else None,
        run=_checked_file(run) if run else None,
        app=app,
        names=names,
        schedules=schedules,
        programs=("*",) if allow_commands else allow_command,
        environment=environment or {},
        users=users,
    )


def _checked_file(run: str) -> str:
    path, _, name = run.partition(":")
    if not os.path.isfile(path):
        raise BadConfig(f"--run {run}: there is no file {path}")
    return f"{os.path.abspath(path)}:{name}" if name else os.path.abspath(path)


def _asked(app: str, user: TaskUser | None) -> tuple[tuple[str, ...], tuple[dict[str, Any], ...]]:
    """The names of an app's tasks, and its schedules, asked in a process of its own: user code
    stays out of here. It is the user's who will run it: root never runs what that user may write.
    """
    whose = f" by {user.name}" if user else ""
    try:
        asked = subprocess.run(
            [*_RUNNER, "names", app],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            **(user.as_process() if user else {}),
        )
    except OSError as error:
        raise BadConfig(f"{sys.executable} can't be run{whose}: {error.strerror}") from error
    if asked.returncode != 0:
        last = asked.stderr.strip().splitlines()[-1:] or ["no message"]
        raise BadConfig(f"--app {app} can't be loaded{whose}: {last[0]}")
    about = json.loads(asked.stdout.splitlines()[-1])
    return tuple(about["names"]), tuple(about["schedules"])
