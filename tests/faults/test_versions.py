"""Workers, nurseries and keepers of different versions on one node."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import stayer
from stayer.service.control import edits as edit_control
from stayer.service.control import tasks as control
from tests.contract.builders import check_counts
from tests.faults.fleet import TASK_USER, Fleet, until
from tests.faults.pools import PoolFleet
from tests.servers.finding import redis_binary
from tests.servers.redis import serving
from tests.versions.old import unpack_source


@pytest.fixture
def other_version(tmp_path: Path) -> Path:
    """Code whose keepers say less in some places than ours do, and more in others."""
    folder = tmp_path / "other"
    ours = Path(stayer.__file__).parent
    shutil.copytree(ours, folder / "stayer")
    keeper = folder / "stayer" / "keeper" / "keeper.py"
    text = keeper.read_text()
    for said, otherwise in (
        ('"usage": self._accounts.usage,', '"usage": {"cpu": 0.5}, "mood": {"good": [1, 2]},'),
        ('"usage": self._accounts.final(),', '"mood": "sleepy",'),
        ('"cgroup": self._cgroup and self._cgroup.path,', ""),
    ):
        assert said in text
        text = text.replace(said, otherwise)
    keeper.write_text(text)
    return folder


@pytest.fixture
def old_version(tmp_path: Path) -> Path:
    """The code of 144e6ff, see tests/data: of a worker on SQLite or on a Redis server."""
    if TASK_USER is not None:
        pytest.skip("144e6ff had no --task-user")
    return unpack_source(tmp_path / "old")


def test_a_run_directory_without_a_part_for_the_task_is_adopted(
    fleet: Fleet, old_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start(fleet, old_version, monkeypatch, lease=60)
    go = fleet.folder / "go"
    script = (
        f"echo early; touch {fleet.folder}/begun;"
        f" until [ -e {go} ]; do sleep 0.05; done; echo late;"
        ' echo 1/2 > "$STAYER_REPORT"; echo state > "$STAYER_CHECKPOINT"; echo 7 > "$STAYER_RESULT"'
    )
    fleet.submit("a", "sh", "-c", script)
    fleet.submit("b", "sh", "-c", "sleep 1000")
    until((fleet.folder / "begun").exists)
    fleet.until_state("b", "started")
    assert (fleet.folder / "one" / "run" / "a.1" / "input").exists()
    fleet.signal(worker, signal.SIGKILL)
    start(fleet, None, monkeypatch, lease=60)
    go.touch()
    task = fleet.until_ended("a")
    assert (task.state, task.attempt, task.result) == ("complete", 1, 7)
    assert task.progress is not None
    assert task.progress.done == 1
    pieces = fleet.store.log("a", 1, 0, 1000)
    assert b"".join(piece.data for piece in pieces) == b"early\nlate\n"
    control.cancel(fleet.store, "b", grace=0)
    assert fleet.until_ended("b").state == "cancelled"
    until(lambda: not any((fleet.folder / "one" / "run").iterdir()))
    assert not fleet.strays()


def start(
    fleet: Fleet,
    code: Path | None,
    monkeypatch: pytest.MonkeyPatch,
    lease: float,
    name: str = "one",
    slots: int = 4,
) -> int:
    """A worker of that code, or of ours."""
    with monkeypatch.context() as patch:
        if code is not None:
            patch.setenv("PYTHONPATH", str(code))
        return fleet.worker(name, lease=lease, slots=slots)


def versions(fleet: Fleet) -> int:
    return len(list((fleet.folder / "one").glob("nursery-*.fifo")))


@pytest.mark.parametrize("way", ["from another", "from 144e6ff", "to another"])
def test_one_version_adopts_what_another_keeps(
    fleet: Fleet, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    code: Path = request.getfixturevalue("old_version" if "144e6ff" in way else "other_version")
    first, second = (None, code) if way.startswith("to") else (code, None)
    worker = start(fleet, first, monkeypatch, lease=30)
    for id in ("done", "cancelled"):
        fleet.stamper(id)
        fleet.until_state(id, "started")
        fleet.until_stamped(id)
    fleet.signal(worker, signal.SIGKILL)

    start(fleet, second, monkeypatch, lease=30)
    fleet.stamper("new")
    fleet.until_stamped("new")
    assert versions(fleet) == 2
    for id in ("done", "new"):
        fleet.finish(id)
        task = fleet.until_ended(id)
        assert (task.state, task.attempt) == ("complete", 1)
    control.cancel(fleet.store, "cancelled", grace=0.2)
    assert fleet.until_ended("cancelled").state == "cancelled"
    assert all(list(fleet.read_stamps(id)) == [1] for id in ("done", "new", "cancelled"))


def test_a_keeper_of_another_version_is_fenced_and_goes_on(
    fleet: Fleet, other_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = start(fleet, other_version, monkeypatch, lease=3)
    fleet.stamper("a")
    fleet.until_state("a", "started")
    fleet.until_stamped("a")
    fleet.signal(worker, signal.SIGKILL)
    running = fleet.folder / "one" / "run" / "a.1" / "running"
    until(lambda: b'"fenced"' in running.read_bytes(), "for the fence")
    seen = len(fleet.read_stamps("a")[1])
    start(fleet, None, monkeypatch, lease=3)
    fleet.until_stamped("a", more_than=seen)
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 1)


@pytest.fixture(params=["sqlite", "redis"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        url = None
        if request.param == "redis":
            url = stack.enter_context(serving(redis_binary())).url()
        fleet = Fleet(tmp_path, url)
        stack.callback(fleet.close)
        yield fleet


def test_workers_of_two_versions_share_a_store(
    shared: Fleet, old_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, code in (("old", old_version), ("new", None)):
        start(shared, code, monkeypatch, lease=60, name=name, slots=2)
    go = shared.folder / "go"
    gates = [f"gate-{number}" for number in range(4)]
    for id in gates:  # as many as there are slots, so each worker has two of them
        shared.submit(id, "sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done; echo on")
    for id in gates:
        shared.until_state(id, "started")
    assert sorted(str(shared.get(id).node) for id in gates) == ["new", "new", "old", "old"]

    work = [f"work-{number}" for number in range(20)]
    for id in work:
        shared.submit(
            id, "sh", "-c", 'echo "\\"$STAYER_TASK_ID\\"" > "$STAYER_RESULT"', after=gates
        )
    for id in ("fails-1", "fails-2"):
        shared.submit(id, "sh", "-c", "exit 3", retries=1, retry_wait=0)
    for id in gates[:1]:
        control.cancel(shared.store, id, grace=0)
        assert shared.until_ended(id).state == "cancelled"
    edit_control.retry(shared.store, gates[0])
    go.touch()
    for id in gates:
        assert shared.until_ended(id).state == "complete"
    for id in ("fails-1", "fails-2"):
        assert (shared.until_ended(id).state, shared.get(id).attempt) == ("failed", 2)
    for id in work:
        assert shared.until_ended(id).state in ("complete", "cancelled")
    check_counts(shared.store)


@pytest.mark.parametrize("dies", ["old", "new"])
def test_a_worker_of_one_version_declares_one_of_another_lost(
    shared: Fleet, old_version: Path, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    code = {"old": old_version, "new": None}
    worker = start(shared, code[dies], monkeypatch, lease=3, name=dies)
    shared.stamper("a")
    shared.until_stamped("a")
    shared.until_state("a", "started")
    shared.signal(worker, signal.SIGKILL)
    stays = "new" if dies == "old" else "old"
    start(shared, code[stays], monkeypatch, lease=3, name=stays)
    shared.until_stamped("a", attempt=2)
    assert shared.endings("a")[0] == "lost"
    shared.finish("a")
    task = shared.until_ended("a")
    assert (task.state, task.attempt, task.node) == ("complete", 2, stays)
    shared.assert_no_overlap("a")


def upgrade(code: Path) -> None:
    """Put our code in the place of another while a worker of that one runs, as pip does."""
    (code / "stayer").rename(code / "before")
    ours = Path(stayer.__file__).parent
    shutil.copytree(ours, code / "stayer")


@pytest.fixture
def pools(tmp_path: Path) -> Iterator[PoolFleet]:
    fleet = PoolFleet(tmp_path)
    yield fleet
    fleet.close()


def test_a_worker_whose_code_was_upgraded_runs_python_tasks(
    pools: PoolFleet, old_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts `python -m stayer.runners`."""
    monkeypatch.setenv("PYTHONPATH", f"{old_version}{os.pathsep}{pools.folder}")
    pools.worker("one", "--app", "jobs", lease=60)
    pools.call("before", "double", n=2)
    assert pools.until_ended("before").result == 4
    upgrade(old_version)
    pools.call("after", "double", n=4)
    pools.call("fails", "fail")
    pools.call("talks", "talk")
    stamps = str(pools.folder / "stamps")
    pools.call("steps", "steps", path=stamps, options={"retries": 1, "retry_wait": 0})
    assert pools.until_ended("after").result == 8
    error = pools.until_ended("fails").error
    assert error is not None
    assert (error.type, error.message) == ("ValueError", "out of cheese")
    progress = pools.until_ended("talks").progress
    assert progress is not None
    assert (progress.done, progress.message) == (1, "begun")
    assert pools.until_ended("steps").result[1] == {"at": 7}  # type: ignore[index]


def test_a_worker_whose_code_was_upgraded_starts_new_threads(
    pools: PoolFleet, old_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts `python -m stayer.runners.pool`, and speaks with it as it always did."""
    monkeypatch.setenv("PYTHONPATH", str(old_version))
    worker = pools.pool_worker(lease=60)
    pools.call("before", "double", n=2)
    assert pools.until_ended("before").result == 4
    upgrade(old_version)
    before = pools.pool_of(worker)
    assert before is not None
    os.kill(before, signal.SIGKILL)
    until(lambda: pools.pool_of(worker) not in (None, before), "for new threads")
    pools.call("after", "double", n=4)
    pools.call("fails", "fail")
    pools.call("talks", "talk")
    pools.call("stops", "patient", path=str(pools.stamps("stops")))
    assert pools.until_ended("after").result == 8
    assert pools.until_ended("fails").state == "failed"
    until(lambda: pools.get("talks").progress, "for progress")
    pools.until_stamped("stops")
    control.cancel(pools.store, "stops")
    assert pools.until_ended("stops").state == "cancelled"
    pools.signal(worker, signal.SIGTERM)
    assert pools.end_of(worker) == 0
