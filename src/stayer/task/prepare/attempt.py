"""From what a task asks for to the program that runs in its environment."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any, NamedTuple, NoReturn

from . import cache
from .build import Builder, Spec
from .programs import Programs, Unprepared, say

FAILED = 1
_POLL_S = 0.02
_NOT_FOR_US = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)
"""What somebody may send to the task: it has not begun, and must not end by them."""


class Program(NamedTuple):
    """What this process becomes."""

    words: list[str]
    file: str
    """The program itself, looked for in the PATH if it has no slash."""
    cwd: str | None
    variables: dict[str, str]


def main() -> NoReturn:
    """Prepare, then become the task."""
    for number in _NOT_FOR_US:
        signal.signal(number, signal.SIG_IGN)
    folder = os.environ["STAYER_DIR"]
    with open(os.path.join(folder, "code.json")) as file:
        spec: Spec = json.load(file)
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    try:
        if spec.get("image"):
            from .images import prepare_image

            name, program = prepare_image(spec, Conversation(folder))
        else:
            name, program = Attempt(folder, spec).prepare()
    except Unprepared as error:
        _fail(folder, error)
    except OSError as error:
        _fail(folder, Unprepared(f"its environment can't be prepared: {error}", passing=True))
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    _write(folder, "prepared", {"at": now, "took": now - began, "environment": name})
    for number in _NOT_FOR_US:
        signal.signal(number, signal.SIG_DFL)
    _become(program)


class Conversation:
    """What is said to the worker, through files of the task's folder, and what it answers."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._said = False

    def preparing(self, what: str) -> None:
        """Tell it what goes on, the first time that there is something to tell."""
        if not self._said:
            self._said = True
            _write(self._folder, "preparing", {"what": what})

    def agree(self, resolved: Spec) -> Spec:
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


class Attempt:
    """One attempt's way to its environment."""

    def __init__(self, folder: str, spec: Spec) -> None:
        self._spec = spec
        self._worker = Conversation(folder)
        self._says_that_it_waits = False
        own = {name: os.environ[name] for name in spec["variables"] if name in os.environ}
        self._programs = Programs(for_programs(spec, own), spec["time_limit"])
        self._builder = Builder(spec, self._programs)

    def prepare(self) -> tuple[str, Program]:
        """Resolve, pin and build what has not been before; return the name of the environment, and
        what runs in it.
        """
        found = self._environment()
        os.set_inheritable(found.lock, True)  # the task holds it as long as it lives
        words, program, cwd = self._words(found.path)
        return os.path.basename(found.path), Program(
            words, program, cwd, self._variables(found.path)
        )

    def _environment(self) -> cache.Environment:
        pinned = self._spec.get("pinned")
        if pinned is None:
            self._worker.preparing("resolves what it needs")
            pinned = self._worker.agree(self._builder.resolve())
        key = self._builder.key(pinned)

        def build(path: str, lock: cache.Lock) -> dict[str, object]:
            self._worker.preparing(f"builds environment {key[:12]}")
            return self._builder.build(pinned, path, lock)

        def wait() -> None:
            self._programs.check_time()
            self._worker.preparing("waits for its environment, which another task builds")
            if not self._says_that_it_waits:
                self._says_that_it_waits = True
                say("stayer: another task prepares this environment; waiting for it\n")

        found = cache.use(self._builder.envs, key, build, wait)
        if found.fresh:  # only then there is more than there was
            cache.evict(self._builder.envs, self._spec["cache_size"], self._spec["cache_age"])
            cache.remove_leftovers(self._builder.scratch)
        return found

    def _words(self, environment: str) -> tuple[list[str], str, str | None]:
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

    def _variables(self, environment: str) -> dict[str, str]:
        """Return the variables of the task, with the programs of the environment first."""
        variables: dict[str, str] = dict(self._spec["env"])
        venv = os.path.join(environment, "venv")
        path = variables.get("PATH") or os.defpath
        variables.pop("PYTHONHOME", None)
        return {
            **variables, "PATH": os.path.join(venv, "bin") + os.pathsep + path, "VIRTUAL_ENV": venv
        }  # fmt: skip

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


def for_programs(spec: Spec, own: dict[str, str]) -> dict[str, str]:
    """Return the variables of uv and git: without what would change where they work, and with
    their own.
    """
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
        **own,
    }


def _fail(folder: str, error: Unprepared) -> NoReturn:
    message = str(error)
    words = "" if error.is_printed else f": {message}"
    say(f"stayer: the code of this task can't be prepared{words}\n")
    kind = "passing" if error.passing else "final"
    _write(folder, "error", {"type": "Environment", "message": message, "environment": kind})
    sys.exit(FAILED)


def _write(folder: str, name: str, content: dict[str, Any]) -> None:
    """Replace a file of the task's folder."""
    path = os.path.join(folder, name)
    with open(path + ".new", "w") as file:
        json.dump(content, file)
    os.rename(path + ".new", path)


def _become(program: Program) -> NoReturn:
    try:
        if program.cwd:
            os.chdir(program.cwd)
        if "/" in program.file:
            os.execve(program.file, program.words, program.variables)
        os.execvpe(program.file, program.words, program.variables)
    except OSError as error:
        say(f"stayer: can't run {program.words[0]}: {error.strerror}\n")
        sys.exit(127)
