"""Answers that got lost: a queue that did not answer may have given tasks to a worker that knows
nothing of them. While others answered, nobody saw an error, after which a worker compares what it
has with what it holds; so it gets one as soon as the queue can be asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from stayer.core.errors import StoreUnreachable
from stayer.stores.redis.cluster.tour import Tour


class Unheard:
    """The workers of this process, with the queues that did not answer when they wanted tasks."""

    def __init__(self) -> None:
        self._missed: set[tuple[str, str]] = set()

    def note(self, worker: str, queue: str) -> None:
        """It may have given the worker something."""
        self._missed.add((worker, queue))

    def look(self, tour: Tour, worker: str, queues: Sequence[str]) -> None:
        """Raises StoreUnreachable, once, if one of these answers again."""
        missed = [queue for queue in dict.fromkeys(queues) if (worker, queue) in self._missed]
        back = [
            queue
            for queue in missed
            if tour.at(queue, partial(tour.shards.of(queue).queues, [queue])) is not None
        ]
        if back:
            self._missed.difference_update((worker, queue) for queue in back)
            raise StoreUnreachable(
                f"{tour.shards.nodes.url} answers again for {', '.join(back)}: compare what you "
                "have with what you hold, for an answer may have got lost, and ask again"
            )
