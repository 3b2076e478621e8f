"""What it costs to begin: CPU seconds of a fresh process, the interpreter's own included."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile

from bench.measure import say

_TASK = (
    "from stayer.task.__main__ import begin\n"
    "begin(['app', '']); import stayer; stayer.App().task(name='f')(lambda x: x)"
)
"""What each function in a process of its own imports, before its own module does anything."""


def cpu(command: list[str], store: str, runs: int = 11) -> float:
    """The median of the CPU time that the command takes."""
    environment = {**os.environ, "STAYER_STORE": store}
    times = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(times)


def startup() -> None:
    """The aims: import < 100 ms, --help < 150 ms, ls < 200 ms."""
    print("Starting (CPU of a fresh process)")
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/stayer.db"
        stayer = [sys.executable, "-m", "stayer"]
        for number in range(20):
            add = [*stayer, "add", "-q", "q", "--data", str(number)]
            subprocess.run(add, check=True, stdout=subprocess.DEVNULL,
                           env={**os.environ, "STAYER_STORE": store})  # fmt: skip
        cases = (
            ("python -c pass", [sys.executable, "-c", "pass"], None),
            ("import stayer", [sys.executable, "-c", "import stayer"], 0.1),
            ("stayer.Client", [sys.executable, "-c", "import stayer; stayer.Client"], None),
            ("stayer --help", [*stayer, "--help"], 0.15),
            ("stayer ls", [*stayer, "ls"], 0.2),
            ("stayer ls --json", [*stayer, "ls", "--json"], None),
        )  # fmt: skip
        for what, command, aim in cases:
            found = cpu(command, store)
            say(what, f"{1000 * found:.0f} ms", f"aim < {1000 * aim:.0f} ms" if aim else "",
                found < aim if aim else None)  # fmt: skip
        bare, task = cpu(cases[0][1], store), cpu([sys.executable, "-c", _TASK], store)
        say("a task's process, over a bare Python", f"{1000 * (task - bare):.0f} ms",
            "aim < 60 ms", task - bare < 0.06)  # fmt: skip
