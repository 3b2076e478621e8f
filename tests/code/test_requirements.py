"""Packages for tasks: resolved, pinned, built once, used offline, refused where not allowed."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from stayer.core.happenings import Fail, Pin, Snooze
from stayer.core.lifecycle import decide
from stayer.core.model import Code, Pinned, Task
from stayer.store import Store
from stayer.task.prepare.build import Builder
from stayer.task.prepare.cache import Lock
from stayer.task.prepare.programs import Programs, Unprepared, find_uv
from stayer.worker.attempt import HeldAttempt
from stayer.worker.outcome import outcome
from stayer.worker.preparation import Preparations
from stayer.worker.run_directory import Run
from tests.code.conftest import CodeFleet
from tests.code.index import digest
from tests.faults.fleet import until

SHOW = ("python", "-c", "import greet; print('greet', greet.VERSION)")


def test_a_task_finds_what_it_needs_and_its_record_tells_what_that_was(fleet: CodeFleet) -> None:
    fleet.starts()
    fleet.add("a", *SHOW, code=Code("greet"))

    task = fleet.completed("a")

    assert "greet 1.0" in fleet.log("a")
    assert task.pinned is not None
    assert task.pinned.python
    assert task.lock is not None
    assert digest(fleet.index.folder / "greet" / "greet-1.0-py3-none-any.whl") in task.lock
    told = fleet.events("a")
    assert told.index("preparing") < told.index("pinned") < told.index("started")


@pytest.mark.parametrize("count", [10, pytest.param(50, marks=pytest.mark.long)])
def test_tasks_of_two_workers_share_one_build(fleet: CodeFleet, count: int) -> None:
    code = Code("greet==1.0 --hash=sha256:" + digest(next(fleet.index.folder.glob("*/*.whl"))))
    for number in range(count):
        fleet.add(f"t{number}", "sh", "-c", "test -e $VIRTUAL_ENV", code=code)
    fleet.starts("one")
    fleet.starts("two")

    for number in range(count):
        fleet.completed(f"t{number}")

    built = [number for number in range(count) if "+ greet==1.0" in fleet.log(f"t{number}")]
    assert len(built) == 1
    assert len(fleet.environments()) == 1


def test_a_retry_runs_the_versions_of_the_first_attempt(fleet: CodeFleet) -> None:
    fleet.starts()
    show = 'python -c "import greet; print(greet.VERSION)"; test $STAYER_ATTEMPT = 2'
    fleet.add("a", "sh", "-c", show, code=Code("greet"))
    assert fleet.ended("a").state == "failed"
    fleet.index.add("greet", "2.0")

    stayer_retry(fleet, "a")

    fleet.completed("a")
    assert fleet.log("a").split()[-1] == "1.0"


def test_the_latest_code_is_run_by_a_retry_that_asks_for_it(fleet: CodeFleet) -> None:
    fleet.starts()
    fleet.add("a", *SHOW, code=Code("greet"))
    first = fleet.completed("a").pinned
    fleet.index.add("greet", "2.0")
    # The index is a folder, which uv looks at again only when its own copy is gone.
    shutil.rmtree(fleet.cache / "uv")

    stayer_retry(fleet, "a", latest_code=True)

    task = fleet.completed("a")
    assert "greet 2.0" in fleet.log("a")
    assert task.pinned != first


def stayer_retry(fleet: CodeFleet, id: str, *, latest_code: bool = False) -> None:
    from stayer.service.control import edits as edit_control

    edit_control.retry(fleet.store, id, latest_code=latest_code)


def test_what_is_built_serves_when_the_index_is_gone(fleet: CodeFleet) -> None:
    fleet.starts()
    fleet.add("a", *SHOW, code=Code("greet"))
    lock = fleet.completed("a").lock
    assert lock is not None
    shutil.rmtree(fleet.index.folder)
    shutil.rmtree(fleet.cache / "uv")

    fleet.add("b", *SHOW, code=Code(lock))

    fleet.completed("b")
    assert "+ greet" not in fleet.log("b")


def test_without_a_network_it_waits_and_nothing_is_charged(fleet: CodeFleet) -> None:
    fleet.starts("one", "--code-env", "UV_DEFAULT_INDEX=http://127.0.0.1:1/simple")
    fleet.add("a", *SHOW, code=Code("greet"))

    task = fleet.until_state("a", "scheduled", "failed")

    assert (task.state, task.ending, task.failures) == ("scheduled", "environment", 0)
    assert task.error is not None
    assert "Connection refused" in task.error.message
    assert task.started_at is None


def test_a_conflict_fails_at_once_with_the_words_of_the_resolver(fleet: CodeFleet) -> None:
    fleet.index.add("old", "1.0", requires=["greet<1"])
    fleet.starts()
    fleet.add("a", *SHOW, code=Code("old"), retries=3)

    task = fleet.ended("a")

    assert (task.state, task.ending, task.attempt) == ("failed", "environment", 1)
    assert task.error is not None
    assert "greet<1" in task.error.message
    assert fleet.log("a").count("greet<1") == task.error.message.count("greet<1")  # once


def test_a_file_that_is_not_the_one_that_was_locked_is_refused(fleet: CodeFleet) -> None:
    fleet.starts()
    fleet.add("a", *SHOW, code=Code(f"greet==1.0 --hash=sha256:{'0' * 64}"))

    task = fleet.ended("a")

    assert (task.state, task.ending) == ("failed", "environment")
    assert task.error is not None
    assert "ash mismatch" in task.error.message
    assert fleet.environments() == []


def test_a_python_that_is_not_there_is_said(fleet: CodeFleet) -> None:
    fleet.starts()
    fleet.add("a", *SHOW, code=Code(python="3.99"))

    task = fleet.ended("a")

    assert (task.state, task.ending) == ("failed", "environment")
    assert task.error is not None
    assert "no Python 3.99" in task.error.message


def test_a_worker_installs_nothing_unless_told(fleet: CodeFleet) -> None:
    fleet.worker()
    fleet.add("a", *SHOW, code=Code("greet"))

    until(lambda: "--allow-code" in notes(fleet, "a"), "for it to be refused")

    assert fleet.get("a").failures == 0


def test_what_a_package_brings_along_must_be_allowed_too(fleet: CodeFleet) -> None:
    fleet.index.add("friendly", "1.0", requires=["greet"])
    fleet.starts(allow=("friendly",))
    fleet.add("a", *SHOW, code=Code("friendly"))

    until(lambda: "no --allow-code names greet" in notes(fleet, "a"), "for it to be refused")

    assert fleet.environments() == []
    assert fleet.get("a").pinned is None


def test_a_pin_that_came_first_is_not_believed_either(fleet: CodeFleet) -> None:
    """Not only workers can write to a store, and what they pin is for this worker to install."""
    fleet.index.add("evil", "1.0")
    evil = fleet.index.folder / "evil" / "evil-1.0-py3-none-any.whl"
    gate = fleet.folder / "gate"
    hold_the_index(fleet, gate)
    fleet.starts(allow=("greet",))
    fleet.add("a", *SHOW, code=Code("greet"))
    until(lambda: gate.with_suffix(".reached").exists(), "for uv to be called")
    lock = f"evil==1.0 --hash=sha256:{digest(evil)}\n"
    pinned = Pinned("3.11", hashlib.sha256(lock.encode()).hexdigest())
    assert fleet.store.commit([decide(fleet.get("a"), Pin(pinned, lock))])[0] is not None

    gate.touch()

    until(lambda: "no --allow-code names evil" in notes(fleet, "a"), "for it to be refused")
    assert fleet.environments() == []


def notes(fleet: CodeFleet, id: str) -> str:
    return " ".join(event.note or "" for event in fleet.store.events(id))


def test_credentials_of_the_index_reach_neither_log_nor_task(fleet: CodeFleet) -> None:
    secret = "http://robot:hunter22@127.0.0.1:1/simple"
    wrap_uv(fleet, "echo asks $UV_DEFAULT_INDEX, with hunter22")
    fleet.starts("one", "--code-env", f"UV_DEFAULT_INDEX={secret}")
    fleet.add("a", *SHOW, code=Code("greet"))
    fleet.add("b", "sh", "-c", 'env; cat "$STAYER_DIR"/*.json', code=Code(python=">=3.9"))

    fleet.completed("b")
    failed = fleet.until_state("a", "scheduled")

    assert "PATH=" in fleet.log("b")
    assert "requirements" in fleet.log("b")
    for text in (fleet.log("a"), fleet.log("b"), str(failed), notes(fleet, "a")):
        assert "hunter22" not in text
        assert "UV_DEFAULT_INDEX=" not in text
    assert "asks http://***@" in fleet.log("a")


def test_trouble_that_passes_is_waited_for_longer_each_time() -> None:
    error = {"type": "Environment", "message": "Connection refused", "environment": "passing"}
    found = [outcome({"exit_code": 1}, error, "", unprepared=n) for n in (1, 2, 3, 6, 7, 10_000)]
    assert all(isinstance(each, Snooze) and each.ending == "environment" for each in found)
    waits = [each.delay for each in found if isinstance(each, Snooze)]
    assert waits == [5.0, 10.0, 20.0, 160.0, 300.0, 300.0]

    final = outcome({"exit_code": 1}, {**error, "environment": "final"}, "", unprepared=1)
    assert isinstance(final, Fail)
    assert (final.final, final.ending) == (True, "environment")


def test_its_time_limit_counts_from_when_its_code_is_there(fleet: CodeFleet) -> None:
    wait = fleet.folder / "wait"
    hold_the_index(fleet, wait)
    fleet.starts()
    fleet.add("a", "sleep", "600", code=Code("greet"), time_limit=1.0)
    until(lambda: wait.with_suffix(".reached").exists(), "for uv to be called")
    assert fleet.get("a").state == "reserved"
    run = Run(fleet.folder / "one" / "run" / "a.1")
    assert run.first_limits["time"] == 1.0 + run.longest_preparation  # should it never say so

    wait.touch()

    task = fleet.ended("a")
    assert (task.state, task.ending) == ("failed", "timeout")
    assert task.started_at is not None


def test_a_task_can_not_lift_its_time_limit_by_a_long_preparation(
    store: Store, tmp_path: Path
) -> None:
    task = Task("a", "q", state="started", worker="w", attempt=1, code=Code("greet"))
    run = Run(tmp_path / "a.1")
    keeper = {"limits": {"time": 61.0}, "later_limits": {"time": 1.0}, "code_folder": "/code"}
    run.prepare(task, keeper, None)
    (run.task_folder / "prepared").write_text('{"at": 0, "took": 900000, "environment": "x"}')

    Preparations(store, None).begins(HeldAttempt(task, run))

    assert run.keeper_orders["limits"] == {"time": 61.0}


def test_a_preparation_can_be_cancelled(fleet: CodeFleet) -> None:
    from stayer.service.control import tasks as control

    wait = fleet.folder / "wait"
    hold_the_index(fleet, wait)
    fleet.starts()
    fleet.add("a", *SHOW, code=Code("greet"))
    until(lambda: wait.with_suffix(".reached").exists(), "for uv to be called")

    control.cancel(fleet.store, "a")

    assert fleet.ended("a").state == "cancelled"
    until(lambda: not fleet.strays(), "for its processes to be gone")


def hold_the_index(fleet: CodeFleet, gate: Path) -> None:
    """Make the worker's uv wait for a file before it does anything."""
    wrap_uv(fleet, f"touch {gate}.reached\nuntil test -e {gate}; do sleep 0.05; done")


def wrap_uv(fleet: CodeFleet, script: str) -> None:
    """Let the worker's uv do this first."""
    program = fleet.folder / "uv"
    program.write_text(f'#!/bin/sh\n{script}\nexec {Path(fleet.python).with_name("uv")} "$@"\n')
    program.chmod(0o755)
    fleet.uv = str(program)


def test_a_builder_that_is_killed_leaves_nothing_that_others_would_use(fleet: CodeFleet) -> None:
    gate = fleet.folder / "wait"
    hold_the_index(fleet, gate)
    code = Code("greet==1.0 --hash=sha256:" + digest(next(fleet.index.folder.glob("*/*.whl"))))
    worker = fleet.starts()
    fleet.add("a", *SHOW, code=code)
    until(lambda: gate.with_suffix(".reached").exists(), "for the build to begin")
    fleet.signal(worker, signal.SIGKILL)
    for pid in [*fleet.strays(), *fleet.keepers()]:
        os.kill(pid, signal.SIGKILL)
    gate.touch()

    fleet.starts()

    fleet.completed("a")
    assert len(fleet.environments()) == 1


@pytest.mark.long
def test_builders_killed_at_random_moments_leave_nothing_that_is_half(fleet: CodeFleet) -> None:
    files = {f"greet/m{number}.py": f"x = {number}\n" for number in range(300)}
    files["greet/__init__.py"] = "VERSION = '1.0'\n"
    fleet.index.add("greet", "1.0", files=files)
    check = "import os, greet; print(len(os.listdir(os.path.dirname(greet.__file__))))"
    chance = random.Random(11)
    fleet.starts()
    for number in range(12):
        id = f"t{number}"
        shutil.rmtree(fleet.cache, ignore_errors=True)
        fleet.add(id, "python", "-B", "-c", check, code=Code("greet"))
        until(lambda: list(fleet.cache.glob("envs/*/venv")), "for the build to begin")
        time.sleep(chance.random() * 0.15)
        for pid in fleet.strays():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        again = f"again{number}"
        fleet.add(again, "python", "-B", "-c", check, code=Code("greet"))
        fleet.completed(again)
        assert fleet.log(again).split()[-1] == "301"


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_disk_that_is_really_full_is_waited_for(fleet: CodeFleet) -> None:
    fleet.index.add("greet", "1.0", files={"greet.py": "x = 1\n" + "#" * 3_000_000})
    fleet.cache.mkdir()
    small = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(fleet.cache)]
    if subprocess.run(small, check=False, capture_output=True).returncode:
        pytest.skip("NOT TESTED: a full disk, because none may be mounted here")
    try:
        fleet.starts()
        fleet.add("t", "python", "-c", "import greet", code=Code("greet"))
        waiting = fleet.until_state("t", "scheduled", "failed")
        assert (waiting.state, waiting.ending, waiting.failures) == ("scheduled", "environment", 0)
        assert fleet.environments() == []
        subprocess.run(["mount", "-o", "remount,size=60m", str(fleet.cache)], check=True)
        fleet.completed("t")
    finally:
        fleet.close()
        subprocess.run(["umount", "--lazy", str(fleet.cache)], check=True)


def test_a_lock_that_is_not_the_pinned_one_is_not_built(tmp_path: Path) -> None:
    spec = {"uv": "/bin/false", "folder": str(tmp_path), "requirements": [], "allow": ["*"]}
    builder = Builder(spec, Programs({}, 60.0))
    pinned = {"python": "3.11", "lock": "0" * 64, "commit": None, "text": "evil==1.0\n"}
    lock = Lock(str(tmp_path / "key"))
    with pytest.raises(Unprepared, match="was changed"):
        builder.build(pinned, str(tmp_path / "key"), lock)
    lock.close()


def test_an_environment_that_was_deleted_is_built_again(fleet: CodeFleet) -> None:
    fleet.starts()
    fleet.add("a", *SHOW, code=Code("greet"))
    lock = fleet.completed("a").lock
    shutil.rmtree(fleet.cache)

    fleet.add("b", *SHOW, code=Code(lock or ""))

    fleet.completed("b")


def test_tasks_of_a_map_are_pinned_to_the_same(fleet: CodeFleet) -> None:
    import stayer

    client = stayer.Client(fleet.url)
    flow = stayer.Flow("greetings")
    go = fleet.folder / "go"
    show = "python -c 'import greet; print(greet.VERSION)'"
    script = f"until test -e {go}; do sleep 0.02; done; {show}"
    flow.map(["sh", "-c", script], ["a", "b", "c"], part="each", at_once=1, code=Code("greet"))
    submitted = client.submit(flow)
    ids = [f"{submitted.id}.each.{number}" for number in range(3)]
    fleet.starts()
    fleet.until_state(ids[0], "started")
    fleet.index.add("greet", "2.0")
    shutil.rmtree(fleet.cache / "uv")

    go.touch()

    assert len({str(fleet.completed(id).pinned) for id in ids}) == 1
    assert [fleet.log(id).split()[-1] for id in ids] == ["1.0"] * 3
    client.close()


def test_a_full_disk_is_waited_for_and_leaves_nothing_behind(
    fleet: CodeFleet, tmp_path: Path
) -> None:
    full, wrapper = tmp_path / "full", tmp_path / "uv-on-a-full-disk"
    full.touch()
    wrapper.write_text(
        f'#!/bin/sh\ncase "$*" in *"pip sync"*) if [ -e {full} ]; then\n'
        'echo "error: failed to copy a file: No space left on device (os error 28)" >&2; exit 2\n'
        f'fi;; esac\nexec {find_uv()} "$@"\n'
    )
    wrapper.chmod(0o755)
    fleet.uv = str(wrapper)
    fleet.starts()
    fleet.add("t", "python", "-c", "import greet", code=Code("greet"))

    waiting = fleet.until_state("t", "scheduled", "failed")

    assert (waiting.state, waiting.ending, waiting.failures) == ("scheduled", "environment", 0)
    assert not list(fleet.cache.glob("envs/*/venv"))
    full.unlink()
    fleet.completed("t")
    assert len(fleet.environments()) == 1
