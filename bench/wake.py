"""How long a commit takes to wake a waiter in another process."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection

from stayer.core.submit.checks import new_task
from stayer.store import Store
from stayer.stores import open_store


def latencies(store: Store, count: int) -> list[float]:
    """Seconds from the end of a submit to the return of a waiter elsewhere, so often."""
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    sleeper = context.Process(target=_sleep, args=(store.url, count, there), daemon=True)
    sleeper.start()
    found = []
    for _ in range(count):
        here.recv()
        time.sleep(0.01)  # let it fall asleep
        begin = time.perf_counter()
        store.submit([new_task(queue="q")])
        found.append(here.recv() - begin)
    sleeper.join()
    return found


def _sleep(url: str, count: int, pipe: Connection) -> None:
    store = open_store(url)
    waiter = store.waiter(None, ["q"])
    for _ in range(count):
        pipe.send("ready")
        waiter.wait(None)
        pipe.send(time.perf_counter())
    waiter.close()
