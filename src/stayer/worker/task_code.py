"""`--allow-code`: which code this worker installs for tasks, where, and with what.

The worker itself installs nothing. It says what the process of the task is to prepare, before that
becomes the task (`stayer.task.prepare`), and checks what is about to be pinned.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from stayer.core import code, patterns
from stayer.core.errors import BadConfig, BadInput
from stayer.core.extras import how_to_install
from stayer.core.happening_json import fitted
from stayer.core.happenings import Pin
from stayer.core.model import Task
from stayer.core.refused_tasks import list_some
from stayer.task.prepare.programs import find_uv
from stayer.worker.allowed_programs import NotAllowed
from stayer.worker.task_user import TaskUser

TIME_LIMIT_S = 1800.0
"""How long a preparation may take, unless the settings say otherwise."""
CACHE_BYTES, CACHE_AGE_S = 20_000_000_000, 30 * 86400.0
"""How much is kept of what was installed, and for how long after its last use."""
FUNCTION_NAMES = "*:*"
"""The names of functions in modules, as `package.module:function`."""
PREPARE = str(Path(__file__).parents[1] / "task" / "prepare" / "__main__.py")
_BOOTSTRAP = str(Path(__file__).parents[1] / "task" / "in_environment.py")
_RUNTIME = ("stayer", "msgspec", "cronsim")
"""What our runner needs, with a function that was not written for it."""
_CREDENTIALS = ("UV_*INDEX*", "UV_*PASSWORD*", "UV_*USERNAME*", "UV_*TOKEN*", "UV_FIND_LINKS")
"""Variables of the worker that are for uv, and not for tasks."""


class CodeRules(Struct, frozen=True, kw_only=True):
    """What may be installed for tasks, and how."""

    allowed: tuple[str, ...]
    folder: Path
    """Where environments are kept: one folder for all workers of a user on this machine."""
    uv: str
    git: str | None = None
    variables: dict[str, str] = {}
    """For uv and git alone: indexes, credentials."""
    time_limit: float = TIME_LIMIT_S
    cache_size: int = CACHE_BYTES
    cache_age: float = CACHE_AGE_S

    def check(self, task: Task) -> None:
        """Raise NotAllowed if the task needs what no pattern names, by what it asks for or by what
        the store says that this became.
        """
        if task.code is None:
            return
        try:
            # Not only the doors write to a store: what is read there goes to uv and git as it is.
            code.check("code", task.code)
            if task.pinned is not None and not task.pinned.anew:
                fitted(Pin(task.pinned, task.lock))
            self.check_names((*_lines(task.code.requirements), *_lines(task.lock or "")))
            git = code.repository(task.code.git).url if task.code.git else None
        except BadInput as error:
            raise NotAllowed(f"its code can't be read: {error}") from None
        if git is not None and self.git is None:
            raise NotAllowed("it needs git, which is not on this machine")
        self._check((), git)

    def check_names(self, lines: Iterable[str]) -> None:
        """Raise NotAllowed if one of these requirements is not to be installed; BadInput if it is
        none.
        """
        self._check(map(code.requirement_name, lines), None)

    def _check(self, names: Iterable[str], git: str | None) -> None:
        if refused := list(dict.fromkeys(code.not_allowed(names, git, self.allowed))):
            raise NotAllowed(f"no --allow-code names {list_some(refused)}")

    def folder_of(self, user: TaskUser | None) -> Path:
        """Return where the environments of tasks of this user are; each user builds its own."""
        if user is None:
            return self.folder
        folder = self.folder / user.name
        if not folder.exists():
            folder.mkdir(mode=0o700)
            os.chown(folder, user.uid, user.gid)
        return folder

    def process(
        self, task: Task, process: Mapping[str, Any], runner: tuple[str, ...] | None
    ) -> dict[str, Any]:
        """Return what its keeper is to execute instead of this process, and what that prepares.
        `runner`: the arguments of our own runner, if that is what it is.
        """
        assert task.code is not None
        git = code.repository(task.code.git) if task.code.git else None
        lines = _lines(task.code.requirements)
        pinned = (
            task.pinned
            and not task.pinned.anew
            and {**msgspec.structs.asdict(task.pinned), "text": task.lock}
        )
        about = {
            "requirements": lines,
            "is_lock": code.is_lock(lines),
            "python": task.code.python,
            "git": git and msgspec.structs.asdict(git),
            "pinned": pinned or None,
            "allow": self.allowed,
            "uv": self.uv,
            "git_program": self.git,
            "own_python": getattr(sys, "_base_executable", sys.executable),
            "variables": sorted(self.variables),  # their values are not for files of the task
            "time_limit": self.time_limit,
            "cache_size": self.cache_size,
            "cache_age": self.cache_age,
            "argv": process["argv"],
            "program": process["program"],
            "cwd": process["cwd"] if git is None or task.cwd or not task.command else None,
            "runner": runner,
            "bootstrap": _BOOTSTRAP,
            "runtime": _runtime(),
        }
        if runner and runner[0] == "function" and git is not None:
            about["cwd"] = None
        words = [sys.executable, "-I", "-S", PREPARE]
        return {"argv": words, "program": sys.executable, "cwd": process["cwd"], "code": about}

    def for_task(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Select the variables of the worker that its tasks may see, too."""
        return {
            name: value
            for name, value in variables.items()
            if name not in self.variables and not patterns.any_matches(name, _CREDENTIALS)
        }


def _lines(requirements: tuple[str, ...] | str) -> tuple[str, ...]:
    return code.lines_of(requirements)


def _runtime() -> dict[str, Any]:
    """Find the packages that our runner needs, wherever they are."""
    found = {
        name: os.path.dirname(spec.origin)
        for name in _RUNTIME
        if (spec := importlib.util.find_spec(name)) is not None and spec.origin is not None
    }
    key = hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()[:16]
    return {"packages": found, "key": key}


def code_rules(
    *,
    allow: tuple[str, ...],
    folder: Path,
    variables: dict[str, str],
    limits: Mapping[str, float],
    path: str,
    shared: bool,
) -> CodeRules | None:
    """Build the rules from flags; None if nothing is to be installed. `limits` are those fields of
    CodeRules that were given; `shared`: for tasks of other users. Raises BadConfig.
    """
    if not allow:
        return None
    try:
        allowed = tuple(map(code.check_pattern, allow))
    except BadInput as error:
        raise BadConfig(f"--allow-code {error}") from None
    uv = variables.get("UV") or find_uv(path)
    if uv is None:
        raise BadConfig(
            f"--allow-code needs uv, which installs the code: {how_to_install('code')}, or put uv "
            "into the PATH"
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if shared:
            folder.chmod(0o711)
    except OSError as error:
        raise BadConfig(f"--code-dir {folder} can't be made: {error.strerror}") from None
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise BadConfig(
            f"--code-dir {folder}: others own it, or may write to it, and could decide what this "
            "worker runs: choose another"
        )
    return CodeRules(
        allowed=allowed,
        folder=folder.absolute(),
        uv=uv,
        git=shutil.which("git", path=path),
        variables=variables,
        **limits,  # type: ignore[arg-type]
    )


def default_folder() -> Path:
    """Return where environments are kept unless the settings say otherwise."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return home / "stayer" / "code"
