"""A rehearsal of interruptions: a task is killed at chosen points and at random, goes on from what
it has saved, and must end with the result of a run that nobody disturbed.

Each attempt is a process that is really killed, so no `finally` saves it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random as chance
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn, Protocol

import msgspec
from msgspec import Struct

from stayer.app import App, TaskFunction, app_of
from stayer.core.errors import BadInput, StayerError
from stayer.core.fault_text import last_line
from stayer.core.model import Task, Value
from stayer.task import outcome_files
from stayer.task.checkpoints import Checkpoints
from stayer.task.context import Context

POINTS = 20
"""After how many different checkpoints it is killed at most."""
RANDOM_RUNS = 3
_KILLS_AT_RANDOM = 3
_LOOK_S = 0.001
_SPARE_ATTEMPTS = 3


class Run(Struct, frozen=True, kw_only=True):
    """One run of the task, from the start to its end."""

    plan: str
    """When it was killed, in words."""
    attempts: int
    """How many processes it took."""
    result: Value = None
    files: tuple[str | None, ...] = ()
    """What the compared files had in them, as hashes."""
    problem: str | None = None
    """What is wrong; None: it ended as the undisturbed run did."""


class Rehearsal(Struct, frozen=True, kw_only=True):
    """The outcome. The first run is the undisturbed one."""

    checkpoints: int
    """How many the undisturbed run saved."""
    runs: tuple[Run, ...]

    @property
    def problems(self) -> list[str]:
        """What is wrong, a line for each run that did not end as it should."""
        return [f"killed {run.plan}: {run.problem}" for run in self.runs if run.problem]


class Work(Protocol):
    """Something that can be started again and again."""

    def start(self, folder: Path, attempt: int, kill_after: int | None) -> int:
        """Start a process that works with the files of this folder; its pid. It ends itself after
        so many checkpoints, if it can.
        """

    kills_itself: bool


def rehearse(
    task: TaskFunction[..., Any] | Callable[..., Any] | Sequence[str],
    parameters: Value = None,
    *,
    points: int = POINTS,
    random: int = RANDOM_RUNS,
    seed: int = 0,
    files: Iterable[str | os.PathLike[str]] = (),
    compare: Callable[[Value, Value], bool] | None = None,
    check: bool = True,
    on_run: Callable[[Run], object] | None = None,
) -> Rehearsal:
    """Run a function, or a command, undisturbed; then again and again, killed after each checkpoint
    (after `points` of them, if there are more), after all of them in turn, and `random` times at
    random moments. Each run goes on from what was saved, and must end with the same result.

    `parameters` are what the task would get. `files` are compared too, and deleted before each run.
    `compare` says whether two results are the same: without it, they are equal. Raises
    AssertionError if a run ended otherwise, unless `check` is False.
    """
    work = _as_work(task, parameters)
    stage = _Stage(work, [Path(each) for each in files], on_run)
    try:
        done = stage.rehearse(points, random, chance.Random(seed), compare)
    finally:
        stage.close()
    if check and done.problems:
        raise AssertionError("\n".join(done.problems))
    return done


def _as_work(task: Any, parameters: Value) -> Work:
    if isinstance(task, str):
        raise BadInput(f"rehearse {task!r}: give a function, or a command as a list of words")
    if callable(task):
        name = task.name if isinstance(task, TaskFunction) else getattr(task, "__name__", "task")
        return FunctionWork(app_of(task, name), name, parameters)
    return CommandWork(list(task), parameters)


class _Stage:
    """Where the runs take place, one after the other."""

    def __init__(
        self, work: Work, files: Sequence[Path], on_run: Callable[[Run], object] | None
    ) -> None:
        self._work = work
        self._files = files
        self._on_run = on_run or (lambda run: None)
        self._folder = Path(tempfile.mkdtemp(prefix="stayer-rehearse-"))
        self._number = 0
        self._saves = 0

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def rehearse(
        self,
        points: int,
        random: int,
        dice: chance.Random,
        compare: Callable[[Value, Value], bool] | None,
    ) -> Rehearsal:
        began = time.monotonic()
        first = self._run("never", lambda attempt: None)
        took = time.monotonic() - began
        if first.problem:
            raise BadInput(f"it fails even if nobody disturbs it: {first.problem}")
        saved = self._saves if not self._work.kills_itself else _size(self._folder / "1" / "saves")
        self._on_run(first)
        runs = [first]

        def add(plan: str, kill: Kill) -> None:
            run = self._judged(self._run(plan, kill, saved), first, compare)
            self._on_run(run)
            runs.append(run)

        for point in _spread(saved, points):
            add(f"after checkpoint {point}", lambda attempt, at=point: at if attempt == 1 else None)  # type: ignore[misc]
        if saved > 1:
            add("after each checkpoint in turn", lambda attempt: 1)
        for number in range(1, random + 1):
            moments = [dice.uniform(0, took) for _ in range(_KILLS_AT_RANDOM)]
            add(
                f"at random ({number})",
                lambda attempt, at=moments: at[attempt - 1] if attempt <= len(at) else None,  # type: ignore[misc]
            )
        return Rehearsal(checkpoints=saved, runs=tuple(runs))

    def _judged(self, run: Run, first: Run, compare: Callable[[Value, Value], bool] | None) -> Run:
        if run.problem is not None:
            return run
        same = run.result == first.result if compare is None else compare(first.result, run.result)
        if not same:
            problem = f"the result is {_shown(run.result)}, not {_shown(first.result)}"
            return msgspec.structs.replace(run, problem=problem)
        for path, was, now in zip(self._files, first.files, run.files, strict=True):
            if was != now:
                return msgspec.structs.replace(run, problem=f"{path} is another one")
        return run

    def _run(self, plan: str, kill: Kill, saved: int = 0) -> Run:
        self._number += 1
        folder = self._folder / str(self._number)
        folder.mkdir()
        for path in self._files:
            path.unlink(missing_ok=True)
        most = saved + _KILLS_AT_RANDOM + _SPARE_ATTEMPTS
        for attempt in range(1, most + 1):
            status = self._attempt(folder, attempt, kill(attempt))
            if not (os.WIFSIGNALED(status) and (folder / "killed").exists()):
                break
            (folder / "killed").unlink()
        else:
            why = f"it was started {most} times, and never got further than its first checkpoint: "
            return Run(plan=plan, attempts=most, problem=f"{why}does it call restore()?")
        problem = None if status == 0 else _why(folder, status)
        hashes = tuple(map(_hash, self._files))
        result = None if problem else _result(folder)
        return Run(plan=plan, attempts=attempt, result=result, files=hashes, problem=problem)

    def _attempt(self, folder: Path, attempt: int, kill: int | float | None) -> int:
        """Run one attempt, killed after so many checkpoints or seconds; how it ended."""
        point = kill if isinstance(kill, int) else None
        deadline = time.monotonic() + kill if isinstance(kill, float) else None
        watched = None if self._work.kills_itself else folder / "checkpoint"
        before = _mark(watched)
        pid = self._work.start(folder, attempt, point)
        seen = 0
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if watched is not None and (mark := _mark(watched)) != before:
                before, seen = mark, seen + 1
            if ended:
                self._saves = seen
                return status
            is_due = deadline is not None and time.monotonic() >= deadline
            if is_due or (watched is not None and seen == point):
                (folder / "killed").touch()
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                watched, deadline = None, None
            time.sleep(_LOOK_S)


Kill = Callable[[int], "int | float | None"]
"""For an attempt: after how many checkpoints it is killed, or after how many seconds."""


class _CountedCheckpoints(Checkpoints):
    """Counts what is saved, and ends its process after some of them."""

    def __init__(self, path: str, folder: Path, kill_after: int | None) -> None:
        super().__init__(path)
        self._folder = folder
        self._kill_after = kill_after
        self._saves = 0

    def _save(self, data: bytes) -> None:
        super()._save(data)
        self._saves += 1
        with open(self._folder / "saves", "ab") as file:
            file.write(b".")
        if self._saves == self._kill_after:
            (self._folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)


class FunctionWork:
    """A function, in a fork of this process."""

    kills_itself = True

    def __init__(self, app: App, name: str, parameters: Value) -> None:
        self._app = app
        self._name = name
        self._parameters = parameters

    def start(self, folder: Path, attempt: int, kill_after: int | None) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
            pid = os.fork()
        if pid == 0:
            self._be_attempt(folder, attempt, kill_after)
        return pid

    def _be_attempt(self, folder: Path, attempt: int, kill_after: int | None) -> NoReturn:
        code = 1
        try:
            os.setsid()
            sys.stdout = sys.stderr = open(folder / "log", "a", encoding="utf-8", buffering=1)  # noqa: SIM115
            task = Task(
                id="rehearsal", queue="rehearsal", name=self._name, parameters=self._parameters,
                attempt=attempt,
            )  # fmt: skip
            context = Context.detached(task, folder)
            context._checkpoints = _CountedCheckpoints(
                str(folder / "checkpoint"), folder, kill_after
            )
            code = self._work(context)
        finally:
            os._exit(code)

    def _work(self, context: Context) -> int:
        try:
            with context:
                value = self._app.call(context)
            return outcome_files.complete(context, value)
        except BaseException as error:
            return outcome_files.fail(context, error)


class CommandWork:
    """A command, which says by its files what it has saved."""

    kills_itself = False

    def __init__(self, command: Sequence[str], parameters: Value) -> None:
        if not command:
            raise BadInput("say what to rehearse: a function, or a command after --")
        self._command = command
        self._input = (
            parameters if isinstance(parameters, bytes) else msgspec.json.encode(parameters)
        )

    def start(self, folder: Path, attempt: int, kill_after: int | None) -> int:
        (folder / "parameters").write_bytes(self._input)
        record = {"id": "rehearsal", "queue": "rehearsal", "attempt": attempt}
        (folder / "task.json").write_text(json.dumps({"task": record}))
        variables = {
            "STAYER_TASK_ID": "rehearsal",
            "STAYER_ATTEMPT": str(attempt),
            "STAYER_DIR": str(folder),
            **{
                f"STAYER_{name.upper()}": str(folder / name)
                for name in ("report", "checkpoint", "result")
            },
        }
        with open(folder / "parameters", "rb") as given, open(folder / "log", "ab") as log:
            try:
                process = subprocess.Popen(
                    self._command, stdin=given, stdout=log, stderr=log, start_new_session=True,
                    env={**os.environ, **variables},
                )  # fmt: skip
            except OSError as error:
                raise BadInput(f"{self._command[0]} can't be started: {error.strerror}") from None
        process.returncode = 0  # it is waited for here, not by its object
        return process.pid


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _mark(path: Path | None) -> tuple[int, int, int] | None:
    """Return what changes when the file is replaced or written."""
    if path is None:
        return None
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _spread(number: int, most: int) -> list[int]:
    """Choose from 1 … number: all, or so many of them, the first and the last among them."""
    if number <= most:
        return list(range(1, number + 1))
    if most < 2:
        return [number][:most]
    return sorted({1 + round(place * (number - 1) / (most - 1)) for place in range(most)})


def _result(folder: Path) -> Value:
    try:
        data = (folder / "result").read_bytes()
    except FileNotFoundError:
        return None
    try:
        value: Value = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return data
    return value


def _why(folder: Path, status: int) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError):
        error = json.loads((folder / "error").read_text())
        return f"{error['type']}: {error['message']}"
    line = last_line(_text(folder / "log"))
    if os.WIFSIGNALED(status):
        how = f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    else:
        how = f"exit code {os.waitstatus_to_exitcode(status)}"
    return f"{line} ({how})" if line else how


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""


def _hash(path: Path) -> str | None:
    try:
        return sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StayerError(f"{path} can't be read: {error.strerror}") from None


def _shown(value: Value) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:199] + "…"
