"""Clients of a cluster that die between two requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.redis_cluster import ClusterStore
from tests.servers.cluster import Cluster


class Killed(BaseException):
    """The client is gone; what it asked for last was done."""


def die() -> None:
    """What ends a client."""
    raise Killed


class Mortal:
    """A client of a cluster to which something happens after so many requests."""

    def __init__(self, url: str, requests: int, happens: Callable[[], None] = die) -> None:
        store = open_store(url)
        assert isinstance(store, ClusterStore)
        self.store = store
        self._left = requests
        self._happens = happens
        self.has_happened = False
        nodes = store._nodes
        nodes.at = self._counted(nodes.at)  # type: ignore[method-assign]
        nodes.run_many = self._counted(nodes.run_many)  # type: ignore[method-assign]
        nodes.try_many = self._counted(nodes.try_many)  # type: ignore[method-assign]

    def _counted(self, request: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*arguments: Any) -> Any:
            answer = request(*arguments)
            self._left -= 1
            if self._left < 0 and (self._happens is die or not self.has_happened):
                self.has_happened = True
                self._happens()
            return answer

        return ask


class Slow(Mortal):
    """A client to which the same happens after every request."""

    def __init__(self, url: str, happens: Callable[[], None]) -> None:
        super().__init__(url, 0, happens)

    def _counted(self, request: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*arguments: Any) -> Any:
            answer = request(*arguments)
            self._happens()
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


def interruptions(
    cluster: Cluster,
    stride: int,
    prepare: Callable[[Store], Any],
    step: Callable[[Store], Any],
    meanwhile: Callable[[Store], None],
) -> Iterator[Store]:
    """The same with a client that lives, while somebody else does something after so many of its
    requests; in the end after all of them.
    """
    for requests in count(0, stride):
        url = cluster.url()
        other = open_store(url)
        prepare(other)
        mortal = Mortal(url, requests, lambda other=other: meanwhile(other))  # type: ignore[misc]
        step(mortal.store)
        if not mortal.has_happened:
            meanwhile(other)
        yield other
        mortal.store.close()
        other.close()
        if not mortal.has_happened:
            assert requests > 0, "it asked for nothing"
            return
