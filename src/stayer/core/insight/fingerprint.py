"""Which failures are of one fault: a fingerprint, the same for what went wrong in the same way.

It is made of what runs (the kind of the task), how it ended, the type of its error, where that was
raised (the innermost frames of a Python traceback, without line numbers, so that it outlives an
edit elsewhere in the file), and the first line of its message without what differs from task to
task: numbers, ids, addresses, paths, quoted words. Of a command that is all its last line of
output.
"""

from __future__ import annotations

import hashlib
import re

from stayer.core.model import Ending, Fault

LENGTH = 12
_FRAMES = 3
_TRACED = 64_000
"""So much of the end of a traceback: what a task wrote may be of any length, and whoever looks must
not be kept from other work.
"""
_LOOKED_AT = 500
"""So many characters of a message tell what it is about."""
_FRAME = re.compile(r'^[ \t]*File "([^"\n]{1,1000})", line \d+, in (.{1,200})$', re.MULTILINE)
_VARIABLE = (
    (re.compile(r"\b[a-zA-Z][a-zA-Z+.-]{0,19}://[^\s'\"<>)]+"), "<url>"),
    (re.compile(r"(['\"`])(?:(?!\1).){1,200}\1"), "<text>"),
    (re.compile(r"(?<![\w.])(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@%+=,~-]+)+[/\\]?"), "<path>"),
    (re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.-]+"), "<address>"),
    (re.compile(r"\b0[xX][0-9a-fA-F]+\b"), "<hex>"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b(?=[a-zA-Z_-]*\d)(?=[\d_-]*[a-zA-Z])[\w-]{8,}\b"), "<id>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "<n>"),
)
"""What differs from one failure to the next, in the order in which it is looked for."""


def fingerprint(kind: str, ending: Ending, fault: Fault | None) -> str:
    """Return the fingerprint of a task of this kind that failed so."""
    return digest(shape(ending, fault), kind)


def digest(shape: str, kind: str) -> str:
    """Hash a shape to a short word. Scripts of stores make the same."""
    text = f"{shape}\n{kind}".encode("utf-8", "surrogatepass")
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()[:LENGTH]


def shape(ending: Ending, fault: Fault | None) -> str:
    """Return what all failures of one fault have in common, apart from what the task runs."""
    if fault is None:
        return ending
    parts = [ending, fault.type, f"{fault.exit_code} {fault.signal}"]
    frames = _frames(fault.traceback or "")
    parts += frames
    parts.append(alike(_first_line(fault.message)))
    if ending == "error" and fault.type == "ExitCode" and not frames:
        # The code alone says next to nothing; what it printed last is why it ended.
        parts.append(alike(_last_line(fault.traceback or "")))
    return "\n".join(parts)


def alike(line: str) -> str:
    """Remove from a line what differs from task to task."""
    for pattern, word in _VARIABLE:
        line = pattern.sub(word, line)
    return line


def _frames(traceback: str) -> list[str]:
    """Return the innermost frames, file and function; the same again and again counts once."""
    found: list[str] = []
    for path, function in _FRAME.findall(traceback[-_TRACED:]):
        file = path.replace("\\", "/").rpartition("/")[2]
        frame = f"{file} {function.strip()}"
        if frame not in found[-1:]:
            found.append(frame)
    return found[-_FRAMES:]


def _first_line(text: str) -> str:
    return text.strip()[:_LOOKED_AT].partition("\n")[0].rstrip()


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2].strip()[:_LOOKED_AT]
