"""Replicas that have to confirm what must not get lost (`?wait=1`)."""

from __future__ import annotations

import time
from typing import Any

from stayer.core.errors import StoreUnreachable
from stayer.stores.redis.connection.url import Address

_BRIEF_SHARE, _BRIEF_TIMES = 0.1, 2.0
"""How long a node that has just not answered is waited for, and how long that is so: in times
of what the URL grants."""


class Unconfirmed(StoreUnreachable):
    """The server has done it, but too few replicas have it: a failover can lose it."""

    unsure = True


class Replicas:
    """Those of one server, and whether they have confirmed what they were last asked for."""

    def __init__(self, address: Address) -> None:
        self.wanted = address.replicas
        self.confirm: bool | None = None
        """What is known of them; None: nothing yet."""
        self._address = address
        self._brief_until = 0.0

    def wait_s(self) -> float | None:
        """Return how long to wait for them now, in seconds; None if nobody has to. Of a cluster the
        other nodes go on: who asks them in turn must not be held up by the same one each time.
        """
        if not self.wanted:
            return None
        granted, is_brief = self._address.confirming, time.monotonic() < self._brief_until
        return granted * _BRIEF_SHARE if is_brief and self._address.is_part else granted

    def question(self, patience: float) -> tuple[Any, ...]:
        """Return how many have what was written; the command takes 0 ms for ever."""
        return "WAIT", self.wanted, max(1, round(patience * 1000))

    def check(self, confirmed: int, patience: float | None) -> None:
        """Raise Unconfirmed if these are too few, of all that were waited for."""
        if patience is None:
            return
        self.confirm = confirmed >= self.wanted
        if self.confirm:
            self._brief_until = 0.0
            return
        granted = self._address.confirming
        if patience == granted:
            self._brief_until = time.monotonic() + granted * _BRIEF_TIMES
        raise Unconfirmed(self._words(confirmed, patience))

    def _words(self, confirmed: int, patience: float) -> str:
        counted = f"{confirmed} of {self.wanted} replicas confirmed"
        if self._address.is_part:
            return (
                f"{self._address.url}: {counted} a step of what was asked within {patience:g} s: "
                "it may be done or not, and a failover can lose it. Ask again when they are back "
                "(`stayer doctor` says where they are missing); to submit a task again under the "
                "same id is harmless"
            )
        return (
            f"{self._address.url} has done what was asked, but {counted} it within {patience:g} s: "
            "a failover can lose it. Ask again when they are back; to submit a task again under "
            "the same id is harmless"
        )
