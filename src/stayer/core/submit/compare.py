"""In what a task that is there is another than the one that was submitted under the same id."""

from __future__ import annotations

from stayer.core import codec
from stayer.core.model import NewTask, Task


def find_differences(new: NewTask, there: Task) -> list[str]:
    """Return which of the fields that say what is to be run differ."""
    found = [
        field
        for field in ("queue", "name", "command")
        if getattr(there, field) != getattr(new, field)
    ]
    packed = codec.pack(new.parameters, "parameters", codec.PARAMETERS_LIMIT)
    if codec.unpack(packed) != there.parameters:  # as stored: a tuple has become a list
        found.append("parameters")
    return found
