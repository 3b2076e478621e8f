"""The guard of a pool: dies before the lease ends unless it is renewed, and takes the pool along.

A process of its own, because a task in the pool may hold the GIL for longer than the lease; and
because a timer that is set in the pool could not be set anew then.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from stayer.keeper import kernel, tree
from stayer.keeper.folder import Lease

_LOOKS_IN_A_LEASE = 16
_LONGEST_LOOK_S = 1.0
_CLOCK_TOLERANCE_S = 0.01
"""How far two clocks may differ though the machine did not sleep."""


def guard(lease_path: str, length: float, parent: int, descriptor: int) -> None:
    """Fork: comes back in the pool only. The guard stays here until the pool ends."""
    kernel.die_with_parent(parent)
    me = os.getpid()
    pool = os.fork()
    if pool == 0:
        kernel.die_with_parent(me)
        return
    os.close(descriptor)  # it is the pool's
    _watch(pool, Lease(lease_path), min(_LONGEST_LOOK_S, length / _LOOKS_IN_A_LEASE))


def _watch(pool: int, lease: Lease, pause: float) -> NoReturn:
    kernel.set_name("stayer-guard")
    handled_signals = {signal.SIGCHLD, *kernel.Alarm.SIGNALS}
    signal.pthread_sigmask(signal.SIG_BLOCK, handled_signals)
    fence = _Fence(pool, lease)
    while (ended := os.waitpid(pool, os.WNOHANG))[0] == 0:
        fence.hold()
        signal.sigtimedwait(handled_signals, pause)
    code = os.waitstatus_to_exitcode(ended[1])
    sys.exit(code if code >= 0 else 128 - code)


class _Fence:
    """Ends the pool before the lease does. But if that ran out while the machine slept, the pool
    stands still until the worker has renewed it, which it can only if nobody has declared it lost.
    """

    def __init__(self, pool: int, lease: Lease) -> None:
        self._pool = pool
        self._lease = lease
        self._timer, self._alarm = kernel.DeathTimer(), kernel.Alarm()
        self._slept = kernel.slept()
        self._stopped_at: float | None = None

    def hold(self) -> None:
        lease = self._lease
        lease.read()
        if lease.void:
            os.kill(self._pool, signal.SIGKILL)
        elif self._stopped_at is not None:
            if lease.good and lease.since > self._stopped_at:
                self._stopped_at = None
                self._arm()
                tree.thaw(os.getpid())
        elif lease.good or kernel.slept() - self._slept < _CLOCK_TOLERANCE_S:
            self._arm()
        else:
            self._stop()

    def _arm(self) -> None:
        self._slept = kernel.slept()
        self._timer.set(self._lease.kill_at - self._slept)
        self._alarm.set(self._lease.fence_at, self._lease.continue_at)

    def _stop(self) -> None:
        soon = kernel.awake() + self._lease.margin * 0.3
        if not tree.freeze(os.getpid(), soon):
            os.kill(os.getpid(), signal.SIGKILL)  # and the pool with us, as the timer would
        self._timer.set(None)
        self._alarm.set(None)
        self._stopped_at = kernel.moment()
