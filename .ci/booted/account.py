"""Somebody in a booted system, and what they see of their worker and its tasks."""

from __future__ import annotations

import json
import re

from booted.system import Failed, System, wait_until

WORKER = "stayer-worker"
STAMP = """
id -u > "$0.user"; echo $$ > "$0.pid"; cat /proc/self/cgroup > "$0.cgroup"
until [ -e "$0.go" ]; do date +%s%N >> "$0.stamps"; sleep 0.1; done
"""
"""A task that shows that it runs, and ends when it is told to."""


class Account:
    """Whose worker it is: root's service with a user `stayer`, or a user's own."""

    def __init__(self, system: System, user: str, folder: str, command: list[str]) -> None:
        self.system = system
        self.user = user
        self.folder = folder
        self.command = command

    def stayer(self, *words: str, check: bool = True) -> str:
        """Run `stayer` as this user."""
        return self.system.run(*self.command, *words, user=self.user, check=check)

    def systemctl(self, *words: str, check: bool = True) -> str:
        if self.user in ("root", "stayer"):
            return self.system.run("systemctl", *words, check=check)
        return self.system.run("systemctl", "--user", *words, user=self.user, check=check)

    def property(self, name: str) -> str:
        """Return what systemd says of the worker."""
        return self.systemctl("show", "--value", f"--property={name}", WORKER).strip()

    def main_pid(self) -> int:
        return int(self.property("MainPID"))

    def begin(self, task: str, *options: str) -> int:
        """Submit a task that stamps, wait until it runs, and return its process."""
        self.submit(task, *options, "--", "sh", "-c", STAMP, f"{self.folder}/{task}")
        self.wait_for_stamps(task)
        return int(self.read(task, "pid"))

    def submit(self, task: str, *words: str) -> None:
        self.stayer("add", "--id", task, "--cwd", self.folder, *words)

    def read(self, task: str, what: str) -> str:
        file = self.system.path(f"{self.folder}/{task}.{what}")
        return file.read_text() if file.exists() else ""

    def wait_for_stamps(self, task: str) -> None:
        """Wait until it goes on from where it is."""
        before = len(self.read(task, "stamps"))
        wait_until(lambda: len(self.read(task, "stamps")) > before, f"{task} to go on")

    def record(self, task: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.stayer("show", "--json", task))
        return found

    def wait_for(self, task: str, **wanted: object) -> None:
        """Wait until its record says so."""
        found: dict[str, object] = {}

        def is_as_wanted() -> bool:
            record = self.record(task)
            found.update((name, record[name]) for name in ("state", "attempt", "ending", *wanted))
            return found.items() >= wanted.items()

        try:
            wait_until(is_as_wanted, f"{task} to have {wanted}")
        except Failed as failed:
            raise Failed(f"{failed}, but it has {found}") from None

    def finish(self, task: str, **wanted: object) -> None:
        """Let it end, and see how it did."""
        self.system.path(f"{self.folder}/{task}.go").touch()
        self.wait_for(task, state="complete", **wanted)

    def check_cgroup(self, task: str) -> None:
        """See that it had one of its own, below that of the unit."""
        found = self.read(task, "cgroup")
        if not re.search(rf"^0::.*/{WORKER}\.service/.+", found, re.MULTILINE):
            raise Failed(f"{task} had no cgroup of its own: {found}")

    def is_running(self, pid: int) -> bool:
        return bool(self.system.run("ps", "-o", "pid=", "-p", str(pid), check=False))

    def wait_for_next_worker(self, before: int) -> None:
        """Wait until there is another process than this."""
        wait_until(
            lambda: self.main_pid() not in (0, before) and self.property("SubState") == "running",
            "the next worker",
        )
