"""Processes for tests, quick to start: each is forked from a server that has imported already what
all of them need. A new interpreter that imports the same takes twenty times as long.
"""

from __future__ import annotations

import multiprocessing

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["tests.contract.actors", "stayer.stores.redis_cluster", "stayer.stores.sql.sqlite"]
)
