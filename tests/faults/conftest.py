"""Fixtures of the fault tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.faults.fleet import TASK_USER, Fleet, folder_for_all
from tests.faults.served_fleet import ServedFleet
from tests.servers import mariadb, postgres
from tests.servers.finding import postgres_binaries

if TASK_USER:

    @pytest.fixture
    def tmp_path() -> Iterator[Path]:
        """Where the user of the tasks may write."""
        with folder_for_all() as folder:
            yield folder


@contextmanager
def _on_postgres() -> Iterator[str]:
    with postgres.serving(postgres_binaries()) as server:
        yield server.url()


@contextmanager
def _on_mariadb() -> Iterator[str]:
    with mariadb.serving(*mariadb.QUICK) as server:
        yield server.url()


SERVERS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "postgres": _on_postgres,
    "mariadb": _on_mariadb,
}
"""Where the modules below run too: each test of them on a server of its own."""
ON_SERVERS = ("test_chaos", "test_keepers_lost", "test_worker_dies")
"""What is not about the file of a SQLite store, or about the node alone."""
ON_DATABASES = ("test_identity", "test_tasks_misbehave")
"""What is done on servers of databases too, in long tests, but not over HTTP."""
CHOSEN = ("test_what_is_lost_with_its_node_runs_again_elsewhere",)
"""Which of them are no long tests on servers."""
OVER_HTTP = "http"
"""The same with `stayer serve` between the workers and a SQLite store."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let tests run on the servers too."""
    module = metafunc.module.__name__
    if "fleet" not in metafunc.fixturenames or not module.endswith((*ON_SERVERS, *ON_DATABASES)):
        return
    is_chosen = metafunc.function.__name__ in CHOSEN
    servers = [
        pytest.param(name, marks=() if is_chosen else pytest.mark.long)
        for name in (*SERVERS, *((OVER_HTTP,) if module.endswith(ON_SERVERS) else ()))
    ]
    metafunc.parametrize("fleet", ["sqlite", *servers], indirect=True)


@pytest.fixture
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    kind = getattr(request, "param", "sqlite")
    if kind in ("sqlite", OVER_HTTP):
        fleet = Fleet(tmp_path) if kind == "sqlite" else ServedFleet(tmp_path)
        yield fleet
        fleet.close()
        return
    with SERVERS[kind]() as url:
        fleet = Fleet(tmp_path, url)
        yield fleet
        fleet.close()
