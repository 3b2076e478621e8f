"""Time that stands still until a test moves it."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

from stayer.client.values import Duration, Moment, epoch, seconds
from stayer.core.errors import BadInput


class Clock:
    """The time of a test's store. It stands still, and goes forward when told to."""

    def __init__(self, start: Moment | None = None) -> None:
        self._now = time.time() if start is None else epoch(start)
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self._now

    def __repr__(self) -> str:
        return f"<Clock at {self.datetime.isoformat(timespec='seconds')}>"

    @property
    def datetime(self) -> datetime:
        """What time it is, in UTC."""
        return datetime.fromtimestamp(self._now, UTC)

    def advance(self, time: Duration) -> None:
        """Move forward by this: seconds, `"90m"`, a timedelta."""
        step = seconds(time)
        with self._lock:
            self._now += step

    def move_to(self, moment: Moment) -> None:
        """Move forward to this moment; BadInput if it is past."""
        wanted = epoch(moment)
        with self._lock:
            if wanted < self._now:
                raise BadInput(f"the clock is at {self.datetime.isoformat()}: it can't go back")
            self._now = wanted
