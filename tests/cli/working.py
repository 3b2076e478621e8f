"""Real workers for the command to work with."""

from __future__ import annotations

import subprocess
import sys

from tests.faults.fleet import Fleet
from tests.quick_popen import QuickPopen


class Site(Fleet):
    """A fleet whose workers are started with whatever options a test is about."""

    def start(
        self, *options: str, verb: str = "worker", name: str = "one"
    ) -> subprocess.Popen[bytes]:
        """Start a worker on the state directory of that name; ended with the others."""
        with open(self.folder / f"{name}.log", "ab") as log:
            process: subprocess.Popen[bytes] = QuickPopen(
                [
                    sys.executable, "-m", "stayer", verb, "--store", self.url,
                    "--state-dir", str(self.folder / name), "--lease", "2s", *options,
                ],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self.workers.append(process)
        return process
