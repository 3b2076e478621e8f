"""What went wrong, in one line: the same wherever an error is shown."""

from __future__ import annotations

import re

from msgspec.structs import replace

from stayer.core import limits
from stayer.core.errors import BadInput
from stayer.core.model import Fault

EXIT_CODE = "ExitCode"
"""The type of the error of a command that ended with another exit code than 0."""
_LONGEST = 500
"""How many characters of a line of output say why a command ended."""
_LOOKED_AT = 8_000
"""How much of the end of its output is looked at."""
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def exit_fault(exit_code: int, output: str) -> Fault:
    """Describe the end of a command: what it printed last says why, the code alone next to
    nothing. `output` is the end of what it wrote.
    """
    code = f"exit code {exit_code}"
    line = last_line(output)
    message = f"{line} ({code})" if line else code
    return Fault(EXIT_CODE, message, output or None, exit_code)


def last_line(output: str) -> str:
    """Find the last line that says something, without colours, and as a terminal shows it."""
    for line in reversed(_COLOURS.sub("", output[-_LOOKED_AT:]).splitlines()):
        if text := line.rpartition("\r")[2].strip():
            return text[:_LONGEST]
    return ""


def error_line(type: str, message: str) -> str:
    """Write an error as people read it; of a command, what it printed last."""
    if type == EXIT_CODE and message:
        return message
    return f"{type}: {message}".rstrip(": ")


def fault_line(fault: Fault) -> str:
    """Write a Fault as people read it, as `error_line` does."""
    return error_line(fault.type, fault.message)


def cut_fault(fault: Fault) -> Fault:
    """Cut an error to what a record can carry: of a traceback the end says most."""
    for number in (fault.exit_code, fault.signal):
        if number is not None and abs(number) > 2**53:
            raise BadInput(f"error: {limits.quote(number)} is neither an exit code nor a signal")
    trace = fault.traceback
    if trace is not None and len(trace) > limits.ERROR_TEXT:
        trace = "…\n" + trace[2 - limits.ERROR_TEXT :]
    return replace(
        fault,
        type=limits.cut(fault.type, limits.ERROR_TYPE),
        message=limits.cut(fault.message, limits.ERROR_TEXT),
        traceback=trace,
    )
