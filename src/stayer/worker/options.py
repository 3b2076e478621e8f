"""How a worker behaves, and what that means for the keeper of one task."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from stayer.core.model import Policy
from stayer.core.queue_model import Kept
from stayer.core.worker_model import WorkerOrder
from stayer.keeper.kernel import moment

LOG_CAP_BYTES = 256_000_000
"""How much of a log stays on the node, unless the settings say otherwise."""


class Options(Struct, frozen=True, kw_only=True):
    """What the command line and the file of settings say."""

    queues: tuple[str, ...] = ("default",)
    evenly: bool = False
    slots: int = 1
    lease: float = 120.0
    heartbeat: float | None = None
    """How often it renews the lease, in seconds; None: eight times in its length."""
    grace: float = 30.0
    kill_interval: float = 10.0
    time_limit: float | None = None
    silence_limit: float | None = None
    memory_limit: int | None = None
    fence: Literal["freeze", "kill", "keep"] = "freeze"
    isolate: Literal["pidns"] | None = None
    cgroup: bool = False
    log_cap: int = LOG_CAP_BYTES
    retention: dict[Kept, float] = {}
    """How long is kept what its queue says nothing about, in seconds."""

    def changed_by(self, order: WorkerOrder | None) -> Options:
        """Return them with what an operator has changed."""
        if order is None:
            return self
        queues = self.queues if order.queues is None else order.queues
        return replace(self, queues=queues, slots=order.slots or self.slots)

    def for_keeper(self, policy: Policy, left: float | None = None) -> dict[str, object]:
        """Return what its keeper is given: what the task says goes before what the worker says. In
        `left` seconds it has to have ended, by a clock that goes on while the machine sleeps.

        But for `keep`, a property of the whole worker: the store must not declare it lost.
        """
        limits = {
            "time": _first(policy.time_limit, self.time_limit),
            "silence": _first(policy.silence_limit, self.silence_limit),
            "memory": _first(policy.memory_limit, self.memory_limit),
            "deadline": None if left is None else moment() + left,
        }
        return {
            "grace": _first(policy.grace, self.grace),
            "kill_interval": self.kill_interval,
            "fence": self.fence if self.fence == "keep" else policy.fence or self.fence,
            "isolate": self.isolate,
            "limits": {name: value for name, value in limits.items() if value},
            "log_cap": self.log_cap,
        }


def _first(*values: float | None) -> float | None:
    """Return the first that is set: a limit of 0 counts as one."""
    return next((value for value in values if value is not None), None)
