"""Who is dead? Decided without comparing clocks, so that nobody is declared lost by mistake."""

from __future__ import annotations

from collections.abc import Iterable

from stayer.core.worker_model import Suspect

BEATS_IN_A_LEASE = 8
_GAP = 2.5
"""Missing more than two of its own beats, a judge has seen too little to go on."""


_LOOKS = 4
"""A judge with a long lease looks seldom: two looks may have an outage between them that hit the
suspect too, and it must have the time to come back."""


class Judge:
    """Watches suspects at its own beats, by its own clock.

    A worker is dead when its number has stood still, at every beat of an unbroken row of the
    judge's own, for that worker's whole lease and a margin. A judge that slept, or lost the store
    for a while, begins anew: nobody is declared lost for an outage that hits everybody.
    """

    def __init__(self, interval: float) -> None:
        self.interval = interval
        """How often it is to look, in seconds."""
        self._last: float | None = None
        self._seen: dict[str, tuple[int, float, int]] = {}

    def observe(self, moment: float, suspects: Iterable[Suspect]) -> dict[str, int]:
        """Note what a beat at this moment told; return who is lost, with the number seen."""
        if self._last is not None and moment - self._last > _GAP * self.interval:
            self._seen = {}
        self._last = moment
        seen: dict[str, tuple[int, float, int]] = {}
        dead: dict[str, int] = {}
        for suspect in suspects:
            number, since, looks = self._seen.get(suspect.worker, (suspect.number, moment, 0))
            if number != suspect.number:
                since, looks = moment, 0
            seen[suspect.worker] = suspect.number, since, looks + 1
            long_enough = moment - since > suspect.lease * (1 + 1 / BEATS_IN_A_LEASE)
            if long_enough and looks >= _LOOKS:
                dead[suspect.worker] = suspect.number
        self._seen = seen
        return dead
