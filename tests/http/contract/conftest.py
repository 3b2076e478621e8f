"""The tests of the contract, with a server between the test and the store.

What workers and clients ask goes over HTTP, each with a token that has just the role for it. What a
server sees to itself (upkeep, notices, moves, who is dead) is asked of the database, as the server
does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from stayer.core.happening_json import happening_json
from stayer.core.model import Change, Task
from stayer.http.token_places import TokensInStore
from stayer.http.tokens import Access
from stayer.store import AdminStore, FileStore, ReadStore, Store, SubmitStore, WorkerStore
from stayer.stores import open_store
from stayer.stores.remote import open_server
from stayer.stores.sql.sqlite.memory import discard
from tests.contract.builders import Clock
from tests.contract.conftest import clock
from tests.http.serving import Site, served_with

__all__ = ["clock"]

QUEUES = (
    "q", "r", "x", "y", "a", "b", "c", "other", "another", "open", "paused", "small", "large",
    "heard", "never", "videos",
)  # fmt: skip
"""Of which workers may take tasks; a token of the role `work` has to name them."""
CORE = ("test_beat.py", "test_fence.py", "test_waiter.py")
"""What every run has; the rest is left to the long tests."""
OTHERWISE = {
    "a server decides itself what becomes of a task": (
        "test_a_change_sets_what_it_names_and_keeps_the_rest",
        "test_a_change_that_names_another_is_refused[{'state': 'pending'}]",
    ),
    "a server judges and orders workers itself": (
        "test_are_told_to_the_others", "test_come_with_each_beat_and_are_shown",
        "test_of_two_with_one_number_the_first_counts",
        "test_to_stop_let_it_take_nothing_and_end_its_lease", "test_are_for_workers_that_are_there",
        "test_is_never_suspected", "test_may_say_otherwise_later",
        "test_is_still_dropped_on_somebodys_word",
    ),
    "a worker has to beat before it asks for anything else": (
        "test_a_worker_that_never_beat_gets_nothing", "test_a_waiter_can_be_rung_by_another_thread",
        "test_registers_the_worker",
    ),
    "JSON has no room for it": (
        "test_results_come_back_as_they_went_in[{'base64': 'aGVsbG8='}]",
        "test_that_bring_only_a_log_keep_the_losses",
    ),
    "a request is refused that is too large, or makes no sense": (
        "test_thousands_may_change_in_one_call", "test_a_task_comes_with_all_it_was_given[fields4]",
        "test_a_limit_of_none_or_a_higher_one_opens_the_queue",
        "test_an_end_counts_in_the_minute_in_which_it_was_heard",
    ),
    "queues that only have listeners are listed": ("test_a_queue_that_is_not_there_gives_nothing",),
    "whoever names a task to be deleted means it": ("test_it_is_kept_for_as_long_as_any_other",),
}  # fmt: skip
"""What is not so over HTTP, and why."""
WORKER = {name for name in vars(WorkerStore) if not name.startswith("_")} - {
    "declare_lost",
    "commit",
}
CLIENT = {
    name
    for part in (ReadStore, SubmitStore, FileStore, AdminStore)
    for name in vars(part)
    if not name.startswith("_")
} - {"old_files", "drop_files", "submit_on"}


class ThroughServer:
    """The store as workers and clients of a server have it, and as the server has it."""

    def __init__(self, site: Site, database: Store) -> None:
        self._client = open_server(site.url, site.access.add(uuid4().hex, "operate"))
        self._worker = open_server(site.url, site.access.add("node", "work", QUEUES))
        self._database = database

    def __getattr__(self, name: str) -> Any:
        by = self._worker if name in WORKER else self._client if name in CLIENT else self._database
        return getattr(by, name)

    def commit(self, changes: Sequence[Change]) -> list[Task | None]:
        """What workers tell goes over HTTP; the rest is what the server comes to by its verbs."""
        told = all(change.worker and happening_json(change.happening) for change in changes)
        return (self._worker if told else self._database).commit(changes)

    def close(self) -> None:
        self._client.close()
        self._worker.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what opens the database by its URL, and what is not so over HTTP."""
    here = Path(__file__).parent
    otherwise = {name for names in OTHERWISE.values() for name in names}
    left = []
    for item in items:
        if item.path.parent == here:
            fixtures: Collection[str] = item.fixturenames  # type: ignore[attr-defined]
            if {"other", "timely"} & {*fixtures} or {item.name, item.originalname} & otherwise:  # type: ignore[attr-defined]
                continue
            if item.path.name not in CORE:
                item.add_marker(pytest.mark.long)
        left.append(item)
    items[:] = left


@pytest.fixture
def url() -> Iterator[str]:
    url = f"memory:{uuid4().hex}"
    yield url
    discard(url)


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[Store]:
    database = open_store(url, clock=clock)
    database.setup()
    with served_with(Access(TokensInStore(database)), url, clock=clock) as site:
        through: Any = ThroughServer(site, database)
        yield through
        through.close()
