"""From what a task asks for to the program that runs in its environment."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any, NoReturn

from . import cache
from .build import Builder, Spec
from .programs import Programs, Unprepared, say

FAILED = 1
_POLL_S = 0.02
_NOT_FOR_US = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)
"""What somebody may send to the task: it has not begun, and must not end by them."""
_NOBODY_WAITS = "stayer: another task prepares this environment; waiting for it\n"


def main() -> NoReturn:
    """Prepare, then become the task."""
    for number in _NOT_FOR_US:
        signal.signal(number, signal.SIG_IGN)
    folder = os.environ["STAYER_DIR"]
    with open(os.path.join(folder, "code.json")) as file:
        spec: Spec = json.load(file)
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    attempt = Attempt(folder, spec)
    try:
        environment = attempt.prepare()
        words, program, cwd = attempt.words(environment.path)
    except Unprepared as error:
        _fail(folder, error)
    except OSError as error:
        _fail(folder, Unprepared(f"its environment can't be prepared: {error}", passing=True))
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    name = os.path.basename(environment.path)
    _write(folder, "prepared", {"at": now, "took": now - began, "environment": name})
    os.set_inheritable(environment.lock, True)
    for number in _NOT_FOR_US:
        signal.signal(number, signal.SIG_DFL)
    _become(words, program, cwd, attempt.variables(environment.path))


class Attempt:
    """One attempt's way to its environment."""

    def __init__(self, folder: str, spec: Spec) -> None:
        self._folder = folder
        self._spec = spec
        self._said: set[str] = set()
        programs = Programs(for_programs(spec), spec["time_limit"])
        self._builder = Builder(spec, programs)

    def prepare(self) -> cache.Environment:
        """Resolve, pin and build what has not been before; return the environment."""
        pinned = self._spec.get("pinned")
        if pinned is None:
            self._say_once("preparing", "resolves what it needs")
            pinned = self._agree(self._builder.resolve())
        key = self._builder.key(pinned)

        def build(path: str, lock: cache.Lock) -> dict[str, object]:
            self._say_once("preparing", f"builds environment {key[:12]}")
            return self._builder.build(pinned, path, lock)

        def wait() -> None:
            self._say_once("preparing", "waits for its environment, which another task builds")
            if _NOBODY_WAITS not in self._said:
                self._said.add(_NOBODY_WAITS)
                say(_NOBODY_WAITS)

        found = cache.use(self._builder.envs, key, build, wait)
        if found.fresh:  # only then there is more than there was
            cache.evict(self._builder.envs, self._spec["cache_size"], self._spec["cache_age"])
        return found

    def words(self, environment: str) -> tuple[list[str], str, str | None]:
        """Return what to execute: the words, the file, and where."""
        spec = self._spec
        bin = os.path.join(environment, "venv", "bin")
        git = spec.get("git")
        files = os.path.join(environment, "files", git["folder"]) if git else None
        cwd = spec.get("cwd") or files
        if (runner := spec.get("runner")) is not None:
            python = os.path.join(bin, "python")
            return (
                [python, "-P", spec["bootstrap"], self._runtime(environment), *runner],
                python,
                cwd,
            )
        argv = list(spec["argv"])
        own = os.path.join(bin, argv[0])
        if "/" not in argv[0] and os.access(own, os.X_OK):
            return argv, own, cwd
        return argv, spec.get("program") or argv[0], cwd

    def variables(self, environment: str) -> dict[str, str]:
        """Return the variables of the task, with the programs of the environment first."""
        variables: dict[str, str] = dict(self._spec["env"])
        venv = os.path.join(environment, "venv")
        path = variables.get("PATH") or os.defpath
        variables.pop("PYTHONHOME", None)
        return {
            **variables, "PATH": os.path.join(venv, "bin") + os.pathsep + path, "VIRTUAL_ENV": venv
        }  # fmt: skip

    def _agree(self, resolved: Spec) -> Spec:
        """Ask the worker to have it written down; what counts is what comes back."""
        _write(self._folder, "resolved", resolved)
        answer = os.path.join(os.path.dirname(self._folder), "pinned")
        while True:
            try:
                with open(answer) as file:
                    found: Spec = json.load(file)
                break
            except FileNotFoundError:
                time.sleep(_POLL_S)
        if found.get("refused"):
            raise Unprepared(found["refused"], passing=True)
        return found

    def _runtime(self, environment: str) -> str:
        """Return where our runner is found by a Python that has not got it: only it and what it
        needs, nothing else of the worker's.
        """
        runtime = self._spec["runtime"]
        with open(os.path.join(environment, cache.COMPLETE)) as file:
            version = json.load(file)["python"]
        if version != ".".join(map(str, sys.version_info[:2])):
            return ""  # the environment has to bring it along
        folder = os.path.join(str(self._spec["folder"]), f"runtime-{runtime['key']}")
        if not os.path.isdir(folder):
            new = f"{folder}.{os.getpid()}.{time.monotonic_ns()}"
            os.mkdir(new, 0o700)
            for name, target in runtime["packages"].items():
                os.symlink(target, os.path.join(new, name))
            try:
                os.rename(new, folder)
            except OSError:  # somebody else has made it
                cache.remove_tree(new)
        return folder

    def _say_once(self, name: str, what: str) -> None:
        """Tell the worker what goes on, the first time that there is something to tell."""
        if name not in self._said:
            self._said.add(name)
            _write(self._folder, name, {"what": what})


def for_programs(spec: Spec) -> dict[str, str]:
    """Return the variables of uv and git: without what would change where they work."""
    folder: str = spec["folder"]
    given = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("STAYER_", "GIT_"))
    }
    for name in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX"):
        given.pop(name, None)
    return {
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_COMPILE_BYTECODE": "1",
        **given,
        "UV_NO_CONFIG": "1",
        "UV_NO_PROGRESS": "1",
        "UV_CACHE_DIR": os.path.join(folder, "uv"),
        "NO_COLOR": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "https:http:ssh:file",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
        **spec["variables"],
    }


def _fail(folder: str, error: Unprepared) -> NoReturn:
    message = str(error)
    say(f"stayer: the code of this task can't be prepared: {message}\n")
    kind = "passing" if error.passing else "final"
    _write(folder, "error", {"type": "Environment", "message": message, "environment": kind})
    sys.exit(FAILED)


def _write(folder: str, name: str, content: dict[str, Any]) -> None:
    """Replace a file of the task's folder."""
    path = os.path.join(folder, name)
    with open(path + ".new", "w") as file:
        json.dump(content, file)
    os.rename(path + ".new", path)


def _become(words: list[str], program: str, cwd: str | None, variables: dict[str, str]) -> NoReturn:
    try:
        if cwd:
            os.chdir(cwd)
        if "/" in program:
            os.execve(program, words, variables)
        os.execvpe(program, words, variables)
    except OSError as error:
        say(f"stayer: can't run {words[0]}: {error.strerror}\n")
        sys.exit(127)
