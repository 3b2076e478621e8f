"""Defaults of queues, for tasks on their way into the store."""

from __future__ import annotations

from collections.abc import Sequence

from stayer.core.model import NewTask
from stayer.core.submit.defaults import with_defaults
from stayer.stores.redis import record
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.keys import key


def of(server: Server, queue: str) -> str:
    """Read what a queue has, as it is kept; nothing if it has none."""
    place = key("queue", server.address.prefix, queue=queue)
    found = server.ask("HGET", place, "defaults")
    return "" if found is None else str(found.decode())


def apply(server: Server, tasks: Sequence[NewTask]) -> list[NewTask]:
    """Return the tasks as their queues have them now."""
    known = {queue: of(server, queue) for queue in {new.queue for new in tasks}}
    return [with_defaults(new, known[new.queue]) for new in tasks]


class KnownDefaults:
    """Those that this process has heard of. A script that accepts tasks says so if they are others
    by now, and does nothing: so nobody has to ask before.
    """

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def apply(self, tasks: Sequence[NewTask]) -> Sequence[NewTask]:
        """Return the tasks with what is known."""
        if not self._of:
            return tasks
        return [with_defaults(new, self._of.get(new.queue, "")) for new in tasks]

    def pack_defaults(self, tasks: Sequence[NewTask]) -> bytes:
        """Return what was applied to these, for the script."""
        queues = {new.queue for new in tasks} if self._of else ()
        applied = {queue: self._of[queue] for queue in queues if queue in self._of}
        return record.pack(applied) if applied else b""

    def hear(self, answer: Sequence[record.Raw]) -> None:
        """Learn from what the script says: queue, defaults, …"""
        cells = [cell.decode() for cell in answer]
        for queue, text in zip(cells[::2], cells[1::2], strict=True):
            if text:
                self._of[queue] = text
            else:
                self._of.pop(queue, None)
