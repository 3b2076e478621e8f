"""Environments of running tasks: built once however many wait, whole and theirs while they run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stayer.core.model import Code
from stayer.task.prepare import cache
from tests.code.conftest import CodeFleet
from tests.code.index import digest
from tests.code.test_requirements import hold_the_index, wrap_uv
from tests.faults.fleet import until

WAITING = "another task prepares this environment"


def test_all_who_come_while_it_is_built_wait_for_the_one_build(fleet: CodeFleet) -> None:
    gate, calls = fleet.folder / "gate", fleet.folder / "calls"
    wrap_uv(fleet, f'echo "$*" >> {calls}\nuntil test -e {gate}; do sleep 0.05; done')
    wheel = next(fleet.index.folder.glob("*/*.whl"))
    ids = [f"t{number}" for number in range(6)]
    for id in ids:
        code = Code(f"greet==1.0 --hash=sha256:{digest(wheel)}")
        fleet.add(id, "python", "-c", "import greet", code=code)
    for name in ("one", "two"):
        fleet.starts(name, "--slots", "3")
    until(lambda: sum(WAITING in fleet.log(id) for id in ids) == len(ids) - 1, "for five to wait")

    gate.touch()

    for id in ids:
        fleet.completed(id)
    assert sum("pip sync" in line for line in calls.read_text().splitlines()) == 1
    assert len(fleet.environments()) == 1


@pytest.mark.parametrize("close", ["", 'for n in 3 4 5 6 7 8 9; do eval "exec $n>&-"; done; '])
def test_what_a_task_runs_in_is_not_evicted(fleet: CodeFleet, close: str) -> None:
    """Also if it closes all that it was given: its worker has the lock as well."""
    go = fleet.folder / "go"
    script = f"{close}until test -e {go}; do sleep 0.02; done; python -c 'import greet'"
    fleet.starts()
    fleet.add("a", "sh", "-c", script, code=Code("greet"))
    fleet.until_state("a", "started")
    [environment] = fleet.environments()

    assert cache.evict(str(fleet.cache / "envs"), 0, 0.0) == []

    go.touch()
    fleet.completed("a")
    until(lambda: cache.remove(str(environment)), "for the lock to be free")


def test_its_files_are_copies_and_its_lock_is_for_all_platforms(fleet: CodeFleet) -> None:
    fleet.index.add("winonly", "1.0")
    fleet.starts()
    code = Code("greet\nwinonly; sys_platform == 'win32'")
    fleet.add("a", "python", "-c", "import greet", code=code)

    task = fleet.completed("a")

    assert task.lock is not None
    assert "winonly==1.0" in task.lock
    [environment] = fleet.environments()
    [module] = environment.glob("venv/lib/*/site-packages/greet.py")
    assert module.stat().st_nlink == 1
    assert not module.stat().st_mode & 0o222
    assert not list(environment.glob("venv/lib/*/site-packages/winonly.py"))
    assert json.loads((environment / "complete").read_text())["lock"] == (
        task.pinned and task.pinned.lock
    )


def test_a_preparation_ends_with_its_time_and_is_tried_again(fleet: CodeFleet) -> None:
    gate = fleet.folder / "gate"
    hold_the_index(fleet, gate)
    fleet.starts("one", "--code-time-limit", "1s")
    fleet.add("a", "python", "-c", "import greet", code=Code("greet"))

    task = fleet.until_state("a", "scheduled", "failed")

    assert (task.state, task.ending, task.failures) == ("scheduled", "environment", 0)
    assert task.error is not None
    assert "longer than the 1 seconds" in task.error.message
    gate.touch()
    fleet.completed("a")


def test_no_python_is_downloaded_unless_the_worker_says_so(fleet: CodeFleet) -> None:
    said = fleet.folder / "said"
    wrap_uv(fleet, f'echo "$UV_PYTHON_DOWNLOADS" >> {said}')
    fleet.starts("one")
    fleet.add("a", "true", code=Code(python="3.99"))
    assert "no Python 3.99" in str(fleet.ended("a").error)
    assert set(said.read_text().split()) == {"never"}


def test_where_it_works_meanwhile_nothing_is_left(fleet: CodeFleet) -> None:
    fleet.starts()
    fleet.add("a", "python", "-c", "import greet", code=Code("greet"))

    fleet.completed("a")

    assert not list(Path(fleet.cache / "tmp").iterdir())
