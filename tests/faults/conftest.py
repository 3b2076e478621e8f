"""Fixtures of the fault tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.faults.fleet import TASK_USER, Fleet, folder_for_all
from tests.faults.pools import PoolFleet
from tests.faults.served_fleet import ServedFleet, ServedPools
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
THREADS_OVER_HTTP = (
    "test_functions_end_as_they_do_in_processes",
    "test_log_and_progress_come_before_the_end",
    "test_steps_and_checkpoints_are_there_in_the_next_attempt",
    "test_a_task_that_listens_is_cancelled",
    "test_whoever_kills_pool_or_guard_the_task_runs_again",
)
"""What of tasks in threads is done over HTTP too."""
SERVED: dict[type[Fleet], type[ServedFleet]] = {Fleet: ServedFleet, PoolFleet: ServedPools}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let tests run on the servers too."""
    module = metafunc.module.__name__
    if metafunc.function.__name__ in THREADS_OVER_HTTP:
        metafunc.parametrize("fleet", ["sqlite", OVER_HTTP], indirect=True)
        return
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
    """Workers; those of a class that the module names `FLEET`, if it does."""
    kind = getattr(request, "param", "sqlite")
    make = getattr(request.module, "FLEET", Fleet)
    with SERVERS[kind]() if kind in SERVERS else nullcontext() as url:
        if url is not None:
            fleet = make(tmp_path, url)
        else:
            fleet = SERVED[make](tmp_path) if kind == OVER_HTTP else make(tmp_path)
        yield fleet
        fleet.close()
