"""From what a keeper wrote about the end of a task to what that means for its life. Pure."""

from __future__ import annotations

import signal as signals
from typing import Any

from msgspec.structs import replace

from stayer.core import limits
from stayer.core.fault_text import exit_fault
from stayer.core.happenings import Done, Fail, Happening, Interrupt, Snooze, Stop, WorkerLost
from stayer.core.lifecycle import OVERDUE
from stayer.core.model import Fault
from stayer.core.units import as_wait, format_duration, format_limit

_LIMITS = {
    "timeout": ("timeout", "TimeLimit", "it ran longer than its time limit", format_duration),
    "silent": ("silent", "SilenceLimit", "it gave no sign of life for its limit", format_duration),
    "memory": ("oom", "MemoryLimit", "it used more memory than its limit", format_limit),
}
_OUT_OF_MEMORY = "the machine ran out of memory, and its kernel killed it"
_FIRST_ENVIRONMENT_WAIT_S, _LONGEST_ENVIRONMENT_WAIT_S = 5.0, 300.0
"""How long to wait before code that could not be had is tried again; longer with each attempt."""
NOT_FOUND = 127
"""What a shell says of a program that it can't start."""


def node_trouble(
    exit: dict[str, Any], error: dict[str, Any] | None, *, own: bool, loads: bool
) -> str | None:
    """Return why the task never ran, if that is not its fault; `own`: it is what its worker was
    told to run, not a command that it brought along. `loads`: that is our runner, which is believed
    if it says that it could not load the worker's code. Other programs can say so as well as run.
    """
    if "not_started" in exit and (own or exit.get("node")):
        return f"could not be started on its node: {exit['not_started']}"
    if loads and exit.get("exit_code") and (error or {}).get("not_loaded") is True:
        return f"its worker can't load what it is to run: {_text((error or {}).get('message'))}"
    return None


def outcome(
    exit: dict[str, Any],
    error: dict[str, Any] | None,
    tail: str,
    *,
    own: bool = False,
    loads: bool = False,
    unprepared: int | None = None,
) -> Happening:
    """Read what happened from the keeper's exit file and what the task wrote; its result apart.
    For `own` and `loads` see `node_trouble`. `unprepared`: its code had not been prepared when it
    ended, in which attempt.
    """
    if "keeper_died" in exit:
        return WorkerLost(exit.get("note") or "its keeper was killed")
    if exit.get("stop") is None and (why := node_trouble(exit, error, own=own, loads=loads)):
        return Interrupt(why[: limits.NOTE])
    if "not_started" in exit:
        why = f"it could not be started: {exit['not_started']}"
        return Fail(Fault("NotStarted", why, exit_code=NOT_FOUND))
    stop = exit.get("stop")
    if stop is not None:
        return _read_stop(stop, exit, tail)
    if exit.get("signal") is not None:
        return _read_signal(exit, tail)
    if exit["exit_code"] == 0:
        return Done()
    if error is not None and unprepared is not None and "environment" in error:
        return _unprepared(error, exit["exit_code"], unprepared)
    if error is not None:
        return _read_exception(error, exit["exit_code"])
    if exit.get("oom"):  # of a shell, which says that what it ran was killed
        return Fail(Fault("OutOfMemory", _OUT_OF_MEMORY, tail or None, exit["exit_code"]), "oom")
    return Fail(exit_fault(exit["exit_code"], tail))


def _read_stop(stop: dict[str, Any], exit: dict[str, Any], tail: str) -> Happening:
    match stop["why"]:
        case "cancel":
            return Stop()
        case "interrupt":
            return Interrupt(stop.get("note") or "its worker stopped")
        case "fence":
            return Interrupt(stop.get("note") or "its lease was over")
        case "deadline":
            return Fail(replace(OVERDUE, traceback=tail or None), "expired")
        case why if why in _LIMITS:
            ending, type, message, as_text = _LIMITS[why]
            if stop.get("limit"):
                message += f" of {as_text(stop['limit'])}"
            return Fail(Fault(type, message, tail or None, signal=exit.get("signal")), ending)  # type: ignore[arg-type]
        case why:
            return Interrupt(f"stopped: {why}")


def _read_signal(exit: dict[str, Any], tail: str) -> Fail:
    number = exit["signal"]
    name = signals.Signals(number).name if number in signals.valid_signals() else str(number)
    if exit.get("oom") and number == signals.SIGKILL:
        return Fail(Fault("OutOfMemory", _OUT_OF_MEMORY, tail or None, signal=number), "oom")
    return Fail(Fault("Killed", f"killed by {name}", tail or None, signal=number), "killed")


def _unprepared(error: dict[str, Any], exit_code: int, attempt: int) -> Happening:
    """Its code could not be had. What may be otherwise later is not its fault; else another try
    would end in the same way.
    """
    fault = _fault(error, exit_code)
    if error["environment"] != "passing":
        return Fail(fault, "environment", final=True)
    delay = min(_LONGEST_ENVIRONMENT_WAIT_S, _FIRST_ENVIRONMENT_WAIT_S * 2.0 ** min(attempt - 1, 9))
    return Snooze(delay, fault.message[: limits.NOTE], "environment", fault)


def _read_exception(error: dict[str, Any], exit_code: int) -> Happening:
    """Read what a task in Python raised, with what it wants to become of it."""
    delay, after = as_wait(error.get("snooze")), as_wait(error.get("after"))
    if delay is not None:
        return Snooze(delay)
    final = error.get("final") is True
    return Fail(_fault(error, exit_code), after=after, final=final, bases=_bases(error))


def _fault(error: dict[str, Any], exit_code: int) -> Fault:
    """Read what a task wrote, which may be anything, cut to a length that a record can carry."""
    trace = error.get("traceback")
    return Fault(
        _text(error.get("type", "Error"))[: limits.ERROR_TYPE],
        _text(error.get("message", ""))[: limits.ERROR_TEXT],
        None if trace is None else _text(trace)[-limits.ERROR_TEXT :],
        exit_code,
    )


def _bases(error: dict[str, Any]) -> tuple[str, ...]:
    found = error.get("bases")
    if not isinstance(found, list):
        return ()
    return tuple(_text(each)[: limits.ERROR_TYPE] for each in found[: limits.ERROR_BASES])


def _text(value: object) -> str:
    """Without the lone surrogates that no store takes."""
    return str(value).encode("utf-8", "backslashreplace").decode()
