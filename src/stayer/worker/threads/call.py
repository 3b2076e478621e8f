"""Calling a task's function, and how that ended, as a value."""

from __future__ import annotations

import asyncio
from typing import Protocol

from stayer.core import codec
from stayer.core.errors import BadInput, Stopped
from stayer.core.happenings import Done, Fail, Happening
from stayer.core.lifecycle import read_exception
from stayer.core.model import Fault, Value
from stayer.service import tracing
from stayer.task import outcome_files
from stayer.worker.threads.context import ThreadContext


class ThreadApp(Protocol):
    """What an app is, seen from here."""

    @property
    def names(self) -> tuple[str, ...]: ...
    def is_async(self, name: str) -> bool: ...
    def call(self, task: ThreadContext) -> Value: ...
    async def call_async(self, task: ThreadContext) -> Value: ...


def call(app: ThreadApp, context: ThreadContext) -> Happening:
    """Run a function to its end, in this thread."""
    try:
        with context, tracing.within(context.record):
            value = app.call(context)
    except BaseException as error:
        return _broke_off(context, error)
    return _read_return(context, value)


async def call_async(app: ThreadApp, context: ThreadContext) -> Happening:
    """Run a coroutine to its end, in this loop."""
    try:
        with context, tracing.within(context.record):
            value = await app.call_async(context)
    except asyncio.CancelledError as error:
        context.stop_noticed |= context.why is not None
        return _broke_off(context, error)
    except BaseException as error:
        return _broke_off(context, error)
    return _read_return(context, value)


def _read_return(context: ThreadContext, value: Value) -> Happening:
    if context.stop_noticed:
        return context.read_stop()
    if value is None:
        value = context.result
    try:
        codec.pack(value, "the result", codec.RESULT_LIMIT)
    except BadInput as error:
        return Fail(fault(error))
    except Exception as error:
        return _broke_off(context, error)
    return Done(value)


def _broke_off(context: ThreadContext, error: BaseException) -> Happening:
    """Make an end by an exception. One that can't even be described must not take its
    thread along.
    """
    try:
        return _read_exception(context, error)
    except Exception as problem:
        text = f"what it raised can't be described: {type(problem).__name__}"
        return Fail(Fault(type(error).__name__, text))


def _read_exception(context: ThreadContext, error: BaseException) -> Happening:
    """Translate an exception into how a process would have ended by it."""
    if context.stop_noticed or (isinstance(error, Stopped) and context.why is not None):
        return context.read_stop()
    match error:
        case SystemExit(code=None | 0):
            return Done(None)
        case SystemExit(code=int(code)):
            return Fail(Fault("ExitCode", f"exit code {code}", exit_code=code & 0xFF or 1))
        case SystemExit():
            return Fail(Fault("SystemExit", outcome_files.storable(str(error)), exit_code=1))
        case _:
            return read_exception(error, fault(error))


def fault(error: BaseException) -> Fault:
    """Return what went wrong, as the record has it."""
    type, message, trace = outcome_files.describe_exception(error)
    if len(trace) > outcome_files.TRACEBACK_LIMIT:
        trace = "…\n" + trace[-outcome_files.TRACEBACK_LIMIT :]
    return Fault(type, outcome_files.storable(message), outcome_files.storable(trace))
