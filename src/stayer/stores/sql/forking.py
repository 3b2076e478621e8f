"""What a forked child must not share with its parent: locks, which another thread may have held at
the fork and nobody lets go of here; connections; threads, which did not come along.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """Something that has to begin anew in a child."""

    def after_fork(self) -> None:
        """Begin anew: this is a child, and there are no other threads yet."""


_known: weakref.WeakSet[Forked] = weakref.WeakSet()


def mind_forks(this: Forked) -> None:
    """Call its `after_fork` in each child, as long as it lives."""
    _known.add(this)


def _tell_all() -> None:
    for each in list(_known):
        each.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell_all)
