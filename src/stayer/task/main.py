"""`python -m stayer.task class FILE[:Class] [WORD…] | app MODULE[:app] | function MODULE:NAME | …`

The first three run the task that the environment tells of; `preload class|app TARGET` forks such
processes when asked (`stayer.task.preload`); `names MODULE[:app]` prints the names of
an app's tasks, and its schedules, as JSON, on the last line of stdout; `check FILE[:Class] [WORD…]`
looks whether the class is there. The words are the arguments of the file, in `sys.argv`.
"""

from __future__ import annotations

import atexit
import io
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from stayer.core.errors import BadInput, BadResult, Stopped
from stayer.service import tracing
from stayer.task import outcome_files
from stayer.task.context import Context
from stayer.task.load_code import (
    TaskApp,
    TaskClass,
    app_of,
    load_app,
    load_class,
    load_installed_function,
)
from stayer.task.stack_dump import show_stacks_when_asked
from stayer.task.stop_signal import CalledEachTime, StopSignalHandler

BAD_USE = 2
T = TypeVar("T")


def main(arguments: list[str]) -> int:
    """Return the exit code."""
    match arguments:
        case ["names", target]:
            return _print_names(target)
        case ["check", target, *words]:
            sys.argv = [target, *words]
            return _check(target)
        case ["preload", "class" | "app" as kind, target, *words]:
            return _preload(kind, target, words)
        case ["class", target, *words]:
            return _run_here(_WORK["class"], target, _register_ending(), words)
        case ["app" | "function" as kind, target]:
            return _run_here(_WORK[kind], target, _register_ending())
        case _:
            print(__doc__, file=sys.stderr)
            return BAD_USE


def _preload(kind: str, target: str, words: list[str]) -> int:
    from stayer.task import preload

    sys.argv = [target, *words]
    ended_by = _register_ending()
    loaded: list[Any] = []
    is_class = kind == "class"

    def work(_: str, context: Context) -> object:
        [found] = loaded
        return _run_object(found(context), context) if is_class else _call(found, context)

    return preload.serve(
        lambda: loaded.append((load_class if is_class else load_app)(target)),
        lambda: _run_here(work, target, ended_by, words),
    )


def _register_ending() -> list[signal.Signals]:
    """Return a list for the signal that the process is to end by."""
    ended_by: list[signal.Signals] = []
    atexit.register(_end_by, ended_by)  # the first to be registered is the last to be called
    return ended_by


def _run_here(
    work: Callable[[str, Context], object],
    target: str,
    ended_by: list[signal.Signals],
    words: Sequence[str] = (),
) -> int:
    try:
        context = Context.from_environment()
    except BadInput as error:
        print(f"stayer: {error}", file=sys.stderr)
        return BAD_USE
    sys.argv = [target, *words]
    return _run(context, work, target, ended_by)


def _run(
    context: Context,
    work: Callable[[str, Context], object],
    target: str,
    ended_by: list[signal.Signals],
) -> int:
    _write_lines_at_once()
    show_stacks_when_asked()
    stopping = StopSignalHandler(context)
    process = os.getpid()
    with context:
        try:
            value = work(target, context)
        except BaseException as error:
            stopping.work_is_over()
            return _broke_off(context, error, ended_by)
        stopping.work_is_over()
        if os.getpid() != process:
            return 0  # a copy that the task forked: the result is for its parent to tell
        return outcome_files.complete(context, value)


def _broke_off(context: Context, error: BaseException, ended_by: list[signal.Signals]) -> int:
    """Return the exit code of a task that did not come to its end."""
    match error:
        case SystemExit(code=None):
            return 0
        case SystemExit(code=int(code)):
            return code and (code & 0xFF or outcome_files.FAILED)
        case SystemExit():
            outcome_files.write_to_log(str(error))
            outcome_files.write_failure(context, "SystemExit", str(error))
            return outcome_files.FAILED
        case Stopped() | KeyboardInterrupt():
            ended_by.append(signal.SIGTERM if isinstance(error, Stopped) else signal.SIGINT)
            outcome_files.write_to_log(f"stayer: stopped by {ended_by[0].name}")
            return outcome_files.FAILED
        case _CodeNotLoadable():
            return outcome_files.fail(context, error.error, not_loaded=True)
        case BadResult():
            return outcome_files.fail(
                context, error, outcome_files.keep(context, error.value, error)
            )
        case _:
            return outcome_files.fail(context, error)


class _CodeNotLoadable(Exception):
    """What the worker was told to run can't be loaded: no task is to blame for that."""

    def __init__(self, error: ImportError) -> None:
        super().__init__()
        self.error = error


def _load(load: Callable[[str], T], target: str) -> T:
    try:
        return load(target)
    except ImportError as error:
        raise _CodeNotLoadable(error) from error


def _run_class(target: str, context: Context) -> object:
    return _run_object(_load(load_class, target)(context), context)


def _run_object(task: TaskClass, context: Context) -> object:
    if callable(kill := getattr(task, "kill", None)):
        context.on_stop(CalledEachTime(kill))
    if callable(before := getattr(task, "before", None)):
        before()
    try:
        with tracing.within(context.record):
            value = task.run()
            if isinstance(value, Coroutine):
                from stayer.task import coroutines

                value = coroutines.run(value, context)
            return value
    finally:
        if callable(after := getattr(task, "after", None)):
            after()


def _run_app(target: str, context: Context) -> object:
    return _call(_load(load_app, target), context)


def _call(app: TaskApp, context: Context) -> object:
    with tracing.within(context.record):
        return app.call(context)


def _run_function(target: str, context: Context) -> object:
    """Run one of a package that was installed for the task; or a class, as `--run` has it."""
    found = load_installed_function(target)
    if isinstance(found, type):
        return _run_object(found(context), context)
    return _call(app_of(found, target), context)


_WORK = {"class": _run_class, "app": _run_app, "function": _run_function}


def _check(target: str) -> int:
    try:
        load_class(target)
    except ImportError as error:
        import traceback

        traceback.print_exception(error)
        return 1
    print("", _count_threads(), sep="\n", flush=True)
    os._exit(0)  # the file may have started threads


def _count_threads() -> int:
    return len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 1


def _print_names(target: str) -> int:
    import json

    try:
        app = load_app(target)
        about = {
            "names": app.names,
            "routes": getattr(app, "routes", ()),
            "schedules": getattr(app, "schedules", ()),
        }
        about["threads"] = _count_threads()
    except ImportError as error:
        import traceback

        traceback.print_exception(error)
        return 1
    print("", json.dumps(about), sep="\n", flush=True)
    os._exit(0)  # the module may have started threads, or want to say goodbye on the last line


def _write_lines_at_once() -> None:
    """Write each line at once: to a file, Python would write in large pieces, and the log would lag
    behind.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)


def _end_by(numbers: list[signal.Signals]) -> None:
    """Die of the signal that ended the work, as a program does that knows nothing of it."""
    for number in numbers:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # the task may have closed it
                stream.flush()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
