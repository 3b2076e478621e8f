"""Commands in containers, by a real podman: frozen, ended and gone like any task."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.core.model import Code
from stayer.keeper import tree
from stayer.service.control import tasks as control
from stayer.service.control.edits import retry
from tests.code.conftest import CodeFleet
from tests.code.registry import Registry
from tests.faults.fleet import folder_for_all, is_stopped, until
from tests.servers.finding import missing

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="its storage is mounted by root here"),
]

_UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
_IN_UNIFIED = "umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec podman"


class Podman:
    """One with a storage of its own, and settings that a machine without all rights can take."""

    def __init__(self, folder: Path, registry: Registry) -> None:
        folder.mkdir()
        self.program = folder / "podman"
        settings = {
            "CONTAINERS_CONF": '[containers]\ndefault_ulimits = ["nofile=1000:1000", '
            '"nproc=1000:1000"]\n',
            "CONTAINERS_STORAGE_CONF": f'[storage]\ndriver = "overlay"\n'
            f'graphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n',
            "CONTAINERS_REGISTRIES_CONF": f'[[registry]]\nlocation = "{registry.host}"\n'
            "insecure = true\n",
        }
        lines = ["#!/bin/sh"]
        for name, text in settings.items():
            (folder / name).write_text(text)
            lines.append(f"export {name}={folder / name}")
        if _UNIFIED.exists():
            lines.append('exec podman "$@"')
        else:  # crun takes no mixture of both versions of cgroups
            lines.append(f'exec unshare -m sh -c \'{_IN_UNIFIED} "$@"\' podman "$@"')
        self.program.write_text("\n".join(lines) + "\n")
        self.program.chmod(0o755)

    def containers(self) -> list[str]:
        done = subprocess.run(
            [self.program, "ps", "--all", "--format", "{{.Names}}"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout.split()


class ContainerFleet(CodeFleet):
    """A fleet whose workers run commands in containers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.registry = Registry()
        self.podman = Podman(folder / "podman", self.registry)

    def starts_with_images(self, name: str = "one", *options: str, lease: float = 20.0) -> int:
        return self.worker(
            name, "--allow-image", f"{self.registry.host}/*",
            "--code-env", f"PODMAN={self.podman.program}", *options, lease=lease,
        )  # fmt: skip

    def run_in(self, id: str, *words: str, tag: str = "1", **options: object) -> str:
        code = Code(image=f"{self.registry.host}/tiny:{tag}")
        return self.add(id, *words, code=code, **options)

    def processes(self, id: str) -> list[int]:
        """All that its keeper has below it."""
        [running] = self.folder.glob(f"one/run/{id}*/running")
        return [pid for pid, _ in tree.below(json.loads(running.read_text())["keeper"])]

    def close(self) -> None:
        super().close()
        self.registry.close()
        for path in Path("/proc/self/mounts").read_text().split():
            if path.startswith(f"{self.folder}/podman/"):
                subprocess.run(["umount", "--lazy", path], check=False)


@pytest.fixture
def fleet() -> Iterator[ContainerFleet]:
    if shutil.which("podman") is None or shutil.which("crun") is None:
        missing("containers", "install podman (Debian: apt install podman crun busybox-static)")
    with folder_for_all() as folder:
        fleet = ContainerFleet(folder)
        fleet.registry.add("tiny", "1", "first")
        yield fleet
        fleet.close()


def test_a_command_runs_in_its_image_and_reports_from_there(fleet: ContainerFleet) -> None:
    fleet.starts_with_images("one", "--env", "COLOUR=red")
    script = (
        'cat /said; id -u; pwd; env; cat; echo 1/2 >> "$STAYER_REPORT"; echo 7 > "$STAYER_RESULT"'
    )

    fleet.run_in("a", "sh", "-c", script, parameters={"x": 1}, env={"LINES": "one\ntwo"})

    task = fleet.completed("a")
    log = fleet.log("a")
    assert f"first{os.geteuid()}\n/bin\n" in log
    assert "COLOUR=red\n" in log
    assert "LINES=one\ntwo\n" in log
    assert "HOME=/root" not in log.replace("HOME=/\n", "")
    assert '{"x":1}' in log
    assert task.result == 7
    assert (task.progress and task.progress.done) == 1
    assert fleet.podman.containers() == []


def test_its_exit_code_is_that_of_the_command(fleet: ContainerFleet) -> None:
    fleet.starts_with_images()
    fleet.run_in("a", "sh", "-c", "exit 7")
    fleet.run_in("b", "no-such-program")
    codes = [error and error.exit_code for error in (fleet.ended(id).error for id in ("a", "b"))]
    assert codes == [7, 127]


def test_a_tag_that_moved_and_a_registry_that_is_gone_change_nothing(
    fleet: ContainerFleet,
) -> None:
    digest = fleet.registry.add("tiny", "1", "first")
    fleet.starts_with_images()
    fleet.run_in("a", "sh", "-c", 'cat /said; test "$STAYER_ATTEMPT" = 2')
    fleet.until_state("a", "failed")
    fleet.registry.add("tiny", "1", "second")
    fleet.run_in("b", "cat", "/said")
    fleet.completed("b")
    fleet.registry.close()

    retry(fleet.store, "a")

    task = fleet.completed("a")
    assert task.pinned is not None
    assert task.pinned.image == digest
    assert fleet.log("a").endswith("first")
    assert fleet.log("b").endswith("second")
    fleet.run_in("c", "cat", "/said")
    fleet.completed("c")
    assert fleet.log("c").endswith("second")
    fleet.run_in("d", "cat", "/said", tag="none")
    waiting = fleet.until_state("d", "scheduled", "failed")
    assert (waiting.state, waiting.ending, waiting.failures) == ("scheduled", "environment", 0)


def test_an_image_that_is_not_there_ends_the_task(fleet: ContainerFleet) -> None:
    fleet.starts_with_images()
    fleet.run_in("a", "true", tag="none", retries=3)
    task = fleet.ended("a")
    assert (task.state, task.ending, task.attempt) == ("failed", "environment", 1)
    assert "manifest unknown" in ((task.error and task.error.message) or "")


def test_what_is_cancelled_is_gone_with_its_container(fleet: ContainerFleet) -> None:
    fleet.starts_with_images("one", "--grace", "0.2s")
    fleet.run_in("a", "sh", "-c", "trap '' TERM; sleep 1000 & while :; do sleep 1; done")
    fleet.until_state("a", "started")
    until(lambda: len(fleet.processes("a")) >= 4, "for podman, conmon and two of the task")
    processes = fleet.processes("a")

    control.cancel(fleet.store, "a")

    assert fleet.ended("a").state == "cancelled"
    assert not [pid for pid in processes if Path(f"/proc/{pid}").exists()]
    until(lambda: not fleet.podman.containers(), "for podman to forget it")


def test_it_ends_by_its_own_hand_when_asked(fleet: ContainerFleet) -> None:
    fleet.starts_with_images()
    fleet.run_in("a", "sh", "-c", "trap 'echo bye; exit 0' TERM; echo 1/9 >> $STAYER_REPORT; "
                 "while :; do sleep 0.1; done")  # fmt: skip
    until(lambda: fleet.get("a").progress is not None, "for its trap to be set")

    control.cancel(fleet.store, "a")

    assert fleet.ended("a").state == "cancelled"
    assert "bye" in fleet.log("a")


def test_all_of_it_stands_still_without_a_lease_and_goes_on_with_one(
    fleet: ContainerFleet,
) -> None:
    worker = fleet.starts_with_images(lease=2.0)
    fleet.run_in("a", "sh", "-c", 'while ! test -e "$STAYER_DIR/stop"; do sleep 0.01; done')
    fleet.until_state("a", "started")
    until(lambda: len(fleet.processes("a")) >= 3, "for it to run")
    [running] = fleet.folder.glob("one/run/a*/running")

    fleet.signal(worker, signal.SIGSTOP)
    until(lambda: "fenced" in json.loads(running.read_text())["stopped"], "for it to be frozen")

    processes = fleet.processes("a")
    inside = [pid for pid in processes if os.readlink(f"/proc/{pid}/ns/pid") != os.readlink(
        "/proc/self/ns/pid")]  # fmt: skip
    assert inside
    assert all(is_stopped(pid) for pid in processes)
    (running.parent / "task" / "stop").touch()
    os.kill(worker, signal.SIGCONT)
    assert fleet.completed("a").attempt == 1


def test_a_keeper_that_is_killed_takes_the_container_with_it(fleet: ContainerFleet) -> None:
    fleet.starts_with_images()
    fleet.run_in("a", "sh", "-c", "while :; do sleep 1; done")
    fleet.until_state("a", "started")
    until(lambda: len(fleet.processes("a")) >= 3, "for it to run")
    processes = fleet.processes("a")
    [running] = fleet.folder.glob("one/run/a*/running")

    os.kill(json.loads(running.read_text())["keeper"], signal.SIGKILL)

    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes), "for its end")
    until(lambda: fleet.get("a").attempt == 2, "for another attempt")
    until(lambda: len(fleet.podman.containers()) == 1, "for the first container to be forgotten")


def test_its_memory_counts_for_its_limit(fleet: ContainerFleet) -> None:
    fleet.starts_with_images()
    grow = "x=0123456789012345; while :; do x=$x$x; done"
    fleet.run_in("a", "sh", "-c", grow, memory_limit=300_000_000)
    task = fleet.ended("a")
    assert (task.state, task.ending) == ("failed", "oom")
