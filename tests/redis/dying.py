"""Clients of a cluster that die between two requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.redis.cluster import ClusterStore
from tests.servers.cluster import Cluster


class Killed(BaseException):
    """The client is gone; what it asked for last was done."""


class Mortal:
    """A client of a cluster that dies after so many requests."""

    def __init__(self, url: str, requests: int) -> None:
        store = open_store(url)
        assert isinstance(store, ClusterStore)
        self.store = store
        self._left = requests
        nodes = store._nodes
        nodes.at = self._counted(nodes.at)  # type: ignore[method-assign]
        nodes.run_many = self._counted(nodes.run_many)  # type: ignore[method-assign]

    def _counted(self, request: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*arguments: Any) -> Any:
            answer = request(*arguments)
            self._left -= 1
            if self._left < 0:
                raise Killed
            return answer

        return ask


def deaths(
    cluster: Cluster,
    stride: int,
    prepare: Callable[[Store], Any],
    step: Callable[[Store, Any], Any],
) -> Iterator[tuple[Store, Any]]:
    """Somebody else's view of a fresh store after a client died in it after so many requests
    of the step, then after `stride` more, until one lives.
    """
    for requests in count(0, stride):
        url = cluster.url()
        witness = open_store(url)
        prepared = prepare(witness)
        mortal = Mortal(url, requests)
        try:
            step(mortal.store, prepared)
            died = False
        except Killed:
            died = True
        yield witness, prepared
        mortal.store.close()
        witness.close()
        if not died:
            assert requests > 0, "it asked for nothing"
            return
