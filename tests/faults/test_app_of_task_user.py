"""`--app` with `--task-user`: the app is loaded by a process of the tasks' user, and what that says
counts for no more than the user itself may do. Nor can tasks keep a worker from starting with it.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stayer.core.model import NewTask
from stayer.core.schedules.model import Schedule
from stayer.core.submit.checks import new_task
from stayer.service.control import schedules
from stayer.worker import load_user_code, task_user
from stayer.worker.task_user import TaskUser
from tests.faults.fleet import Fleet, folder_for_all, until
from tests.reachable import stayer_for

USER, OTHER = "nobody", "daemon"
YEARLY = "0 0 1 1 *"
APP = """
import json, os, signal, sys
import stayer
app = stayer.App()
loads = "names" in sys.argv
@app.cron("0 0 1 1 *")
@app.task
def work() -> int:
    return os.getuid()
"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks as others")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with folder_for_all() as folder:
        yield folder


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, task_user=USER)
    yield fleet
    fleet.close()
    print((tmp_path / "one.log").read_text())  # shown if it has failed


def _write(fleet: Fleet, more: str) -> None:
    (fleet.folder / "made.py").write_text(APP + more)
    (fleet.folder / "made.py").chmod(0o644)


def _forge(
    fleet: Fleet, *declared: dict[str, Any], names: tuple[str, ...] = ("made.work",)
) -> None:
    """An app that says this instead of what is so."""
    said = json.dumps({"names": names, "schedules": declared})
    _write(fleet, f"if loads: print({said!r}, flush=True); os._exit(0)\n")


def _declared(name: str, queue: str = "default", /, **task: Any) -> dict[str, Any]:
    return {"name": name, "cron": YEARLY, "task": {"queue": queue, **task}}


def _start(fleet: Fleet, *options: str) -> None:
    """A worker of that app, which has begun to take tasks."""
    fleet.worker("one", "--app", "made", *options, lease=60)
    fleet.submit("begun", "true")
    until(lambda: fleet.workers[-1].poll() is not None or fleet.get("begun").state == "complete")
    assert fleet.workers[-1].poll() is None, _log(fleet)


def _log(fleet: Fleet) -> str:
    return (fleet.folder / "one.log").read_text()


def _own(fleet: Fleet, id: str = "a", queue: str = "default", name: str = "made.work") -> None:
    fleet.store.submit([new_task(queue=queue, id=id, name=name)])


def _uid(name: str) -> int:
    return pwd.getpwnam(name).pw_uid


def test_a_schedule_may_only_let_that_users_queues_run_functions_of_the_app(fleet: Fleet) -> None:
    _forge(
        fleet,
        _declared("fine", name="made.work"),
        _declared("elsewhere", "other", name="made.work"),
        _declared("command", command=["touch", "/tmp/x"]),
        _declared("nothing"),
        _declared("strange", name="another.function"),
        _declared("telling", name="made.work", notify=["failed:https://example.com/"]),
        _declared("pretending", name="made.work", owner="ann"),
    )
    _start(fleet)
    assert [each.name for each in fleet.store.schedules()] == ["fine"]
    said = _log(fleet)
    for name in ("elsewhere", "command", "nothing", "strange", "telling", "pretending"):
        assert any(f"schedule {name} " in line for line in said.splitlines()), name


def test_a_schedule_that_makes_no_sense_keeps_no_worker_from_starting(fleet: Fleet) -> None:
    large = {"text": "x" * 2_000_000}
    _forge(
        fleet,
        {**_declared("wrong", name="made.work"), "cron": "what"},
        _declared("large", name="made.work", parameters=large),
        {"name": ["x"], "task": 3},
        _declared("fine", name="made.work"),
    )
    _start(fleet)
    assert [each.name for each in fleet.store.schedules()] == ["fine"]
    assert _log(fleet).count(" is refused: ") == 3


@pytest.mark.parametrize(
    "said", ["", "{", "[]", '{"names": 1}', '{"names": ["%s"]}' % ("x" * 300), "[" * 100_000]
)
def test_what_is_no_answer_keeps_no_worker_from_starting(fleet: Fleet, said: str) -> None:
    _write(fleet, f"if loads: print({said!r}, flush=True); os._exit(0)\n")
    _start(fleet)
    assert "somebody else spoke for it" in _log(fleet)


def test_schedules_of_others_are_left_as_they_are(fleet: Fleet) -> None:
    theirs = {
        "by-hand": (None, "default"),
        "of-a-file": ("/etc/stayer/stayer.toml", "default"),
        "of-another-app": ("app other", "default"),
        "of-another-queue": ("app made", "reports"),
    }
    origins = {**theirs, "gone": ("app made", "default"), "changed": ("app made", "default")}
    for name, (origin, queue) in origins.items():
        task = NewTask(id="", queue=queue, name="theirs")
        schedules.add(fleet.store, Schedule(name=name, cron="1 1 1 1 *", task=task, origin=origin))
    _forge(fleet, *(_declared(name, name="made.work") for name in (*theirs, "changed")))
    _start(fleet)
    found = {each.name: each for each in fleet.store.schedules()}
    assert set(found) == {*theirs, "changed"}
    for name, (origin, queue) in theirs.items():
        seen = found[name]
        assert (seen.origin, seen.task.queue, seen.task.name) == (origin, queue, "theirs")
        assert f"schedule {name} " in _log(fleet)
    assert (found["changed"].cron, found["changed"].task.name) == (YEARLY, "made.work")


def test_each_user_speaks_for_its_own_queues(fleet: Fleet) -> None:
    """Of the names of tasks, and of schedules. What another one says keeps no task from waiting for
    a worker that can run it.
    """
    _write(
        fleet,
        "user = 'user%d' % os.getuid()\n"
        "app.task(name=user)(lambda: user)\n"
        "for queue in ('default', 'films'):\n"
        "    function = app.task(name=f'{user} {queue}', queue=queue)(lambda: 1)\n"
        "    app.cron('0 0 1 1 *')(function)\n",
    )
    users = ("--task-user", f"films={OTHER}", "--task-user", f"default={USER}")
    _start(fleet, "-q", "films", "-q", "default", *users)
    mine, theirs = f"user{_uid(USER)}", f"user{_uid(OTHER)}"
    _own(fleet, "wrong", "films", mine)
    _own(fleet, "right", "films", theirs)
    _own(fleet, "last", "default", "made.work")
    assert fleet.until_ended("right").result == theirs
    assert fleet.until_ended("last").result == _uid(USER)
    assert fleet.get("wrong").state == "pending"
    assert [each.event for each in fleet.store.events("wrong")] == ["pending"]
    found = {(each.name, each.task.queue) for each in fleet.store.schedules()}
    assert found == {
        (f"{theirs} films", "films"), (f"{mine} default", "default"), ("made.work", "default"),
    }  # fmt: skip


def _user_site(folder: Path, python: str, code: str) -> dict[str, str]:
    """A folder of that user's from which Python runs code when it starts, and how to find it."""
    place = "import site; print(site.ENABLE_USER_SITE, site.getusersitepackages())"
    environment = {"PYTHONUSERBASE": str(folder / "base")}
    asked = subprocess.run(
        [python, "-P", "-c", place], env={**os.environ, **environment}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    is_used, _, path = asked.stdout.strip().partition(" ")
    if is_used != "True":
        pytest.skip("this Python has no user site")
    Path(path).mkdir(parents=True)
    guarded = "\n    ".join(["import os, sys", "if os.getuid() != 0:", *code.splitlines()])
    (Path(path) / "usercustomize.py").write_text(guarded.replace("\n    if", "\nif", 1))
    return environment


def test_the_user_site_of_that_user_does_not_speak_for_the_app(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged = json.dumps({"names": ["forged"], "schedules": []})
    code = f"if 'names' in sys.orig_argv:\n    print({forged!r}, flush=True)\n    os._exit(0)"
    for name, value in _user_site(fleet.folder, fleet.python, code).items():
        monkeypatch.setenv(name, value)
    _write(fleet, "")
    _start(fleet)
    [worker] = fleet.store.workers()
    assert worker.handles is not None
    assert worker.handles.names == ("made.work",)


def test_nobody_looks_into_the_process_that_loads_the_app(fleet: Fleet) -> None:
    """Nor does that process have root's terminal, or its input."""
    _write(
        fleet,
        "import ctypes\n"
        "if loads:\n"
        "    about = [ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), os.getsid(0) == os.getpid(),\n"
        "        sys.flags.no_user_site, os.environ.get('PYTHONNOUSERSITE'),\n"
        "        os.stat(0).st_rdev == os.stat('/dev/null').st_rdev]\n"
        f"    open({str(fleet.folder / 'about')!r}, 'w').write(json.dumps(about))\n",
    )
    _start(fleet)
    assert json.loads((fleet.folder / "about").read_text()) == [0, True, 1, "1", True]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_starts_though_tasks_kill_what_loads_the_app(fleet: Fleet, number: int) -> None:
    """It takes no tasks of the app until it knows them, and loses none."""
    disturbed = fleet.folder / "disturbed"
    disturbed.touch()
    _write(
        fleet, f"if loads and os.path.exists({str(disturbed)!r}): os.kill(os.getpid(), {number})\n"
    )
    _own(fleet)
    _start(fleet)
    assert "made can't be loaded by nobody" in _log(fleet)
    assert signal.Signals(number).name in _log(fleet)
    assert [each.event for each in fleet.store.events("a")] == ["pending"]
    assert not fleet.store.schedules()
    disturbed.unlink()
    ended = fleet.until_ended("a")
    assert (ended.state, ended.attempt, ended.interruptions) == ("complete", 1, 0)
    until(fleet.store.schedules)
    [worker] = fleet.store.workers()
    assert worker.handles is not None
    assert worker.handles.names == ("made.work",)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_that_can_not_load_its_app_ends_at_once(fleet: Fleet, number: int) -> None:
    """When it is told to. The process that it asks may never end."""
    disturbed = fleet.folder / "disturbed"
    _write(
        fleet,
        "if loads:\n"
        f"    file = open({str(disturbed)!r}, 'a'); file.write('.'); file.close()\n"
        f"    if os.path.getsize(file.name) <= {len(load_user_code._START_RETRIES_S) + 1}:\n"
        "        os.kill(os.getpid(), 19)\n"
        "if loads:\n"
        f"    open({str(fleet.folder / 'again')!r}, 'w').write(str(os.getpid()))\n"
        "    import time\n"
        "    while True: time.sleep(1)\n",
    )
    pid = fleet.worker("one", "--app", "made", lease=60)
    until((fleet.folder / "again").exists)
    fleet.submit("begun", "true")
    fleet.until_ended("begun")
    fleet.signal(pid, number)
    fleet.end_of(pid)
    until(lambda: not Path(f"/proc/{(fleet.folder / 'again').read_text()}").exists())


def test_a_class_that_can_not_be_looked_at_is_run_nevertheless(fleet: Fleet) -> None:
    _write(
        fleet,
        "class Run:\n    def __init__(self, task): pass\n    def run(self): return os.getuid()\n"
        "if 'STAYER_DIR' not in os.environ: os.kill(os.getpid(), 9)  # not in a task\n",
    )
    fleet.worker("one", "--run", str(fleet.folder / "made.py"), lease=60)
    fleet.store.submit([new_task(queue="default", id="a")])
    assert fleet.until_ended("a").result == _uid(USER)
    assert "could not be tried out" in _log(fleet)


def test_an_app_that_says_too_much_is_refused(fleet: Fleet) -> None:
    _write(fleet, "if loads: print('x' * 5_000_000)\n")
    pid = fleet.worker("one", "--app", "made", lease=60)
    assert fleet.end_of(pid) == 2
    assert "more than 4 MB" in _log(fleet)


def test_what_an_app_leaves_behind_is_not_waited_for(fleet: Fleet) -> None:
    """A process that holds its output open."""
    wait = "while test -e made.py; do sleep 0.1; done"
    _write(fleet, f"if loads and os.fork() == 0: os.execlp('sh', 'sh', '-c', {wait!r})\n")
    _own(fleet)
    _start(fleet)
    assert fleet.until_ended("a").state == "complete"


def test_the_user_site_of_that_user_does_not_speak_for_its_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python, environment = stayer_for(USER)
    code = "print('\"has a bad day\"', flush=True)\nos._exit(0)"
    for name, value in _user_site(tmp_path, python, code).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "executable", python)
    monkeypatch.setenv("PYTHONPATH", environment.get("PYTHONPATH", ""))
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "run"
    runs.mkdir()
    runs.chmod(0o711)  # whatever the umask
    task_user.try_out(TaskUser.from_name(USER), runs, None)
