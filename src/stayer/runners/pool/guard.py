"""The guard of a pool: dies before the lease ends unless it is renewed, and takes the pool along.

A process of its own, because a task in the pool may hold the GIL for longer than the lease; and
because a timer that is set in the pool could not be set anew then.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from typing import NoReturn

from stayer.keeper import kernel
from stayer.keeper.folder import Lease

_LOOKS_IN_A_LEASE = 16
_LONGEST_LOOK = 1.0


def guard(lease_path: str, length: float, parent: int, descriptor: int) -> None:
    """Fork: comes back in the pool only. The guard stays here until the pool ends."""
    kernel.die_with_parent(parent)
    me = os.getpid()
    pool = os.fork()
    if pool == 0:
        kernel.die_with_parent(me)
        return
    os.close(descriptor)  # it is the pool's
    _watch(pool, Lease(lease_path), min(_LONGEST_LOOK, length / _LOOKS_IN_A_LEASE))


def _watch(pool: int, lease: Lease, pause: float) -> NoReturn:
    kernel.set_name("stayer-guard")
    timer = kernel.DeathTimer()
    poll = select.poll()
    poll.register(os.pidfd_open(pool), select.POLLIN)
    while True:
        lease.read()
        if lease.void:
            os.kill(pool, signal.SIGKILL)
        else:
            timer.set(lease.kill_at)
        if poll.poll(pause * 1000):
            break
    _, status = os.waitpid(pool, 0)
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 128 - code)
