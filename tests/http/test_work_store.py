"""The worker's part of the store that a server has: what it sends, and how long it waits."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stayer.core.happenings import Done, Start, WorkerLost
from stayer.core.lifecycle import decide, with_checkpoint
from stayer.core.model import LogPiece, Report, Task
from stayer.core.worker_model import EVERYTHING, Worker
from stayer.store import Store
from stayer.stores.remote.connection import Connection, RequestTooLarge
from stayer.stores.remote.store import open_server
from stayer.stores.remote.uploads import Uploads
from tests.contract.builders import get, new, submit
from tests.http.serving import served_here

LEASE = 4.0


@contextmanager
def working(folder: Path, url: str, **settings: Any) -> Iterator[Store]:
    """The store as a worker has it that has beaten once."""
    with served_here(folder, url, **settings) as site:
        remote = open_server(site.url, site.access.add("node", "work", ("q",)))
        beat(remote, 1)
        yield remote
        remote.close()


def beat(remote: Store, number: int, *reports: Report) -> tuple[str, ...]:
    """Beat; whose reports were not delivered."""
    worker = Worker(id="w", node="here", pid=1, lease=LEASE, queues=("q",))
    return remote.beat(worker, number, f"nonce {number}", reports).undelivered


def run(store: Store, remote: Store, count: int) -> list[Task]:
    """Tasks that have begun."""
    submit(store, *(new(str(number)) for number in range(count)))
    begun = remote.commit(
        [decide(task, Start(1)) for task in remote.reserve("w", ["q"], count, EVERYTHING)]
    )
    assert len(begun) == count
    return [task for task in begun if task is not None]


def end(remote: Store, tasks: list[Task], size: int) -> list[Task | None]:
    return remote.commit([decide(task, Done("x" * size)) for task in tasks])


@pytest.mark.parametrize(
    ("limit", "size"),
    [pytest.param(3_000_000, 999_000, id="large"), pytest.param(300_000, 190_000, id="narrow")],
)
def test_ends_go_in_as_many_requests_as_they_need(
    tmp_path: Path, store: Store, url: str, limit: int, size: int
) -> None:
    with working(tmp_path, url, body_limit=limit) as remote:
        tasks = run(store, remote, 5)
        answers = end(remote, tasks, size)
        assert [answer and answer.id for answer in answers] == [task.id for task in tasks]
        assert {get(store, task.id).state for task in tasks} == {"complete"}


def test_one_that_never_fits_says_what_to_do_and_that_others_may_be_done(
    tmp_path: Path, store: Store, url: str
) -> None:
    with working(tmp_path, url, body_limit=100_000) as remote:
        first, second = run(store, remote, 2)
        changes = [decide(first, Done("x")), decide(second, Done("x" * 200_000))]
        with pytest.raises(RequestTooLarge, match="--body-limit") as refused:
            remote.commit(changes)
        assert refused.value.unsure
        assert (get(store, first.id).state, get(store, second.id).state) == ("complete", "started")


def test_a_checkpoint_at_the_end_may_be_as_large_as_any(
    tmp_path: Path, store: Store, url: str
) -> None:
    with working(tmp_path, url, body_limit=1_000_000) as remote:
        [task] = run(store, remote, 1)
        saved = b"s" * 1_000_000
        [done] = remote.commit([with_checkpoint(decide(task, Done("x")), saved)])
        assert done is not None
        assert done.state == "complete"
        kept = store.checkpoint(task.id)
        assert kept is not None
        assert kept.data == saved


def test_a_late_end_is_kept_though_its_checkpoint_does_not_fit(
    tmp_path: Path, store: Store, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with working(tmp_path, url, body_limit=1_000_000) as remote:
        [task] = run(store, remote, 1)
        [held] = store.drop_worker("w", 1)
        assert held.id == task.id
        assert store.commit([decide(held, WorkerLost("lost"))])[0] is not None
        change = with_checkpoint(decide(task, Done("late")), b"s" * 900_000)
        with caplog.at_level(logging.WARNING):
            [done] = remote.commit([change])
        assert done is not None
        assert (done.state, done.result) == ("complete", "late")
        assert "checkpoint of task 0 is not kept" in caplog.text


def test_a_beat_waits_once_for_all_that_goes_beside_it(
    tmp_path: Path, store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    def find_no_room(uploads: Uploads, worker: str, report: Report, patience: float) -> bool:
        waited.append(max(0.0, patience))
        time.sleep(waited[-1])
        return False

    with working(tmp_path, url) as remote:
        monkeypatch.setattr(Uploads, "add", find_no_room)
        reports = [
            Report(id=str(number), attempt=1, log=(LogPiece(0, b"x"),)) for number in range(40)
        ]
        assert set(beat(remote, 2, *reports)) == {report.id for report in reports}
        assert len(waited) == 40
        assert sum(waited) < LEASE / 8


def test_a_beat_waits_for_its_answer_only_for_a_small_part_of_the_lease(
    tmp_path: Path, store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []
    connect = socket.create_connection

    def note(address: Any, timeout: Any = None, *rest: Any) -> socket.socket:
        given.append(timeout)
        return connect(address, timeout, *rest)

    with working(tmp_path, url) as remote:
        monkeypatch.setattr(socket, "create_connection", note)
        remote.close()  # so that it has to connect again
        remote.holdings("w")
        remote.close()
        beat(remote, 2)
        [patient, hasty] = given
        assert 3 * hasty < LEASE < patient


def test_a_connection_that_was_made_for_a_long_upload_is_as_hasty_when_it_is_made_again(
    tmp_path: Path, store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []
    once = Connection._once

    def note(connection: Any, *arguments: Any) -> Any:
        given.append(connection.timeout)
        return once(connection, *arguments)

    with working(tmp_path, url) as remote:
        monkeypatch.setattr(Connection, "_once", staticmethod(note))
        remote.holdings("w")
        beat(remote, 2)
        [patient, hasty] = given
        assert 3 * hasty < LEASE < patient
