"""How often tasks of a queue may begin: a bucket that fills with time, from which each start takes.

Pure: the stores keep `tokens` and `at`, and do this sum in the step in which they reserve.
"""

from __future__ import annotations

import re

from msgspec import Struct

from stayer.core.errors import BadInput
from stayer.core.limits import UNIT, quote
from stayer.core.queue_model import Rate
from stayer.core.units import DAY, HOUR, MINUTE, duration

_ALMOST = 1e-6
"""So much of a token may be missing: whoever sleeps until it comes must find it."""
_WRITTEN = re.compile(r"(\d+)\s*/\s*(\S.*)")


class Bucket(Struct, frozen=True):
    """What a queue's rate leaves: `tokens` at the moment `at` (None: never used, so full)."""

    rate: Rate
    tokens: float
    at: float | None

    def level(self, now: float) -> float:
        """Return how many tasks could begin at once. A clock that was set back takes nothing away;
        if that was by more than the rate's time, nobody waits for it to be that late again.
        """
        if self.at is None or self.at - now > self.rate.per:
            return float(self.rate.count)
        refill = max(0.0, now - self.at) * self.rate.count / self.rate.per
        return min(float(self.rate.count), self.tokens + refill)

    def room(self, now: float) -> int:
        """Return how many tasks could begin at once, as a whole number."""
        return int(self.level(now) + _ALMOST)

    def next(self, now: float) -> float | None:
        """Return when the next task may begin; None if one may now."""
        level = self.level(now)
        if level + _ALMOST >= 1:
            return None
        return now + (1 - level) * self.rate.per / self.rate.count


def parse(written: str) -> Rate:
    """Read a rate as people write it: `100/1h`, `5/min`."""
    is_short = isinstance(written, str) and len(written) <= UNIT
    found = _WRITTEN.fullmatch(written.strip()) if is_short else None
    if found is None:
        raise BadInput(
            f"rate {quote(written)}: write how many in which time, such as 100/1h or 5/10s"
        )
    text = found[2] if found[2][0].isdigit() else f"1{found[2]}"
    try:
        per = duration(text)
    except BadInput as error:
        raise BadInput(f"rate {written!r}: {error}") from None
    rate = Rate(int(found[1]), float(per))
    check(rate)
    return rate


def check(rate: Rate) -> None:
    """BadInput if it can't be."""
    if not 1 <= rate.count < 2**31 or not 0.001 <= rate.per <= 366 * 86400.0:
        raise BadInput(
            f"rate {quote(rate.count)}/{rate.per:g}s: give at least 1, in a time of a millisecond "
            "to a year; to let nothing begin, pause the queue"
        )


def format_rate(rate: Rate) -> str:
    """Write a rate as people do, and as `parse` reads it."""
    for name, unit in (("d", DAY), ("h", HOUR), ("m", MINUTE)):
        if rate.per >= unit and rate.per % unit == 0:
            return f"{rate.count}/{rate.per / unit:.0f}{name}"
    return f"{rate.count}/{rate.per:g}s"
