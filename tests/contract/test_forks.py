"""A store that was used before a fork can be used by the child."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack

from stayer.store import Store
from tests.contract.builders import PATIENCE, counts, fill, new, register, submit

_LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Condition)
_HELD_AT_FORKS = ("_at_it", "GATE")
"""Whoever forks waits for these, so nobody else can have them."""


def test_a_child_uses_it_though_other_threads_of_the_parent_had_all_its_locks(
    store: Store,
) -> None:
    register(store)
    fill(store, 3)
    store.watch(0, 0.0, 1)
    with ExitStack() as held:
        locks = list(locks_of(store))
        for lock in locks:
            held.enter_context(lock)
        child = os.fork()
        if child == 0:
            signal.alarm(int(PATIENCE))
            code = 1
            try:
                submit(store, new("by the child"))
                store.watch(0, 0.0, 1)
                code = 0
            finally:
                os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status == 0
    fill(store, 1)
    assert counts(store) == {"pending": 5}


def locks_of(store: Store) -> Iterator[threading.Lock]:
    """All locks that a store and its modules have, as far as Stayer's own objects reach."""
    seen: set[int] = set()
    todo: list[object] = [store]
    for name, module in list(sys.modules.items()):
        if name.startswith("stayer.stores."):
            todo += [each for key, each in vars(module).items() if key not in _HELD_AT_FORKS]
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, _LOCKS):
            yield each  # type: ignore[misc]
        elif type(each).__module__.startswith("stayer."):
            todo += getattr(each, "__dict__", {}).values()
        elif isinstance(each, list | tuple | set | frozenset):
            todo += each
        elif isinstance(each, dict):
            todo += each.values()
