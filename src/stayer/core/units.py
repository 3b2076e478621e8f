"""Durations, sizes and moments: how people write them, how they read them.

Inside, durations and moments are seconds (float) and sizes bytes (int). Called by the doors:
command line, configuration, HTTP, submissions.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Never

from stayer.core.errors import BadInput
from stayer.core.limits import UNIT, quote

MINUTE, HOUR, DAY, WEEK = 60.0, 3600.0, 86400.0, 604800.0
CENTURY = 36525 * DAY
"""The longest duration, and how far ahead a moment may lie: beyond is surely a mistake."""

DURATION_EXAMPLES = "write for example 250ms, 90s, 12h, 1h30m, 2d or 1w (a bare number is seconds)"
SIZE_EXAMPLES = "write for example 512M, 8G, 500MB, 1.5GiB (binary) or 1048576"
MOMENT_EXAMPLES = (
    "write for example 2026-11-15T20:30:00Z, 2026-11-15 20:30 or 20:30 (local time), +10m, now, "
    "or epoch seconds"
)

_LEAST_MEMORY = 100_000

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_PLAIN = re.compile(_NUMBER)
_DURATION = re.compile(
    rf"(?:{_NUMBER}w\s*)?(?:{_NUMBER}d\s*)?(?:{_NUMBER}h\s*)?(?:{_NUMBER}m(?:in)?\s*)?"
    rf"(?:{_NUMBER}s(?:ec)?\s*)?(?:{_NUMBER}ms\s*)?",
    re.IGNORECASE,
)
_FACTORS = (WEEK, DAY, HOUR, MINUTE, 1.0, 0.001)
_SIZE = re.compile(rf"{_NUMBER}\s*(?:([kmgtp])(i?b?)|b)?", re.IGNORECASE)
# Shorter numbers are more likely a year, a date (20261115) or a delay than a second of the 1970s.
_EPOCH = re.compile(r"[0-9]{9,}(?:\.[0-9]+)?")
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def duration(text: str | float) -> float:
    """Seconds, from `250ms`, `90s`, `12h`, `1h30m`, `2d`, `1w`, or a number of seconds."""
    if isinstance(text, str):
        seconds = _seconds(text)
    elif isinstance(text, bool):
        _refuse(text, "a duration", DURATION_EXAMPLES)
    else:
        seconds = text
    if not 0 <= seconds <= CENTURY:  # also false for NaN
        _refuse(text, "a duration between 0 and 100 years", DURATION_EXAMPLES)
    return float(seconds)


def as_wait(value: object) -> float | None:
    """Return how long a task that runs asks to be left alone; None if that is no such number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value < CENTURY:
        return None  # also if it is no number at all
    return max(0.0, float(value))


def _short(text: str, wanted: str, examples: str) -> str:
    """Without spaces around it. What is too long is refused before any pattern sees it."""
    if len(text) > UNIT:
        _refuse(text, wanted, examples)
    return text.strip()


def _seconds(text: str) -> float:
    text = _short(text, "a duration", DURATION_EXAMPLES)
    if plain := _PLAIN.fullmatch(text):
        return float(plain[1])
    parts = _DURATION.fullmatch(text)
    if parts is None or not any(parts.groups()):
        _refuse(text, "a duration", DURATION_EXAMPLES)
    pairs = zip(parts.groups(), _FACTORS, strict=True)
    return sum(float(number) * factor for number, factor in pairs if number)


def size(text: str | float) -> int:
    """Bytes. K, M, G, T, P and kB … PB count in 1000s, as sizes are shown; KiB … PiB in 1024s."""
    if isinstance(text, str):
        count = _bytes(text)
    elif isinstance(text, int) and not isinstance(text, bool):
        count = text
    else:
        _refuse(text, "a size", SIZE_EXAMPLES)
    if not 0 <= count < 2**63:
        _refuse(text, "a size between 0 and 8 EiB", SIZE_EXAMPLES)
    return count


def memory(text: str | float) -> int:
    """Read a size that a process can live with: a few bytes are a unit that was forgotten."""
    count = size(text)
    if isinstance(text, str) and 0 < count < _LEAST_MEMORY:
        number = text.strip()
        hint = f"write {number}G or {number}M" if number.isdecimal() else "that is too little"
        raise BadInput(f"{text!r} is {count:,} {'byte' if count == 1 else 'bytes'}: {hint}")
    return count


def _bytes(text: str) -> int:
    parts = _SIZE.fullmatch(_short(text, "a size", SIZE_EXAMPLES))
    if parts is None:
        _refuse(text, "a size", SIZE_EXAMPLES)
    number, prefix, suffix = parts.groups()
    base = 1024 if suffix and suffix.lower().startswith("i") else 1000
    factor = base ** (" kmgtp".index(prefix.lower())) if prefix else 1
    return round(float(number) * factor) if "." in number else int(number) * factor


def moment(text: str | float, now: float) -> float:
    """Epoch seconds, from RFC 3339, an ISO date or time of the local zone, `HH:MM` (the next one),
    `+10m`, `now`, or epoch seconds.
    """
    found = _moment(_quote(text), now) if isinstance(text, str) else text
    if isinstance(found, bool) or not 0 <= found <= _LATEST:
        _refuse(text, "a moment between the years 1970 and 9999", MOMENT_EXAMPLES)
    if found > now + CENTURY:
        _refuse(text, "a moment in the next 100 years", MOMENT_EXAMPLES)
    return float(found)


def instant(text: str | float) -> float:
    """Epoch seconds, from what needs no clock to be understood: RFC 3339, ISO, epoch seconds."""
    found = _calendar(_quote(text)) if isinstance(text, str) else text
    if isinstance(found, bool) or not 0 <= found <= _LATEST:
        _refuse(text, "a moment between the years 1970 and 9999", MOMENT_EXAMPLES)
    return float(found)


def _quote(text: str) -> str:
    return _short(text, "a moment", MOMENT_EXAMPLES)


def _moment(text: str, now: float) -> float:
    if text.lower() == "now":
        return now
    if text.startswith("+"):
        return now + duration(text[1:])
    if clock := _CLOCK.fullmatch(text):
        return _next_time(int(clock[1]), int(clock[2]), int(clock[3] or 0), now)
    return _calendar(text)


def _next_time(hour: int, minute: int, second: int, now: float) -> float:
    """Return the next such time of day: a clock change may give a day two of it, or none."""
    today = datetime.fromtimestamp(now).replace(
        hour=hour, minute=minute, second=second, microsecond=0
    )
    for days in range(3):
        for fold in (0, 1):
            found = (today + timedelta(days)).replace(fold=fold).timestamp()
            back = datetime.fromtimestamp(found)
            if found > now and (back.hour, back.minute) == (hour, minute):
                return found
    raise BadInput(f"there is no {hour:02}:{minute:02} in the next days: {MOMENT_EXAMPLES}")


def _calendar(text: str) -> float:
    if _EPOCH.fullmatch(text):
        return float(text)
    try:
        return datetime.fromisoformat(text.upper()).timestamp()
    except (ValueError, OverflowError, OSError):
        _refuse(text, "a moment", MOMENT_EXAMPLES)


def format_duration(seconds: float) -> str:
    """Format a duration for people: `45ms`, `12.3s`, `5m 03s`, `1h 02m`, `3d 4h`."""
    if not math.isfinite(seconds):
        return "?"
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms" if seconds >= 0.0005 else "0s"
    if seconds < 59.95:
        return f"{seconds:.1f}s".replace(".0s", "s")
    if seconds < HOUR - 0.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes}m {rest:02}s"
    if seconds < DAY - 30:
        hours, rest = divmod(round(seconds / MINUTE), 60)
        return f"{hours}h {rest:02}m"
    days, rest = divmod(round(seconds / HOUR), 24)
    return f"{days}d {rest}h"


def ago(seconds: float) -> str:
    """Say how long ago, for people: `just now`, `12s ago`, `3h ago`; what is to come: `in 5m`."""
    if not math.isfinite(seconds):
        return "?"
    distance = abs(seconds)
    if distance < 1:
        return "just now"
    units = ((DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (1.0, "s"))
    text = next(f"{distance // unit:.0f}{name}" for unit, name in units if distance >= unit)
    return f"{text} ago" if seconds > 0 else f"in {text}"


def format_size(count: float) -> str:
    """Format a size for people, in 1000s as the limits are: `512 B`, `1.4 MB`, `23 GB`."""
    if not math.isfinite(count):
        return "?"
    if count < 0:
        return "-" + format_size(-count)
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if count < 999.5 or unit == "PB":
            text = f"{count:.1f}" if count < 9.95 and unit != "B" else f"{count:.0f}"
            return f"{text.removesuffix('.0')} {unit}"
        count /= 1000
    raise AssertionError


def format_limit(limit: float) -> str:
    """Format a size as somebody may have written it: `50 MB`, `1 GiB`."""
    count = int(limit)
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        whole, rest = divmod(count, 1024**power)
        if whole and not rest and count % 1000:
            return f"{whole} {unit}"
    return format_size(count)


@lru_cache(maxsize=1024)  # what is done together has the same time
def rfc3339(epoch: float) -> str:
    """UTC to the millisecond, `2026-11-15T20:33:20.123Z`; beyond the calendar, its nearest end."""
    known = min(_LATEST, max(_EARLIEST, epoch))  # in this order, NaN is the earliest
    return datetime.fromtimestamp(known, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _refuse(text: object, wanted: str, examples: str) -> Never:
    quoted = text if isinstance(text, str) else quote(text)
    raise BadInput(f"{quote(quoted)} is not {wanted}: {examples}")
