"""`worker`: take tasks and run them."""

from __future__ import annotations

from typing import Any

from stayer.cli.command import Given, command
from stayer.cli.run_worker import run_worker
from stayer.cli.worker_options import plan_worker, worker_options


@command()
@worker_options
def worker(given: Given, **options: Any) -> int:
    """Take tasks and run them, each in its own process, or with --threads in a thread.

    Tasks outlive their worker: kill it, upgrade it, start it again, and they run on. TERM or Ctrl-C
    puts them back to the front of their queue; HUP leaves them running; USR1 lets them end (exit
    code 5 then); USR2 reads slots and limits again. Threads end with their worker. If the store
    can't be reached, the worker waits for it, also at the start. What is not given here comes from
    the table [worker] of stayer.toml, if there is one.
    """
    return run_worker(given, lambda: plan_worker(given.config(), options))
