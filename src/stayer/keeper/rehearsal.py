"""What the interpreter learns of code that runs often is written into that code.

In a nursery that is done once; after a fork it would cost every keeper pages of its own.
"""

from __future__ import annotations

import os

from .accounts import Accounts, oom_kills
from .folder import Lease, RunDirectory
from .grip import Grip
from .lean import dumps, loads
from .limits import Limits
from .log import Log
from .orders import Orders

_ROUNDS = 20


def rehearse(state: str) -> None:
    """Do what keepers do again and again, as far as it leaves no trace."""
    folder = RunDirectory(state)
    for _ in range(_ROUNDS):
        usage = Accounts(None, None).sample()
        loads(dumps({"usage": usage, "stopped": [], "stop": None}).encode())
        Lease(os.path.join(state, "lease")).read()
        Limits(folder, {"time": None, "silence": None}).exceeded(usage["rss"])
        Orders(folder).read()
        Log(folder, 0).trim()
        Log(folder, 0).pump()
        Grip(os.getpid(), None, None).frozen()
        folder.is_there()
        oom_kills()
    folder.close()
