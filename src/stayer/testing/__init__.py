"""Testing code that submits tasks, and the tasks: a store of its own, run here and now.

    with stayer.testing.store(app) as store:
        sign_up("ann@example.org")
        store.assert_submitted(send_mail, {"to": "ann@example.org"})
        store.drain()

With pytest, ask for the fixture `stayer_store`.
"""

from __future__ import annotations

from stayer.testing.clock import Clock
from stayer.testing.rehearsal import Rehearsal, rehearse
from stayer.testing.store import TestStore, store

__all__ = ["Clock", "Rehearsal", "TestStore", "rehearse", "store"]
