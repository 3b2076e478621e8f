"""Workers that were told to run certain things only, and tasks that want more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from stayer.core.model import NewTask, Task
from stayer.service import explain
from tests.faults.fleet import Fleet, until
from tests.quick_popen import QuickPopen


class Ruled(Fleet):
    """A fleet whose workers have the options that a test gives, and a folder of their own."""

    def start(
        self, *options: str, name: str = "one", lease: str = "30s", **variables: str
    ) -> subprocess.Popen[bytes]:
        with open(self.log_of(name), "ab") as log:
            process: subprocess.Popen[bytes] = QuickPopen(
                [
                    sys.executable, "-m", "stayer", "worker", "--store", self.url,
                    "--state-dir", str(self.folder / name), "--lease", lease, "--node", name,
                    *options,
                ],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.home,
                env={**os.environ, **variables},
            )  # fmt: skip
        self.workers.append(process)
        return process

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGTERM)
        self.end_of(process.pid)

    @property
    def home(self) -> Path:
        """Where the workers are started."""
        (self.folder / "home").mkdir(exist_ok=True)
        return self.folder / "home"

    @property
    def proof(self) -> Path:
        """What an attack leaves behind if it works."""
        return self.folder / "proof"

    def log_of(self, name: str = "one") -> Path:
        return self.folder / f"{name}.log"

    def script(self, name: str, *lines: str) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(("#!/bin/bash", *lines, "")))
        path.chmod(0o755)
        return path

    def add(self, id: str, **fields: object) -> None:
        """As the store takes it, without the checks at its doors."""
        self.store.submit([NewTask(id=id, queue="default", **fields)])  # type: ignore[arg-type]

    def until_refused(self, id: str, *words: str) -> Task:
        """Wait until a worker has handed it back, for a reason that has these words."""
        until(lambda: self.refusals(id), f"for {id} to be refused, {self.get(id)}")
        for word in words:
            assert word in self.refusals(id)[0]
        return self.get(id)

    def refusals(self, id: str) -> list[str]:
        notes = (each.note or "" for each in self.store.events(id))
        return [note for note in notes if "refused by its worker" in note]

    def reasons(self, id: str) -> str:
        return "\n".join(each.text for each in explain.explain(self.store, id).reasons)
