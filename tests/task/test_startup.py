"""The runner itself costs little, beside what the user's code imports."""

from __future__ import annotations

import subprocess
import sys

from tests.task.rig import Rig

HEAVY = {
    "asyncio", "click", "logging", "multiprocessing", "rich", "sqlite3", "stayer.app",
    "stayer.client", "stayer.service.control.tasks", "stayer.store", "subprocess", "tempfile",
    "traceback",
}  # fmt: skip


def test_a_class_brings_in_nothing_heavy(rig: Rig) -> None:
    ended = rig.run_class("""
        import sys
        class Run:
            def __init__(self, task): self.task = task
            def run(self):
                self.task.progress(1, 2)
                self.task.checkpoint(1)
                return sorted(sys.modules)
    """)
    assert not HEAVY & set(ended.result)


def test_the_signal_is_cheap_to_ask_for() -> None:
    code = "import stayer.task.stack_dump, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not (HEAVY | {"msgspec"}) & set(done.stdout.split())
