"""A store of 144e6ff is upgraded, and taken back, while workers of that version hold tasks."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from stayer.core.fields import STORED
from tests.contract.builders import check_counts
from tests.faults.fleet import STAMPER, TASK_USER, Fleet
from tests.servers.finding import redis_binary
from tests.servers.redis import serving
from tests.versions.old import unpack_source

pytestmark = pytest.mark.skipif(TASK_USER is not None, reason="144e6ff had no --task-user")

SUBMIT = """
import sys
from stayer.core.submission import new_task
from stayer.stores import open_store

url, code, folder, *ids = sys.argv[1:]
store = open_store(url)
store.setup()
for id in ids:
    command = [sys.executable, "-c", code, f"{folder}/{id}.stamps", f"{folder}/{id}.stop"]
    store.submit([new_task(queue="default", id=id, command=command)])
"""
READ = """
import sys
from stayer.stores import open_store

for task in open_store(sys.argv[1]).get(sys.argv[2:]):
    print(task.id, task.state, task.attempt)
"""


class Upgrade:
    """A store that 144e6ff has made, and workers of both versions."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self._code = unpack_source(folder / "code")
        self.fleet = Fleet(folder, url, setup=False)

    def old_python(self, script: str, *words: str) -> str:
        command = [sys.executable, "-c", script, self.fleet.url, *words]
        environment = {**os.environ, "PYTHONPATH": str(self._code)}
        return subprocess.check_output(command, env=environment, text=True)

    def old_submit(self, *ids: str) -> None:
        self.old_python(SUBMIT, STAMPER, str(self.fleet.folder), *ids)

    def worker(self, version: str, name: str) -> int:
        with pytest.MonkeyPatch.context() as patch:
            if version == "old":
                patch.setenv("PYTHONPATH", str(self._code))
            return self.fleet.worker(name, slots=1, lease=60, take_over=True)

    def columns(self) -> set[str]:
        with closing(sqlite3.connect(self.fleet.folder / "stayer.db")) as database:
            rows = database.execute("SELECT name FROM pragma_table_info('stayer_tasks')")
            return {name for (name,) in rows}


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.long)])
def upgrade(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Upgrade]:
    with ExitStack() as stack:
        url = None
        if request.param == "redis":
            url = stack.enter_context(serving(redis_binary())).url()
        upgrade = Upgrade(tmp_path, url)
        stack.callback(upgrade.fleet.close)
        yield upgrade


def test_a_store_is_upgraded_and_taken_back_while_its_tasks_run(upgrade: Upgrade) -> None:
    fleet = upgrade.fleet
    wanted = {field.name for field in STORED}

    # Given a store and two workers of the old version, each with a task
    upgrade.old_submit("stays", "first")
    worker = upgrade.worker("old", "one")
    upgrade.worker("old", "two")
    for id in ("stays", "first"):
        fleet.until_stamped(id)
    upgrade.old_submit("second", "third")
    is_sqlite = fleet.url.startswith("sqlite")
    assert not is_sqlite or not wanted <= upgrade.columns()

    # When the new version sets the store up, then the old workers go on and take the next task
    fleet.store.setup()
    assert not is_sqlite or wanted <= upgrade.columns()
    [one] = [id for id in ("stays", "first") if fleet.get(id).node == "one"]
    [two] = {"stays", "first"} - {one}
    fleet.finish(one)
    assert fleet.until_ended(one).state == "complete"
    fleet.until_stamped("second")

    # And a worker of the new version takes over from one of them, with its task
    newer = upgrade.worker("new", "one")
    assert fleet.end_of(worker) == 0
    fleet.finish("second")
    assert fleet.until_ended("second").state == "complete"
    fleet.until_stamped("third")

    # And the old version takes over again, with a task that the new one has started
    fleet.stamper("fourth")
    upgrade.worker("old", "one")
    assert fleet.end_of(newer) == 0
    fleet.finish("third")
    assert fleet.until_ended("third").state == "complete"
    fleet.until_stamped("fourth")

    # Then nothing was lost or run twice, and both versions say so
    for id in (two, "fourth"):
        fleet.finish(id)
        fleet.until_ended(id)
    everything = [one, two, "second", "third", "fourth"]
    assert [list(fleet.read_stamps(id)) for id in everything] == [[1]] * 5
    shown = [f"{task.id} {task.state} {task.attempt}" for task in map(fleet.get, everything)]
    assert shown == [f"{id} complete 1" for id in everything]
    assert upgrade.old_python(READ, *everything).splitlines() == shown
    check_counts(fleet.store)
