"""The Python interface: submitting tasks, following them, working on them in one's own process."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stayer.client.client import Client
    from stayer.client.flow import FlowHandle
    from stayer.client.handle import TaskHandle
    from stayer.client.listener import Listener
    from stayer.client.processor import Processor
    from stayer.client.queue import Queue
    from stayer.client.submit import DuplicateWarning

__all__ = [
    "Client",
    "DuplicateWarning",
    "FlowHandle",
    "Listener",
    "Processor",
    "Queue",
    "TaskHandle",
]
_HOMES = {
    "Client": "client", "DuplicateWarning": "submit", "FlowHandle": "flow", "Listener": "listener",
    "Processor": "processor", "Queue": "queue", "TaskHandle": "handle",
}  # fmt: skip


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a name when it is first used: the process of a task needs few of them."""
        if name in _HOMES:
            found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
            return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
