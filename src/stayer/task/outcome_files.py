"""How a task's code ended, as files that the worker reads: `result`, or `error`."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Mapping
from types import TracebackType

from stayer.core import codec
from stayer.core.errors import BadInput, GiveUp, Retry, Snooze, TooLarge
from stayer.core.retries import base_names, class_name
from stayer.task import atomic_files
from stayer.task.context import Context
from stayer.task.results import encode_result

FAILED = 1

_MACHINERY = (
    os.path.dirname(os.path.dirname(__file__)) + os.sep,
    os.path.dirname(importlib.__file__) + os.sep,
    contextlib.__file__,
    "<frozen importlib",
)
"""Where the code lies that leads to the user's."""

_SMALL_RESULT = 2000
"""What is not larger, in bytes, the keeper writes into its own word of the end, which it brings to
the disk (`stayer.keeper.folder`).
"""
_MESSAGE_LIMIT = 10_000
TRACEBACK_LIMIT = 64_000
"""How much of it is kept, from its end."""
_SHOWN_VALUE_LIMIT = 10_000


def complete(context: Context, value: object) -> int:
    """Write the result; the exit code. One that can't be stored is a failure, but is kept."""
    try:
        data = encode_result(value)
    except BadInput as error:
        return fail(context, error, keep(context, value, error))
    if data is not None:
        atomic_files.replace(context.result_path, data, sync=len(data) > _SMALL_RESULT)
    return 0


def keep(context: Context, value: object, error: BadInput) -> str:
    """Save what was returned but can't be the result; says where it is."""
    path = str(context.folder / "result.refused")
    try:
        atomic_files.replace(path, _encode_refused(value, error))
    except OSError as problem:
        return f". It could not be kept: {problem}"
    return f". What was returned is in {path} on {os.uname().nodename}"


def fail(
    context: Context, error: BaseException, hint: str = "", *, not_loaded: bool = False
) -> int:
    """Write what went wrong, to the log too; the exit code. `not_loaded`: the task has not begun,
    because the code that is to run it is not there.
    """
    if isinstance(error, Snooze):
        write_to_log(f"asks to be run again in {error.delay} s: {error}")
        write_failure(context, "stayer.Snooze", str(error), wishes=_read_wishes(error))
        return FAILED
    type, message, text = describe_exception(error)
    write_to_log(text + hint.removeprefix(". "))
    if len(text) > TRACEBACK_LIMIT:
        text = "…\n" + text[-TRACEBACK_LIMIT:]
    wishes: dict[str, object] = {"not_loaded": True} if not_loaded else _read_wishes(error)
    wishes["bases"] = list(base_names(error.__class__))
    write_failure(context, type, message + hint, text, wishes)
    return FAILED


def write_to_log(text: str) -> None:
    """Write to the task's log, unless the task has closed it: that must not hide how it ended."""
    with contextlib.suppress(Exception):
        print(text, file=sys.stderr)


def describe_exception(error: BaseException) -> tuple[str, str, str]:
    """Type, message and the whole traceback, which begins where the user's code does."""
    import traceback

    _leave_out_ours(error)
    # TracebackException also knows how to show an exception whose own __str__ fails.
    trace = traceback.TracebackException.from_exception(error)
    return class_name(type(error)), str(trace)[:_MESSAGE_LIMIT], "".join(trace.format())


def _read_wishes(error: BaseException) -> dict[str, object]:
    """Return what the task wants to become of it."""
    match error:
        case Retry():
            return {"after": error.after}
        case GiveUp():
            return {"final": True}
        case Snooze():
            return {"snooze": error.delay}
        case _:
            return {}


def write_failure(
    context: Context,
    type: str,
    message: str,
    traceback: str | None = None,
    wishes: Mapping[str, object] | None = None,
) -> None:
    """Write the file; if that can't be, the exit code has to say it all."""
    texts = {"type": type, "message": message, "traceback": traceback}
    content: dict[str, object] = {
        name: storable(text) for name, text in texts.items() if text is not None
    }
    content |= wishes or {}
    import json

    with contextlib.suppress(OSError):
        atomic_files.replace(str(context.folder / "error"), json.dumps(content).encode())


def _encode_refused(value: object, error: BadInput) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(error, TooLarge):
        return codec.encode(value).encode()  # type: ignore[arg-type]
    try:
        shown = repr(value)
    except Exception as problem:
        shown = f"<{type(value).__qualname__}, whose repr() fails: {problem}>"
    write_to_log(f"What was returned: {shown[:_SHOWN_VALUE_LIMIT]}")
    return shown.encode("utf-8", "backslashreplace")


def storable(text: str) -> str:
    """Text without the lone surrogates that file names bring along."""
    return text.encode("utf-8", "backslashreplace").decode()


def _leave_out_ours(error: BaseException) -> None:
    """Let the tracebacks begin where the user's code does."""
    chain: list[BaseException | None] = [error]
    seen: set[int] = set()
    while chain:
        link = chain.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        # Not by assignment: an exception may be a frozen dataclass.
        BaseException.with_traceback(link, _from_user_code(link.__traceback__))
        chain += (link.__cause__, link.__context__)


def _from_user_code(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_MACHINERY):
            break
        trace = trace.tb_next
    return trace
