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
from stayer.core.happening_json import cut_to_fit
from stayer.core.happenings import Pin
from stayer.core.model import Code, Pinned, Task
from stayer.core.refused_tasks import list_some
from stayer.task.prepare.programs import find_uv
from stayer.worker.allowed_programs import NotAllowed
from stayer.worker.default_code import DefaultCode
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
    default: DefaultCode | None = None
    """What tasks run with that ask for nothing."""

    def code_of(self, task: Task) -> Code | None:
        """Return what the task is to run with."""
        return code.in_force(task, None if self.default is None else self.default.code)

    def check(self, task: Task) -> None:
        """Raise NotAllowed if the task needs what no pattern names, by what it asks for or by what
        the store says that this became. What its worker's default brings along is looked at when
        it was resolved here, too.
        """
        asked, is_own = self.code_of(task), code.prepares(task.code)
        if asked is None or not (is_own or code.has_pin(task)):
            return
        try:
            # Not only the doors write to a store: what is read there goes to uv and git as it is.
            code.check("code", asked)
            if task.pinned is not None and not task.pinned.anew:
                cut_to_fit(Pin(task.pinned, task.lock))
            git = code.repository(asked.git).url if asked.git else None
            if git is not None and self.git is None:
                raise NotAllowed("it needs git, which is not on this machine")
            lines = (*_lines(asked.requirements), *_lines(task.lock or ""))
            if is_own or self.default is None or task.pinned is None:
                self._check(map(code.requirement_name, lines), git)
            else:
                self._check((), self.default.unknown(task.pinned, ())[1])
        except BadInput as error:
            raise NotAllowed(f"its code can't be read: {error}") from None

    def check_pin(self, pinned: Pinned, lock: str | None, *, by_default: bool) -> None:
        """Raise NotAllowed if what a task is pinned to is not to be installed; BadInput if it
        can't be read. `by_default`: it became that by the default of a worker.
        """
        cut_to_fit(Pin(pinned, lock))
        lines = _lines(lock or "")
        if by_default and self.default is not None:
            self._check(*self.default.unknown(pinned, lines))
        else:
            git = pinned.git and code.repository(pinned.git).url
            self._check(map(code.requirement_name, lines), git)

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
        by_default = not code.prepares(task.code)
        asked, pinned = self.code_of(task), task.pinned if code.has_pin(task) else None
        if by_default and pinned and self.default and not self._believes(pinned, task.lock):
            asked, pinned = self.default.code, None  # which tells what it brings along
        assert asked is not None
        git = code.repository(asked.git) if asked.git else None
        lines = _lines(asked.requirements)
        about = {
            "requirements": lines,
            "is_lock": code.is_lock(lines),
            "python": asked.python,
            "git": git and msgspec.structs.asdict(git),
            "pinned": pinned and {**msgspec.structs.asdict(pinned), "text": task.lock},
            "allow": self.allowed,
            "is_default": by_default and self.default is not None,
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
        found = {"argv": words, "program": sys.executable, "cwd": process["cwd"], "code": about}
        if by_default and self.default and not pinned:
            found["default_code"] = {"key": self.default.key, "git": self.default.git}
        return found

    def _believes(self, pinned: Pinned, lock: str | None) -> bool:
        """Return whether an earlier attempt's pin is one that may be installed here at once."""
        try:
            self.check_pin(pinned, lock, by_default=True)
        except NotAllowed:
            return False
        return True

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
    default: Code | None = None,
) -> CodeRules | None:
    """Build the rules from flags; None if nothing is to be installed. `limits` are those fields of
    CodeRules that were given; `shared`: for tasks of other users. Raises BadConfig.
    """
    if not allow and default is None:
        return None
    try:
        allowed = tuple(map(code.check_pattern, allow))
    except BadInput as error:
        raise BadConfig(f"--allow-code {error}") from None
    uv = variables.get("UV") or find_uv(path)
    if uv is None:
        raise BadConfig(
            f"code for tasks is installed by uv, which is not here: {how_to_install('code')}, or "
            "put uv into the PATH"
        )
    git = shutil.which("git", path=path)
    if default is not None and default.git and git is None:
        raise BadConfig("--git needs git, which is not on this machine: install it")
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
        git=git,
        variables=variables,
        default=None if default is None else DefaultCode(default, folder.absolute()),
        **limits,  # type: ignore[arg-type]
    )


def default_folder() -> Path:
    """Return where environments are kept unless the settings say otherwise."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return home / "stayer" / "code"
