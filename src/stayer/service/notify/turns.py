"""Whose turn it is among the URLs that tasks name: no host and no queue holds up the others.

Whoever may submit may name a URL that never answers, as often as they like. So a host is told by a
few at once and a queue by a few more; what comes above that stands in a short line, or is put back
for later: the later, the longer its host takes to answer.

Queues and hosts can be had in any number, and an owner can be invented. What can't be is a time in
which a host has answered. So hosts that have lately taken long share a quarter of the places, those
that nobody has tried yet share half, and the rest is there for those that answer.
"""

from __future__ import annotations

from collections import deque
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from stayer.core.notify.notices import Notice

LANES = 12
"""How many deliveries are under way at once. Half of them, which those to hosts that are new may
take, is more than a queue may."""
HOST_LANES, QUEUE_LANES = 2, 4
"""How many of them go to one host, and come from one queue."""
HOST_LINE = 16
"""How many more wait for those of a host to end."""
LONGEST_PAUSE_S = 600.0
"""What is put back is looked at again within this time."""
SLOW_S = 2.0
"""A host that takes longer than this is slow,"""
SLOW_FOR_S = 600.0
"""and is so for this time: one quick answer does not make up for it."""
KNOWN_HOSTS = 1000
"""Of so many hosts it is remembered how they answer, of each kind."""
_FIRST_PACE_S = 0.2
_LEAST_PACE_S = 0.05


Kind = Literal["new", "quick", "slow"]
"""How a host answers, as far as that is known."""


class Lane(Struct):
    """Somebody who tells one host of one thing after another."""

    host: str
    queue: str
    kind: Kind = "new"
    """Of whose places it has one."""


class Waiting(Struct, frozen=True):
    """A notice in the line of its host, and when it was taken."""

    notice: Notice
    since: float
    pause: float | None = None
    """Its host turned out to be slow, and there is no place for it: when it may come again."""


class _Share:
    """How many are under way of those who share something, and when the next of them may try."""

    def __init__(self, lanes: int) -> None:
        self.most = lanes
        self.lanes = 0
        self.pace = _FIRST_PACE_S
        self.line: deque[Waiting] = deque()
        self._next = 0.0

    def pause(self, now: float) -> float:
        """Return the time until the turn of one more that is put back."""
        self._next = max(now, self._next) + self.pace / self.most
        return min(self._next - now, LONGEST_PAUSE_S)

    @property
    def is_full(self) -> bool:
        return self.lanes >= self.most

    def is_idle(self, now: float) -> bool:
        return not self.lanes and not self.line and self._next <= now


class Turns:
    """Who may try now. Its user sees to it that one thread at a time asks."""

    def __init__(self, lanes: int) -> None:
        self._all = _Share(lanes)
        self._kinds: dict[Kind, _Share] = {
            "new": _Share(max(1, lanes // 2)),
            "quick": _Share(lanes),
            "slow": _Share(max(1, lanes // 4)),
        }
        self._quick: dict[str, None] = {}
        self._slow_until: dict[str, float] = {}
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
        self._queues.setdefault(notice.queue, _Share(QUEUE_LANES))
        lane = Lane(name, notice.queue, self._kind_of(name, now))
        full = [share for share in self._shares(lane) if share.is_full]
        if not full:
            for share in self._shares(lane):
                share.lanes += 1
            host.line.append(Waiting(notice, now))
            return lane
        if host.lanes and len(host.line) < HOST_LINE:
            host.line.append(Waiting(notice, now))
            return None
        return max(share.pause(now) for share in full) if host not in full else host.pause(now)

    def take_next(self, lane: Lane, now: float) -> Waiting | None:
        """Take what a lane is to tell next, or to put back; None ends it."""
        host = self._hosts[lane.host]
        may_go_on = self._move_to_kind(lane, now)
        if host.line:
            waiting = host.line.popleft()
            return waiting if may_go_on else replace(waiting, pause=host.pause(now))
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

    def _move_to_kind(self, lane: Lane, now: float) -> bool:
        """Let a lane have a place of the kind that its host is now; whether there is one."""
        kind = self._kind_of(lane.host, now)
        if kind == lane.kind:
            return True
        if self._kinds[kind].is_full:
            return False
        self._kinds[lane.kind].lanes -= 1
        self._kinds[kind].lanes += 1
        lane.kind = kind
        return True

    def _kind_of(self, host: str, now: float) -> Kind:
        if self._slow_until.get(host, now) > now:
            return "slow"
        return "quick" if host in self._quick else "new"

    def note(self, lane: Lane, seconds: float, now: float) -> None:
        """Note how long a try took, and so how its host answers."""
        for share in self._shares(lane):
            share.pace = max(_LEAST_PACE_S, seconds)
        self._quick.pop(lane.host, None)  # the newest are last
        if seconds > SLOW_S:
            self._slow_until.pop(lane.host, None)
            self._slow_until[lane.host] = now + SLOW_FOR_S
        else:
            self._quick[lane.host] = None
        for known in (self._quick, self._slow_until):
            if len(known) > KNOWN_HOSTS:
                del known[next(iter(known))]

    def forget_idle(self, now: float) -> None:
        """Keep nothing of those who have nothing to wait for."""
        for shares in (self._hosts, self._queues):
            for name in [name for name, share in shares.items() if share.is_idle(now)]:
                del shares[name]

    def _shares(self, lane: Lane) -> tuple[_Share, ...]:
        return (
            self._hosts[lane.host], self._queues[lane.queue], self._kinds[lane.kind], self._all,
        )  # fmt: skip


def host_of(url: str) -> str:
    """Return the host of a URL, however it is written; the same for all that are none."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""
