"""How a keeper holds all that its task has started: by the tree, a pid namespace, a cgroup."""

from __future__ import annotations

import os

from . import tree
from .cgroup import Cgroup
from .lean import signal


class Grip:
    """The means, the strongest first where there are several; the tree is always there."""

    def __init__(self, keeper: int, first: int | None, cgroup: Cgroup | None) -> None:
        self._first = first
        self._root = keeper if first is None else first
        self._cgroup = cgroup
        self._spare = None if cgroup is None else cgroup.holds

    def processes(self) -> list[tuple[int, tree.Stat]]:
        """All that live or wait to be reaped; those of our own not among them."""
        return tree.below(self._root)

    def freeze(self, deadline: float) -> bool:
        """Stop everything, by this time of `awake`. True: proven."""
        if self._cgroup is not None and not self._cgroup.freeze(deadline):
            return False
        return tree.freeze(self._root, deadline, self._spare)

    def frozen(self) -> bool:
        """Nothing moves."""
        if self._cgroup is not None and not self._cgroup.frozen():
            return False
        return tree.frozen(self._root, self._spare)

    def thaw(self) -> None:
        """Let everything go on."""
        tree.thaw(self._root, self._spare)
        if self._cgroup is not None:
            self._cgroup.thaw()

    def kill(self) -> None:
        """Kill everything without waking it."""
        if self._cgroup is not None:
            self._cgroup.kill()
        if self._first is None:
            tree.kill(self._root)
        else:
            os.kill(self._first, signal.SIGKILL)  # the kernel does the rest

    def ask(self, number: int) -> None:
        """A signal to each of them."""
        tree.send(self.processes(), number)
