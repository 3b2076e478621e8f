"""Keeping the other processes of a user, its tasks among them, from what worker and server know."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from stayer.core.notify.mail import PASSWORD_VARIABLE
from stayer.keeper.kernel import set_dumpable

_CREDENTIALS = ("STAYER_STORE", "STAYER_TOKEN", PASSWORD_VARIABLE)
_ENV_START, _ENV_END = 47, 48
"""In /proc/PID/stat, counted from the state on."""


def hide_credentials() -> None:
    """Let no other process of this user read the memory of this one, and take the credentials out
    of the environment that /proc shows and that children inherit. `os.environ` still has them.
    """
    set_dumpable(False)
    for name in _CREDENTIALS:
        os.unsetenv(name)
        _erase(name.encode() + b"=")


def _erase(beginning: bytes) -> None:
    """Overwrite a variable where the kernel put it: what /proc/PID/environ shows."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    at = start
    for variable in ctypes.string_at(start, end - start).split(b"\0"):
        if variable.startswith(beginning):
            ctypes.memset(at, 0, len(variable))
        at += len(variable) + 1
