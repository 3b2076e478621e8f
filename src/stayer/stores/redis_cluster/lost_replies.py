"""Answers that got lost: a queue that did not answer may have given tasks to a worker that knows
nothing of them. While others answered, nobody saw an error, after which a worker compares what it
has with what it holds; so it gets one as soon as the queue can be asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from stayer.core.errors import LeaseLost, StoreUnreachable
from stayer.core.queue_model import QueueInfo
from stayer.stores.redis_cluster.fan_out import FanOut

if TYPE_CHECKING:
    from stayer.stores.redis_cluster.router import Shards

T = TypeVar("T")


class LostReplies:
    """The workers of this process, with the queues that did not answer when they wanted tasks."""

    def __init__(self, introduce: Callable[[str, str], bool]) -> None:
        """`introduce` lets a queue know a worker, unless that may not take tasks."""
        self._introduce = introduce
        self._missed: set[tuple[str, str]] = set()

    def ask(
        self,
        fan_out: FanOut,
        worker: str,
        queue: str,
        step: Callable[[], T],
        *,
        wants_tasks: bool = True,
    ) -> T | None:
        """Return what a queue says to a worker, which is introduced there if need be. None if that
        could not be heard; if it may have given something all the same, that is noted.
        """
        try:
            answer = fan_out.at(queue, step)
        except LeaseLost:
            introduced = fan_out.attempt(partial(self._introduce, worker, queue))
            if introduced is False:
                raise
            if introduced is None:
                return None  # it gives nothing to whom it does not know
            answer = fan_out.at(queue, step)
        if answer is None and wants_tasks:
            self._missed.add((worker, queue))
        return answer

    def look(self, fan_out: FanOut, worker: str, queues: Sequence[str]) -> None:
        """Raise StoreUnreachable, once, if one of these answers again."""
        missed = [queue for queue in dict.fromkeys(queues) if (worker, queue) in self._missed]
        back = [
            queue
            for queue in missed
            if fan_out.at(queue, partial(_answer, fan_out.shards, queue)) is not None
        ]
        if back:
            self._missed.difference_update((worker, queue) for queue in back)
            raise StoreUnreachable(
                f"{fan_out.shards.nodes.url} answers again for {', '.join(back)}: compare what you "
                "have with what you hold, for an answer may have got lost, and ask again"
            )


def _answer(shards: Shards, queue: str) -> list[QueueInfo]:
    """Ask a queue whose answers are confirmed, if they have to be: others would get lost
    again.
    """
    shards.server_of(queue).sound()
    return shards.of(queue).queues([queue])
