"""Values of fields as text on one line, by their kinds."""

from __future__ import annotations

from typing import Any

import msgspec

from stayer.core import codec, units
from stayer.core.fields import Field


def field_text(field: Field, value: Any) -> str:
    """Write what a field holds: a length of time as `10m`, a list as words, an object as JSON."""
    if value is None or value == ():
        return "none"
    match field.kind:
        case "moment":
            return units.rfc3339(value)
        case "seconds":
            return units.format_duration(value) if value else "none"
        case "bytes":
            return units.format_limit(value) if value else "none"
        case "words":
            return " ".join(value)
        case "value" | "object":
            return "bytes" if isinstance(value, bytes) else codec.encode(value)
        case "struct":
            return codec.encode(msgspec.to_builtins(value))
        case _:
            return str(value)
