"""The workers in `contrib/workers`, each in its language, on a real server: they work, and keep
what the page about the protocol says of them when they are killed, stopped or told to stop.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.faults.fleet import until
from tests.servers.finding import missing, node_binary
from tests.ui.system import System

FOLDER = ROOT / "contrib" / "workers"
LEASE = 8
"""The shell counts in whole seconds."""
PROGRAM = r"""
read -r line
echo "$STAYER_TASK/$STAYER_ATTEMPT got $line"
case $line in
    *fail*) echo broken; exit 3 ;;
    *wait*) sleep 1000 & echo $! > "$1/child"; echo $$ > "$1/shell"; wait ;;
    *) echo "{\"line\": $line}" > "$STAYER_RESULT" ;;
esac
"""


def shell() -> list[str]:
    for tool in ("curl", "jq", "setsid"):
        if shutil.which(tool) is None:
            missing(tool, f"install {tool}")
    return ["sh", str(FOLDER / "worker.sh")]


def found(program: str, *words: str) -> Callable[[], list[str]]:
    def command() -> list[str]:
        path = shutil.which(program) or missing(program, f"install {program}")
        return [path, *words]

    return command


@functools.cache
def go() -> list[str]:
    """Built, because a signal to `go run` does not reach the program that it runs."""
    folder = Path(tempfile.gettempdir()) / f"stayer-worker-go-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    compiler = shutil.which("go") or missing("go", "install golang-go")
    environment = {**os.environ, "GOCACHE": str(folder / "cache"), "GO111MODULE": "off"}
    binary = folder / "worker"
    subprocess.run(
        [compiler, "build", "-o", binary, FOLDER / "worker.go"], env=environment, check=True
    )
    shutil.rmtree(folder / "cache")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return [str(binary)]


COMMANDS: dict[str, Callable[[], list[str]]] = {
    "shell": shell,
    "node": lambda: [node_binary(), str(FOLDER / "worker.mjs")],
    "go": go,
    "php": found("php", str(FOLDER / "worker.php")),
    "ruby": found("ruby", str(FOLDER / "worker.rb")),
}
LONG = ("go", "php", "ruby")
"""Whose toolchains are large."""


class Running:
    """Workers of one language, in processes of their own."""

    def __init__(self, system: System, language: str) -> None:
        self._system = system
        self._command = COMMANDS[language]()
        self._token = system.site.access.add("node-7", "work", queues=("films",))
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        folder = self._system.folder
        program = ["sh", "-c", PROGRAM, "program", str(folder)]
        with open(folder / "worker.log", "ab") as log:
            process = subprocess.Popen(
                [*self._command, "films", *program],
                env={
                    **os.environ, "STAYER_URL": self._system.url, "STAYER_TOKEN": self._token,
                    "STAYER_LEASE": str(LEASE),
                },
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for file in self._system.folder.glob("shell*"):
            with suppress(ProcessLookupError, ValueError):
                os.killpg(os.getpgid(int(file.read_text())), signal.SIGKILL)


@pytest.fixture(
    params=[
        name if name not in LONG else pytest.param(name, marks=pytest.mark.long)
        for name in COMMANDS
    ]
)
def running(request: pytest.FixtureRequest, system: System) -> Iterator[Running]:
    running = Running(system, request.param)
    yield running
    running.close()


def is_gone(file: Path) -> bool:
    """Nothing of this process is left but perhaps its exit code."""
    try:
        stat = Path(f"/proc/{int(file.read_text())}/stat").read_text()
    except FileNotFoundError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


def waiting_child(folder: Path) -> Path:
    until((folder / "child").exists, "for the program")
    until(lambda: (folder / "child").read_text().strip())
    return folder / "child"


def test_it_works_fails_and_stops(system: System, running: Running) -> None:
    worker = running.start()
    good = system.submit(id="films:a b", queue="films", parameters="hello")
    assert system.until(good, "complete").result == {"line": "hello"}
    log = system.site("GET", "/v1/tasks/films%3Aa%20b/log").body
    assert log == b'films:a b/1 got "hello"\n'

    bad = system.until(system.submit(queue="films", parameters="fail"), "failed")
    assert bad.error is not None
    assert bad.error.exit_code == 3

    cancelled = system.submit(queue="films", parameters="wait")
    child = waiting_child(system.folder)
    system.site("POST", f"/v1/tasks/{cancelled}/cancel", {})
    system.until(cancelled, "cancelled")
    assert is_gone(child)
    child.unlink()

    returned = system.submit(queue="films", parameters="wait")
    child = waiting_child(system.folder)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert is_gone(child)
    task = system.until(returned, "pending")
    assert (task.attempt, task.failures) == (1, 0)


def test_what_a_killed_worker_ran_goes_to_another(system: System, running: Running) -> None:
    worker = running.start()
    id = system.submit(queue="films", parameters="wait")
    waiting_child(system.folder).unlink()
    worker.send_signal(signal.SIGKILL)
    running.start()
    waiting_child(system.folder)
    assert system.until(id, "started").attempt == 2


def test_one_that_was_stopped_past_its_lease_writes_nothing(
    system: System, running: Running
) -> None:
    worker = running.start()
    id = system.submit(queue="films", parameters="wait")
    first = waiting_child(system.folder).rename(system.folder / "first")
    (system.folder / "shell").rename(system.folder / "shell-of-first")
    worker.send_signal(signal.SIGSTOP)
    running.start()
    second = waiting_child(system.folder)
    worker.send_signal(signal.SIGCONT)
    until(lambda: is_gone(first), "for the first to be stopped")
    task = system.until(id, "started")
    assert task.attempt == 2
    assert not is_gone(second)


@pytest.mark.long  # a promise about time: a machine that is too busy can't keep it
def test_one_that_hears_nothing_stops_its_program_before_the_lease_ends(
    system: System, running: Running
) -> None:
    running.start()
    system.submit(queue="films", parameters="wait")
    child = waiting_child(system.folder)
    with system.server_stopped():
        [worker] = system.fleet.store.workers()
        until(lambda: is_gone(child), "for the program to be stopped")
        assert system.fleet.store.now() < worker.beat_at + worker.lease
