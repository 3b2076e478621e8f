"""Which queues there are: written down in the registry shard, and copied to other places.

What the registry shard has not heard of is nowhere. So while its node is away no queue can be
made, but the copies tell of all that there are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress

from stayer.core.errors import StoreUnreachable, StoreUnusable
from stayer.stores.redis.keys import key
from stayer.stores.redis_cluster.nodes import Nodes

logger = logging.getLogger("stayer.store")

COPIES = ("0", "1", "2", "3")
"""Their slots are as far from each other as can be, so mostly on several nodes."""


class Directory:
    """The names of all queues, and what tells this store from others."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._known: set[str] = set()
        self._lessons = 0

    def add(self, queues: Iterable[str]) -> None:
        """Make sure that whoever lists queues will see these."""
        if self._lessons != self._nodes.lessons:
            # A node may have been replaced by one that had not heard of all.
            self._known, self._lessons = set(), self._nodes.lessons
        fresh = sorted(set(queues) - self._known)
        if not fresh:
            return
        name = self._key("shards")
        try:
            if self._nodes.add_names("shards", fresh):
                self._nodes.ask(name, "SPUBLISH", name, "")  # so that watchers listen there too
        except StoreUnreachable:
            if not self._read_copies().issuperset(fresh):
                raise
        else:
            self._copy(fresh)
        self._known.update(fresh)

    def register_again(self, queues: Sequence[str]) -> None:
        """For a node that may have been replaced: of what is known, so that nobody has to wait."""
        self._nodes.add_names("shards", queues, waits=False)
        self._copy([name for name in queues if name in self._known])

    def names(self) -> list[str]:
        """All that there are, by name."""
        name = self._key("shards")
        try:
            found = _texts(self._nodes.ask(name, "SMEMBERS", name))
        except StoreUnreachable:
            if not (found := self._read_copies()):
                raise
        except StoreUnusable:
            if not (found := self._read_copies()):
                raise
            logger.warning(
                "the key %s can't be read: set aside, and made again of its copies", name
            )
            self._nodes.add_names("shards", sorted(found))
        return sorted(found)

    def copy_identity(self, identity: str) -> None:
        """Let others hear of it while the registry shard is away."""
        for copy in COPIES:
            name = self._key("identity_copy", copy)
            with suppress(StoreUnreachable):
                self._nodes.ask(name, "SET", name, identity)

    def read_identity_copy(self) -> str | None:
        """The one that was copied; None if nobody can tell."""
        for copy in COPIES:
            name = self._key("identity_copy", copy)
            with suppress(StoreUnreachable, StoreUnusable):
                if (found := self._nodes.ask(name, "GET", name)) is not None:
                    return str(found.decode())
        return None

    def _copy(self, queues: Sequence[str]) -> None:
        """To all places that can be reached: one is enough, and they are told again in time, so
        that no replica is waited for.
        """
        for copy in COPIES:
            with suppress(StoreUnreachable):
                self._nodes.add_names("shards_copy", queues, copy, waits=False)

    def _read_copies(self) -> set[str]:
        found: set[str] = set()
        for copy in COPIES:
            name = self._key("shards_copy", copy)
            with suppress(StoreUnreachable, StoreUnusable):
                found |= _texts(self._nodes.ask(name, "SMEMBERS", name))
        return found

    def _key(self, name: str, copy: str = "") -> str:
        return key(name, self._nodes.options.prefix, copy=copy)


def _texts(members: Iterable[bytes]) -> set[str]:
    """Without what is no text, and so no name of a queue."""
    found = set()
    for member in members:
        with suppress(UnicodeDecodeError):
            found.add(member.decode())
    return found - {""}
