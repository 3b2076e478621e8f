"""Near its data: a task may ask for the node on which one that it runs after has run.

Soft: for a while (`near_wait`, from when it could be taken on) only workers of that node
take it, then any. A node on which nobody could take it now is not waited for at all. The time is
the task's own and is not begun anew when another one gets the place it waited for, or else a busy
node would draw all tasks to it and leave the others idle. Pure; stores keep `near_node` and
`near_until`.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from stayer.core.model import Task

WAIT = 60.0
"""How long a task waits for its node if it does not say, in seconds."""


class Near(Struct, frozen=True):
    """A node that has a task for itself for so many seconds."""

    node: str
    wait: float


def near(task: Task, upstream: Task | None) -> Near | None:
    """Return where the task is to run, now that it waits for nothing else; None: anywhere."""
    if upstream is None or upstream.node is None:
        return None
    wait = WAIT if task.policy.near_wait is None else task.policy.near_wait
    return Near(upstream.node, wait) if wait > 0 else None


def parts_of_lane(name: str) -> tuple[str | None, str]:
    """Return the node that has a lane for itself, or None, and the lane apart from that. The name
    is `near`, how many bytes the node's name has, the node's name, and the lane.
    """
    form, _, rest = name.partition(" ")
    if form != "near":
        return None, name
    length, _, rest = rest.partition(" ")
    node = rest.encode()[: int(length)].decode()
    return node, rest[len(node) + 1 :]


def open_to(node: str | None, lanes: Iterable[str]) -> list[tuple[str, str]]:
    """Select the lanes that a worker on this node (None: on any) may take from, with what they are
    apart.
    """
    split = ((name, *parts_of_lane(name)) for name in lanes)
    return [(name, lane) for name, mine, lane in split if mine is None or node in (None, mine)]
