"""Stayer: a job queue for work that takes minutes, hours or days."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from stayer.core.version import __version__

if TYPE_CHECKING:
    from stayer import aio, testing
    from stayer.app import App, TaskFunction
    from stayer.client import (
        Client,
        DuplicateWarning,
        FlowHandle,
        Listener,
        Processor,
        Queue,
        TaskHandle,
    )
    from stayer.client.flow_builder import Flow
    from stayer.core.errors import (
        BadConfig,
        BadInput,
        BadResult,
        DeletedId,
        GiveUp,
        LeaseLost,
        NotHeld,
        Refused,
        Retry,
        Snooze,
        StayerError,
        Stopped,
        StoreError,
        StoreUnreachable,
        StoreUnusable,
        TaskCancelled,
        TaskFailed,
        TooLarge,
        UnknownFile,
        UnknownFlow,
        UnknownQueue,
        UnknownTask,
        UnknownWorker,
        WaitTimeout,
    )
    from stayer.core.flows.model import FlowInfo
    from stayer.core.model import Attempt, Code, Event, Fault, Progress, SentFile, Task
    from stayer.core.queue_model import QueueInfo
    from stayer.core.worker_model import Handles, Worker
    from stayer.task.context import Context, current_task

__all__ = [
    "App",
    "Attempt",
    "BadConfig",
    "BadInput",
    "BadResult",
    "Client",
    "Code",
    "Context",
    "DeletedId",
    "DuplicateWarning",
    "Event",
    "Fault",
    "Flow",
    "FlowHandle",
    "FlowInfo",
    "GiveUp",
    "Handles",
    "LeaseLost",
    "Listener",
    "NotHeld",
    "Processor",
    "Progress",
    "Queue",
    "QueueInfo",
    "Refused",
    "Retry",
    "SentFile",
    "Snooze",
    "StayerError",
    "Stopped",
    "StoreError",
    "StoreUnreachable",
    "StoreUnusable",
    "Task",
    "TaskCancelled",
    "TaskFailed",
    "TaskFunction",
    "TaskHandle",
    "TooLarge",
    "UnknownFile",
    "UnknownFlow",
    "UnknownQueue",
    "UnknownTask",
    "UnknownWorker",
    "WaitTimeout",
    "Worker",
    "__version__",
    "aio",
    "current_task",
    "testing",
]

# From the bottom up, so that no name brings in more than it stands on.
_LAYERS = (
    "stayer.core.model",
    "stayer.core.queue_model",
    "stayer.core.worker_model",
    "stayer.core.errors",
    "stayer.core.flows.model",
    "stayer.task.context",
    "stayer.client",
    "stayer.client.flow_builder",
    "stayer.app",
)


if not TYPE_CHECKING:  # to a type checker it would be as if any name were there

    def __getattr__(name: str) -> object:
        """Import a name when it is first used: `import stayer` itself costs next to nothing."""
        if name in ("aio", "testing"):
            return import_module(f"stayer.{name}")
        if name == "App":  # in the process of each task: without what it only submits with
            return import_module("stayer.app").App
        if name in __all__:
            for layer in map(import_module, _LAYERS):
                if hasattr(layer, name):
                    found = globals()[name] = getattr(layer, name)
                    return found
        raise AttributeError(f"module 'stayer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
