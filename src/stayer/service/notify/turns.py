"""Whose turn it is among the URLs that tasks name: no host and no queue holds up the others.

Whoever may submit may name a URL that never answers, as often as they like. So a host is told by a
few at once and a queue by a few more; what comes above that stands in a short line, or is put back
for later: the later, the longer its host takes to answer.
"""

from __future__ import annotations

from collections import deque
from urllib.parse import urlsplit

from msgspec import Struct

from stayer.core.notify.notices import Notice

HOST_LANES, QUEUE_LANES = 2, 4
"""How many deliveries to one host, and of one queue, are under way at once."""
HOST_LINE = 16
"""How many more wait for those of a host to end."""
LONGEST_PAUSE_S = 600.0
"""What is put back is looked at again within this time."""
_FIRST_PACE_S = 0.2
_LEAST_PACE_S = 0.05


class Lane(Struct, frozen=True):
    """Somebody who tells one host of one thing after another."""

    host: str
    queue: str


class Waiting(Struct, frozen=True):
    """A notice in the line of its host, and when it was taken."""

    notice: Notice
    since: float


class _Share:
    """How many are under way of those who share something, and when the next of them may try."""

    def __init__(self, lanes: int) -> None:
        self.most = lanes
        self.lanes = 0
        self.pace = _FIRST_PACE_S
        self.line: deque[Waiting] = deque()
        self._next = 0.0

    def pause(self, now: float) -> float:
        """The time until the turn of one more that is put back."""
        self._next = max(now, self._next) + self.pace / self.most
        return min(self._next - now, LONGEST_PAUSE_S)

    def is_idle(self, now: float) -> bool:
        return not self.lanes and not self.line and self._next <= now


class Turns:
    """Who may try now. Its user sees to it that one thread at a time asks."""

    def __init__(self, lanes: int) -> None:
        self._all = _Share(lanes)
        self._hosts: dict[str, _Share] = {}
        self._queues: dict[str, _Share] = {}

    @property
    def room(self) -> int:
        """How many notices can be made use of now, or so."""
        return (self._all.most - self._all.lanes) * HOST_LINE

    def admit(self, notice: Notice, now: float) -> Lane | float | None:
        """Put it into the line of its host: None. That may take one more who tells it: the lane
        that is to be begun. Or there is no place: the seconds after which it may come again.
        """
        name = host_of(notice.to)
        host = self._hosts.setdefault(name, _Share(HOST_LANES))
        queue = self._queues.setdefault(notice.queue, _Share(QUEUE_LANES))
        shares = (host, queue, self._all)
        full = [share for share in shares if share.lanes >= share.most]
        if not full:
            for share in shares:
                share.lanes += 1
            host.line.append(Waiting(notice, now))
            return Lane(name, notice.queue)
        if host.lanes and len(host.line) < HOST_LINE:
            host.line.append(Waiting(notice, now))
            return None
        return max(share.pause(now) for share in full) if host not in full else host.pause(now)

    def take_next(self, lane: Lane) -> Waiting | None:
        """Take what a lane is to tell next; None ends it."""
        host = self._hosts[lane.host]
        if host.line:
            return host.line.popleft()
        for share in self._shares(lane):
            share.lanes -= 1
        return None

    def abandon(self, lane: Lane) -> None:
        """End a lane that could not be begun, and forget what nobody else is there to tell."""
        for share in self._shares(lane):
            share.lanes -= 1
        host = self._hosts[lane.host]
        if not host.lanes:
            host.line.clear()

    def note(self, lane: Lane, seconds: float) -> None:
        """So long took a try."""
        for share in self._shares(lane):
            share.pace = max(_LEAST_PACE_S, seconds)

    def forget_idle(self, now: float) -> None:
        """Keep nothing of those who have nothing to wait for."""
        for shares in (self._hosts, self._queues):
            for name in [name for name, share in shares.items() if share.is_idle(now)]:
                del shares[name]

    def _shares(self, lane: Lane) -> tuple[_Share, ...]:
        return self._hosts[lane.host], self._queues[lane.queue], self._all


def host_of(url: str) -> str:
    """The host of a URL, however it is written; the same for all that are none."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""
