"""A PostgreSQL or MariaDB server that is killed, comes back, or takes no changes for a while: tasks
go on or stand still, ends are recorded once, and workers stay.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.fleet import Fleet, until
from tests.servers import mariadb, postgres
from tests.servers.finding import postgres_binaries

pytestmark = pytest.mark.long


class Server(NamedTuple):
    """What can happen to one."""

    url: str
    gone: Callable[[], AbstractContextManager[None]]
    """Killed, and later started again."""
    silent: Callable[[], AbstractContextManager[None]]
    """Takes what it is asked, and does not answer."""
    read_only: Callable[[], AbstractContextManager[None]]
    """Refuses changes."""
    kill: Callable[[], object]


@contextmanager
def _killed(server: postgres.PostgresServer | mariadb.MariaDbServer) -> Iterator[None]:
    server.stop(signal.SIGKILL)
    yield
    server.start()


@contextmanager
def _stopped(processes: Callable[[], list[int]]) -> Iterator[None]:
    stopped = processes()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    yield
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def _on_postgres() -> Iterator[Server]:
    with postgres.serving(postgres_binaries(), careless=False) as server:

        @contextmanager
        def read_only() -> Iterator[None]:
            setting = "ALTER SYSTEM SET default_transaction_read_only"
            server.psql(f"{setting} = on; SELECT pg_reload_conf()")
            yield
            server.psql(f"SET transaction_read_only = off; {setting} = off")
            server.psql("SELECT pg_reload_conf()")

        def group() -> list[int]:
            found = []
            for entry in os.listdir("/proc"):
                if entry.isdigit() and _group_of(entry) == server.pid:
                    found.append(int(entry))
            return found

        yield Server(
            server.url("jobs"),
            lambda: _killed(server),
            lambda: _stopped(group),
            read_only,
            lambda: server.stop(signal.SIGKILL),
        )


def _group_of(pid: str) -> int | None:
    try:
        return os.getpgid(int(pid))
    except ProcessLookupError:
        return None


@contextmanager
def _on_mariadb() -> Iterator[Server]:
    with mariadb.serving() as server:
        url = server.url()
        server.sql("CREATE USER app IDENTIFIED BY ''")
        server.sql("GRANT ALL ON *.* TO app")
        server.sql("REVOKE READ ONLY ADMIN ON *.* FROM app")

        @contextmanager
        def read_only() -> Iterator[None]:
            server.sql("SET GLOBAL read_only = 1")
            yield
            server.sql("SET GLOBAL read_only = 0")

        yield Server(
            url.replace("root@", "app@"),
            lambda: _killed(server),
            lambda: _stopped(lambda: [server.pid]),
            read_only,
            lambda: server.stop(signal.SIGKILL),
        )


@pytest.fixture(params=[_on_postgres, _on_mariadb], ids=["postgres", "mariadb"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with request.param() as server:
        yield server


@pytest.fixture
def fleet(server: Server, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, server.url)
    yield fleet
    server.kill()  # so that nobody waits for it
    fleet.close()


def _begun(fleet: Fleet, id: str = "a") -> None:
    fleet.stamper(id)
    fleet.until_stamped(id)
    fleet.until_state(id, "started")


def _ended_here(fleet: Fleet, id: str) -> Callable[[], bool]:
    return (fleet.folder / "one" / "run" / f"{id}.1" / "exit").exists


@pytest.mark.parametrize("how", ["gone", "silent", "read_only"])
def test_what_ends_meanwhile_is_recorded_once(fleet: Fleet, server: Server, how: str) -> None:
    worker = fleet.worker("one", lease=300)
    for id in ("a", "b"):
        _begun(fleet, id)
    with getattr(server, how)():
        fleet.finish("a")
        until(_ended_here(fleet, "a"))
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 1)
    assert fleet.endings("a") == ["done"]
    # And the worker goes on
    before = len(fleet.read_stamps("b")[1])
    fleet.until_stamped("b", more_than=before)
    fleet.finish("b")
    assert fleet.until_ended("b").attempt == 1
    fleet.submit("c", "true")
    assert fleet.until_ended("c").state == "complete"
    assert worker == fleet.workers[0].pid
    assert fleet.workers[0].poll() is None


@pytest.mark.parametrize("how", ["gone", "read_only"])
def test_a_task_stands_still_when_the_lease_is_over_and_goes_on_afterwards(
    fleet: Fleet, server: Server, how: str
) -> None:
    fleet.worker("one", lease=6.0)
    fleet.worker("two", lease=6.0)
    _begun(fleet)
    home = fleet.get("a").node
    assert home is not None
    running = fleet.folder / home / "run" / "a.1" / "running"
    with getattr(server, how)():
        until(lambda: "fenced" in json.loads(running.read_text())["stopped"])
        before = len(fleet.read_stamps("a")[1])
    fleet.until_stamped("a", more_than=before + 20)
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 1)
    assert list(fleet.read_stamps("a")) == [1]
    assert all(worker.poll() is None for worker in fleet.workers)


def test_a_worker_waits_for_a_server_that_is_not_there_yet(fleet: Fleet, server: Server) -> None:
    with server.gone():
        fleet.worker("one")
        until(lambda: "asking the store again" in (fleet.folder / "one.log").read_text())
    fleet.submit("a", "true")
    assert fleet.until_ended("a").state == "complete"
