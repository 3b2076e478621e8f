"""A store that is away when a command begins, or goes away while it waits."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stayer.service.control import flows as flow_control
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.cli.running import Apart
from tests.cli.terminal import Terminal
from tests.cli.working import Site
from tests.contract.builders import new, submit
from tests.faults.fleet import until
from tests.servers.finding import redis_binary
from tests.servers.redis import RedisServer, serving

FLOW = '{"id": "f", "name": "f", "tasks": {"first": {"queue": "q", "command": ["true"]}}}'


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with serving(redis_binary(), "--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


@pytest.fixture
def url(server: RedisServer) -> str:
    return server.url("mine")


def says(process: subprocess.Popen[str], words: str) -> str:
    """Read what it says on stderr up to a line with these: that line."""
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return line
    raise AssertionError(f"it ended with {process.wait()}, and did not say {words!r}")


@contextmanager
def started(apart: Apart, *command: str) -> Iterator[subprocess.Popen[str]]:
    with apart.start(*command) as process:
        try:
            yield process
        finally:
            process.kill()  # or nobody ends it if the test fails


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["wait", "t"], 3),
        (["wait", "t", "--timeout", "10m"], 3),
        (["log", "-f", "t"], 0),
        (["flow", "wait", "f", "--timeout", "10m"], 3),
    ],
    ids=["wait", "wait with a timeout", "log", "flow"],
)
def test_who_waits_anyway_begins_also_while_the_store_is_away(
    apart: Apart, server: RedisServer, store: Store, command: list[str], code: int
) -> None:
    submit(store, new("t"))
    assert apart("flow", "submit", "-", input=FLOW).code == 0
    server.stop(signal.SIGKILL)
    with started(apart, *command) as process:
        said = says(process, "can't be reached")
        assert "What runs goes on while its lease lasts, then stands still" in said
        server.start()
        says(process, "the store answers again")
        control.cancel(store, "t")
        flow_control.cancel(store, "f")
        assert process.wait() == code


def test_who_has_no_time_to_wait_ends(apart: Apart, server: RedisServer, store: Store) -> None:
    server.stop(signal.SIGKILL)
    for command in (["wait", "t"], ["flow", "wait", "f"]):
        apart(*command, "--timeout", "0s").refuses("can't be reached", code=4)


def test_what_nobody_gets_by_waiting_ends_at_once(apart: Apart, store: Store) -> None:
    for command in (["wait", "nobody"], ["flow", "wait", "nobody"], ["log", "-f", "nobody"]):
        apart(*command).refuses("nobody")


def test_a_worker_begins_when_its_store_can_be_reached(
    fleet: Site, server: RedisServer, url: str
) -> None:
    fleet.url = url
    server.stop(signal.SIGKILL)
    worker = fleet.start("--allow-commands", "-q", "q")
    log = fleet.folder / "one.log"
    until(lambda: "can't begin yet, asking the store again" in log.read_text())
    assert worker.poll() is None
    server.start()
    until(lambda: "takes tasks from q" in log.read_text())


def test_a_worker_that_nobody_lets_in_ends(fleet: Site, url: str) -> None:
    fleet.url = url.replace("unix://", "unix://nobody:wrong@")
    assert fleet.start("--allow-commands").wait() == 2


def test_a_worker_that_waits_for_its_store_can_be_stopped(
    fleet: Site, server: RedisServer, url: str
) -> None:
    fleet.url = url
    server.stop(signal.SIGKILL)
    worker = fleet.start("--allow-commands")
    until(lambda: "can't begin yet" in (fleet.folder / "one.log").read_text())
    worker.terminate()
    assert worker.wait() == -signal.SIGTERM


@pytest.mark.parametrize("command", [["top"], ["ls", "-w"]], ids=["top", "ls"])
def test_what_is_drawn_again_says_that_the_store_is_away_and_goes_on(
    apart: Apart, server: RedisServer, store: Store, command: list[str]
) -> None:
    submit(store, new("t"))
    with Terminal(apart, *command, width=120) as terminal:
        terminal.until("q quits")
        server.stop(signal.SIGKILL)
        terminal.until("No answer since ")
        server.start()
        submit(store, new("u", queue="afterwards"))
        terminal.until("afterwards")
        terminal.type("q")
        assert terminal.end() == 0
