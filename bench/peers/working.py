"""Run in the environment of a peer: `python -m bench.peers.working PEER` becomes its worker."""

from __future__ import annotations

import importlib
import os
import sys

if __name__ == "__main__":
    command = importlib.import_module(f"bench.peers.for_{sys.argv[1]}").WORKER
    os.execv(sys.executable, [sys.executable, *command])
