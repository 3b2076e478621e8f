"""Helpers for tests: a store of their own, whose tasks run in the process of the test.

    with stayer.testing.store(app) as store:
        sign_up("ann@example.org")
        store.assert_submitted(send_mail, {"to": "ann@example.org"})
        store.drain()

With pytest, ask for the fixture `stayer_store`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stayer.testing.clock import Clock
    from stayer.testing.own_store import TestStore, store
    from stayer.testing.rehearsal import Rehearsal, rehearse

__all__ = ["Clock", "Rehearsal", "TestStore", "rehearse", "store"]

_MODULES = {
    "Clock": "clock",
    "Rehearsal": "rehearsal",
    "rehearse": "rehearsal",
    "TestStore": "own_store",
    "store": "own_store",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a name when it is first used: pytest loads the plugin in every project."""
        if name not in _MODULES:
            raise AttributeError(f"module 'stayer.testing' has no attribute {name!r}")
        found = getattr(import_module(f"stayer.testing.{_MODULES[name]}"), name)
        globals()[name] = found
        return found
