"""Nothing stays in a state directory that nobody will come for."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stayer.core.model import Task
from stayer.core.submit.checks import new_task
from stayer.service.control import tasks as control
from stayer.stores import open_store
from stayer.worker.attempts import HeldAttempts
from stayer.worker.cleanup import clear_leftovers
from stayer.worker.refused_results import (
    REFUSED_RESULT_KEPT_S,
    find_refused_results,
    remove_outdated,
)
from stayer.worker.run_directory import Run
from stayer.worker.state_directory import StateDirectory
from stayer.worker.wakeup import Bell
from tests.cli.running import Apart
from tests.faults.fleet import Fleet, until

KILLED = 9
CHANGES = {
    "open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.chown", "os.truncate",
    "shutil.rmtree", "os.link", "os.listdir", "os.scandir",
}  # fmt: skip


def _killed_at(step: int, deed: Callable[[], object]) -> bool:
    """Do it in a process that ends, as if killed, before its system call of that number; False if
    there was none.
    """
    child = os.fork()
    if child == 0:
        done = itertools.count(1)

        def count(event: str, _: object) -> None:
            if event in CHANGES and next(done) == step:
                os._exit(KILLED)

        sys.addaudithook(count)
        code = 1
        try:
            deed()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, KILLED)
    return code == KILLED


@pytest.mark.parametrize("refused", [False, True])
def test_a_kill_at_any_step_of_making_and_removing_leaves_nothing(
    tmp_path: Path, refused: bool
) -> None:
    store = open_store(f"sqlite:///{tmp_path}/stayer.db")
    store.setup()
    task = Task("a", "default", attempt=2, worker="somebody", parameters=[1])
    seen: set[str] = set()
    for step in itertools.count(1):
        state = StateDirectory(tmp_path / "state", "here")
        state.open()
        run = state.run_for(task)

        def deed(run: Run = run) -> None:
            run.prepare(task, {"argv": ["true"]}, b"a checkpoint", {"up": 1})
            if refused:
                (run.task_folder / "result.refused").write_text("much")
            run.remove()

        killed = _killed_at(step, deed)
        seen.update(path.name for path in (state.path / "run").iterdir())
        state.close()
        state.open()  # as the next worker does
        clear_leftovers(store, state, HeldAttempts(state, Bell()))
        assert not list((state.path / "run").iterdir()), step
        state.close()
        if not killed:
            break
    assert step > 20
    assert any(name.startswith(".new.") for name in seen)
    assert refused or any(name.startswith(".gone.") for name in seen)
    store.close()


def test_what_an_older_version_left_is_removed(fleet: Fleet) -> None:
    runs = fleet.folder / "one" / "run"
    remains = {"t1.1": ["input", "go.spare"], "t2.2": ["checkpoint", "log"], "t3.1": []}
    remains["%" + "0" * 64 + ".1"] = ["input"]
    for name, files in remains.items():
        (runs / name).mkdir(parents=True)
        for file in files:
            (runs / name / file).write_text("x")
    fleet.worker("one")
    until(lambda: not any(runs.iterdir()), "for the remains to go")


def test_what_runs_is_never_taken_for_remains(fleet: Fleet) -> None:
    fleet.worker("one", lease=60)
    fleet.stamper("a")
    fleet.until_state("a", "started")
    fleet.until_stamped("a")
    run = fleet.folder / "one" / "run" / "a.1"
    (run / "task.json").unlink()
    for lock in (run / "lock", None):
        state = StateDirectory(fleet.folder / "one", "one")
        clear_leftovers(fleet.store, state, HeldAttempts(state, Bell()))
        assert (run / "running").exists()
        if lock:
            lock.unlink()  # its keeper is known by what it said, too
    fleet.finish("a")
    assert fleet.until_ended("a").attempt == 1


BIG = "import os\nopen(os.environ['STAYER_RESULT'], 'w').write('\"' + 'x' * 2_000_000 + '\"')"


def test_a_refused_result_goes_with_its_task_or_with_time(fleet: Fleet) -> None:
    fleet.worker("one", lease=60)
    for id in ("purged", "old", "kept"):
        fleet.submit(id, fleet.python, "-c", BIG)
    for id in ("purged", "old", "kept"):
        task = fleet.until_ended(id)
        assert task.error is not None
        assert task.error.type == "ResultTooLarge"
    state = fleet.folder / "one"
    until(lambda: len(find_refused_results(state)) == 3, "for the run directories to be stripped")
    by_task = {str(each.task): each.path for each in find_refused_results(state)}
    assert sorted(by_task) == ["kept", "old", "purged"]
    assert all(str(path) in repr(fleet.get(id)) for id, path in by_task.items())
    settings = fleet.folder / "stayer.toml"
    settings.write_text(f'store = "{fleet.url}"\n[worker]\nstate_dir = "{state}"\n')
    doctor = Apart({"HOME": str(fleet.folder), "PATH": os.environ["PATH"]}, fleet.folder)
    said = json.loads(doctor("doctor", "--json", "--config", str(settings)).out)
    [found] = [each for each in said if each["check"] == "refused"]
    assert "3 results" in found["message"]
    assert "kept, old, purged" in found["message"]
    control.delete(fleet.store, "purged")
    then = by_task["old"].stat().st_mtime - REFUSED_RESULT_KEPT_S
    os.utime(by_task["old"], (then, then))
    remove_outdated(fleet.store, state)
    assert [each.task for each in find_refused_results(state)] == ["kept"]
    assert [path.name for path in (state / "run").iterdir()] == ["kept.1"]


def test_a_refused_result_goes_when_a_later_attempt_completes(fleet: Fleet) -> None:
    fleet.worker("one", lease=60)
    script = f"import os\nif os.environ['STAYER_ATTEMPT'] == '1':\n exec({BIG!r})"
    new = new_task(
        queue="default", id="a" * 150, retries=1, retry_wait=0.0,
        command=(fleet.python, "-c", script),
    )  # fmt: skip
    fleet.store.submit([new])
    assert fleet.until_ended("a" * 150).state == "complete"
    state = fleet.folder / "one"
    until(lambda: [each.task for each in find_refused_results(state)] == ["a" * 150])
    remove_outdated(fleet.store, state)
    assert find_refused_results(state) == []
