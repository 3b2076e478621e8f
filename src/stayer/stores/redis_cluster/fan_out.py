"""A way round the shards on which one that can't be reached holds up none of the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from stayer.core.errors import StoreUnreachable

if TYPE_CHECKING:
    from stayer.stores.redis_cluster.router import Shards
    from stayer.stores.redis_cluster.shard import ShardStore

T = TypeVar("T")
_LONG_S = 1.0
"""A node that has not answered for so many seconds is not asked again on the way."""


class FanOut:
    """Does steps, and notes what could not be done."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self.misses = 0
        """How many steps could not be done."""
        self._why: StoreUnreachable | None = None
        self._wasted = 0.0
        self._is_any_done = False
        self._silent: set[object] = set()

    @property
    def why(self) -> str:
        """What kept the last step from being done."""
        return str(self._why)

    @property
    def is_slow(self) -> bool:
        """So much time was lost by waiting for no answer that the rest had better be left for
        later.
        """
        return self._wasted > _LONG_S

    def attempt(self, step: Callable[[], T]) -> T | None:
        """Return what comes of a step; None if what it needs can't be reached."""
        began_at = time.monotonic()
        try:
            answer = step()
        except StoreUnreachable as error:
            self.misses += 1
            self._why = error
            self._wasted += time.monotonic() - began_at
            return None
        self._is_any_done = True
        return answer

    def at(self, queue: str, step: Callable[[], T]) -> T | None:
        """Attempt a step that needs a certain queue."""
        try:
            server = self.shards.server_of(queue).node()
        except StoreUnreachable as error:
            self.misses += 1
            self._why = error
            return None
        if server in self._silent:
            return None
        wasted = self._wasted
        answer = self.attempt(step)
        if self._wasted - wasted > _LONG_S:
            self._silent.add(server)
        return answer

    def is_sound(self, queue: str) -> bool:
        """Return whether what is changed there will be confirmed, if it has to be, as far as is
        known. To ask is not to have done something.
        """
        is_any_done = self._is_any_done
        found = self.at(queue, self.shards.server_of(queue).sound) is not None
        self._is_any_done = is_any_done
        return found

    def all(self, step: Callable[[ShardStore], T]) -> Iterator[T]:
        """Yield what comes of a step in each shard that can be reached. Raises if none can be."""
        yield from self.each(step)
        self.check()

    def each(self, step: Callable[[ShardStore], T]) -> Iterator[T]:
        """Do a step in each shard that can be reached, if need be in none."""
        for name in self.shards.names():
            shard = self.shards.of(name)
            answer = self.at(name, lambda shard=shard: step(shard))  # type: ignore[misc]
            if answer is not None:
                yield answer

    def check(self) -> None:
        """Raise if nothing could be done."""
        if self._why is not None and not self._is_any_done:
            raise self._why
