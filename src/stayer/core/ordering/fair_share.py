"""Whose turn it is where owners (or keys) take turns: whose tasks have run least.

What has ended counts less with time, to a half after a day. What runs now counts in full, and as at
least a usual run: so a newcomer gets its turn at once, but not every place there is, and tasks that
are taken together don't all come from the same one. Pure; the stores keep a `Share` for each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from msgspec import Struct

HALF_LIFE = 86400.0
USUAL_RUN = 60.0
"""What a run counts for, in seconds, where none has ended yet."""
FORGOTTEN = 30 * HALF_LIFE
"""After so long nothing is left of what somebody used."""


class Share(Struct, frozen=True):
    """How long somebody's tasks have run, and how many they were, as it counted at a moment."""

    used: float = 0.0
    runs: float = 0.0
    at: float = 0.0

    def at_moment(self, now: float) -> Share:
        """Return what is left of the usage at a moment."""
        age = max(0.0, now - self.at)
        left = 0.5 ** (age / HALF_LIFE) if age < FORGOTTEN else 0.0
        return Share(self.used * left, self.runs * left, now)

    def after_run(self, ran: float, now: float) -> Share:
        """Return the usage with one more run, which ends now."""
        left = self.at_moment(now)
        return Share(left.used + max(0.0, ran), left.runs + 1, now)


class Turns:
    """Who has used how much, while tasks are chosen."""

    def __init__(
        self, shares: Mapping[str, Share], running: Iterable[tuple[str, float]], now: float
    ) -> None:
        """Begin with `running`: the share of every running task, and since when it runs."""
        known = {name: share.at_moment(now) for name, share in shares.items()}
        runs = sum(share.runs for share in known.values())
        used = sum(share.used for share in known.values())
        self._usual = used / runs if runs > 0 and used > 0 else USUAL_RUN
        self._used = {name: share.used for name, share in known.items()}
        for name, since in running:
            self._add(name, now - since)

    def usage_ms(self, share: str) -> int:
        """Return a share's usage in milliseconds: the less, the earlier it is its turn."""
        return math.floor(self._used.get(share, 0.0) * 1000 + 0.5)

    def take(self, share: str) -> None:
        """Count one more running task of a share."""
        self._add(share, 0.0)

    def _add(self, share: str, ran: float) -> None:
        self._used[share] = self._used.get(share, 0.0) + max(ran, self._usual)
