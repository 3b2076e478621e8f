"""Reading what somebody has written for a setting: each BadInput says how to write it."""

from __future__ import annotations

from stayer.core import units
from stayer.core.errors import BadInput
from stayer.core.liveness.judge import BEATS_IN_A_LEASE
from stayer.core.safe_text import LOG_LEVELS
from stayer.core.submit.names import check_word
from stayer.core.units import CENTURY

SMALLEST_LEASE = 2.0
SHORTEST_HEARTBEAT_S = 0.1
MOST_THREADS = 1000
FOREVER = CENTURY
FENCES = ("freeze", "kill", "keep")
ISOLATIONS = ("pidns",)


def parse_text(value: object) -> str:
    """Any text but none."""
    if not isinstance(value, str) or not value.strip():
        raise BadInput(f'{value!r} is not text: write for example "name"')
    return value


def parse_submitter(value: object) -> str:
    """Any text of one line that fits; `none` is nothing."""
    written = parse_text(value)
    if written == "none":
        return ""
    check_word("submitter", written)
    return written


def parse_whole_number(value: object) -> int:
    """0, 1, 2 …"""
    written = value if isinstance(value, str) else repr(value)
    if isinstance(value, bool) or not (written.isdecimal() and len(written) < 10):
        raise BadInput(f"{written!r} is not a whole number: write for example 0 or 3")
    return int(written)


def parse_duration(value: object) -> float:
    """Read a duration."""
    return units.duration(value if isinstance(value, str | int | float) else str(value))


def parse_lease(value: object) -> float:
    """Read a duration that leaves the time to freeze what runs."""
    found = parse_duration(value)
    if found < SMALLEST_LEASE:
        shown = units.format_duration(found)
        raise BadInput(f"{shown} is too short: the smallest lease is {SMALLEST_LEASE:.0f}s")
    return found


def parse_heartbeat(value: object) -> float:
    """Read how often a lease is renewed."""
    found = parse_duration(value)
    if found < SHORTEST_HEARTBEAT_S:
        shown = units.format_duration(found)
        raise BadInput(f"{shown} is too short: the shortest time between heartbeats is 0.1s")
    return found


def check_heartbeat(heartbeat: float | None, lease: float) -> None:
    """Raise BadInput if a lease would not be renewed often enough: two heartbeats in a row may be
    late before anybody takes a worker for silent.
    """
    most = lease / BEATS_IN_A_LEASE
    if heartbeat is not None and heartbeat > most:
        raise BadInput(
            f"a heartbeat every {units.format_duration(heartbeat)} is too seldom for a lease of "
            f"{units.format_duration(lease)}: give {units.format_duration(most)} or less, or a "
            "longer lease"
        )


def parse_store(value: object) -> str:
    """Read the URL of a store. `sqlite:///name` is relative to the working directory; written in a
    file, to that file's folder.
    """
    url = parse_text(value)
    if url.startswith("memory:"):
        return url
    scheme, separator, _ = url.partition("://")
    if not separator or not scheme.replace("+", "").isalnum():
        shown = repr(url) if "@" not in url else "what is given"  # it may have a password
        raise BadInput(
            f"{shown} is not the URL of a store: write for example sqlite:///tasks.db (in the "
            "working directory), sqlite:////data/tasks.db, redis://host:6379/0, or "
            "http://host:8787 (a server)"
        )
    return url


def parse_count(value: object) -> int:
    """1, 2, 3 …"""
    found = parse_whole_number(value)
    if not found:
        raise BadInput(f"{value!r} is too few: write 1 or more")
    return found


def parse_threads(value: object) -> int:
    """1, 2, 3 … 1000."""
    found = parse_count(value)
    if found > MOST_THREADS:
        raise BadInput(f"{value!r} is too many: there may be {MOST_THREADS} in one process")
    return found


def parse_size(value: object) -> int:
    """Read a size."""
    return units.size(value if isinstance(value, str | int | float) else str(value))


def parse_memory(value: object) -> int:
    """Read a size that a process can live with."""
    return units.memory(value if isinstance(value, str | int | float) else str(value))


def parse_flag(value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise BadInput(f"{value!r} is neither true nor false")
    return value


def parse_switch(value: object) -> bool:
    """Read a flag that a variable may say, too."""
    meant = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if isinstance(value, str) and value.strip().lower() in meant:
        return meant[value.strip().lower()]
    return parse_flag(value)


def parse_texts(value: object) -> tuple[str, ...]:
    """Read one text, or a list of them."""
    return tuple(map(parse_text, value if isinstance(value, list) else [value]))


def parse_variables(value: object) -> tuple[str, ...]:
    """Read a table of names and values, or a list of `NAME=VALUE`."""
    if isinstance(value, dict):
        return tuple(f"{name}={content}" for name, content in value.items())
    return parse_texts(value)


def parse_retention(value: object) -> float:
    """Read a duration, or `forever`."""
    return FOREVER if value == "forever" else parse_duration(value)


def parse_port(value: object) -> int:
    """Read a port; 0 for any that is free."""
    found = parse_whole_number(value)
    if found > 65535:
        raise BadInput(f"{value!r} is no port: write a number up to 65535")
    return found


def parse_prefix(value: object) -> str:
    """Read the path below which a proxy serves us: `/stayer`, or nothing."""
    text = value.rstrip("/") if isinstance(value, str) else value
    if text == "":
        return ""
    if not isinstance(text, str) or not text.startswith("/") or "//" in text or "%" in text:
        raise BadInput(f"{value!r} is not a path: write for example /stayer")
    return text


def parse_fence(value: object) -> str:
    """Read what becomes of tasks whose lease is over."""
    if value not in FENCES:
        raise BadInput(f"{value!r} is none of {', '.join(FENCES)}")
    return str(value)


def parse_isolation(value: object) -> str:
    """Read how tasks are kept apart from the rest of the machine."""
    if value not in ISOLATIONS:
        raise BadInput(f"{value!r} is none of {', '.join(ISOLATIONS)}")
    return str(value)


def parse_log_level(value: object) -> str:
    """Read how important something has to be to be logged."""
    if value not in LOG_LEVELS:
        raise BadInput(f"{value!r} is none of {', '.join(LOG_LEVELS)}")
    return str(value)
