"""Showing where a task is: on a signal, the stacks of all its threads go to its log.

The worker tells the keeper which signal; this module is cheap to import.
"""

from __future__ import annotations

import faulthandler
import signal

STACK_SIGNAL = int(signal.SIGURG)
"""Nobody uses it, and a process that does not know it ignores it: no harm is done by sending it too
early, or to a program that took the task's place.
"""

_STDERR = 2


def show_stacks_when_asked() -> None:
    """Print stacks on a signal, and when the interpreter itself crashes. In C, so that no lock of
    Python's can hinder it.
    """
    faulthandler.enable(_STDERR)
    faulthandler.register(STACK_SIGNAL, _STDERR, all_threads=True)
