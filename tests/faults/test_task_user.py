"""`--task-user`: tasks run as another user, and nothing of the worker's is within their reach."""

from __future__ import annotations

import json
import os
import pwd
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from stayer.core.errors import BadConfig
from stayer.core.model import FINISHED
from stayer.core.submit.checks import new_task
from stayer.service.control import tasks as control
from stayer.worker import safe_files, task_user
from stayer.worker.allowed_programs import NotAllowed
from stayer.worker.task_user import TaskUser, TaskUsers
from tests.faults.fleet import Fleet, folder_for_all, until
from tests.reachable import stayer_for
from tests.worker.test_remove_tree import deep_folders_harm_nobody

USER = "nobody"

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


def _worker(fleet: Fleet, *options: str, lease: float = 60.0) -> int:
    return fleet.worker("one", *options, lease=lease)


def _result(fleet: Fleet, id: str) -> object:
    task = fleet.until_ended(id)
    assert task.state == "complete", task.error
    return task.result


def _log(fleet: Fleet, attempt: int) -> bytes:
    return b"".join(piece.data for piece in fleet.store.log("a", attempt, 0, 1_000_000))


def _run(fleet: Fleet, script: str, id: str = "a", **options: object) -> object:
    """What a shell said as its result, run as a task."""
    fleet.submit(id, "sh", "-c", script, **options)
    return _result(fleet, id)


@pytest.mark.parametrize("options", [(), ("--isolate", "pidns"), ("--cgroup",)])
def test_a_task_is_a_process_of_that_user(fleet: Fleet, options: tuple[str, ...]) -> None:
    _worker(fleet, *options)
    say = 'echo "$(id -u) $(id -g) $(id -G) $HOME $USER $LOGNAME $(umask)" > "$STAYER_RESULT"'
    known = pwd.getpwnam(USER)
    groups = " ".join(map(str, os.getgrouplist(USER, known.pw_gid)))
    said = _run(fleet, say)
    mask = os.umask(0)
    os.umask(mask)
    assert said == (
        f"{known.pw_uid} {known.pw_gid} {groups} {known.pw_dir} {USER} {USER} {mask:04o}"
    )


def test_input_progress_checkpoint_result_log_and_inputs_go_both_ways(fleet: Fleet) -> None:
    _worker(fleet)
    script = """
import json, os, sys
from stayer import current_task
task = current_task()
state = task.restore([])
task.checkpoint([*state, os.getuid()])
task.progress(1, 2, "half")
print("said", sys.stdin.read())
if task.attempt == 1: os._exit(3)
open(os.environ["STAYER_RESULT"], "w").write(json.dumps([state, task.parameters, task.id]))
"""
    new = new_task(
        queue="default", id="a", parameters={"x": 1}, retries=1, retry_wait=0.0,
        command=(fleet.python, "-c", script),
    )  # fmt: skip
    fleet.store.submit([new])
    uid = pwd.getpwnam(USER).pw_uid
    assert _result(fleet, "a") == [[uid], {"x": 1}, "a"]
    task = fleet.get("a")
    assert task.progress is not None
    assert (task.progress.done, task.progress.message) == (1, "half")
    assert b'said {"x":1}' in _log(fleet, 2)


def test_worker_and_keeper_files_are_out_of_reach(fleet: Fleet) -> None:
    _worker(fleet)
    said = _run(
        fleet,
        'cd "$STAYER_DIR/.." || exit 1; for f in task.json go lock running exit.tmp'
        " ../../identity ../../lock ../../nursery.log ../../*.fifo; do"
        ' cat "$f" 2>/dev/null && echo "read $f"; (echo x >> "$f") 2>/dev/null && echo "wrote $f";'
        " done > $STAYER_RESULT; mv task other 2>/dev/null && echo moved >> $STAYER_RESULT;"
        " touch new 2>/dev/null && echo made >> $STAYER_RESULT;"
        " ls .. ../.. /proc/$PPID/fd 2>/dev/null >> $STAYER_RESULT;"
        " tr '\\0' '\\n' < /proc/$PPID/environ 2>/dev/null >> $STAYER_RESULT;"
        " kill -USR1 $PPID 2>/dev/null && echo signalled >> $STAYER_RESULT; true",
    )
    assert said is None


def test_a_task_can_not_lift_its_limits(fleet: Fleet) -> None:
    _worker(fleet)
    lift = """
for f in "$STAYER_DIR/go" "$STAYER_DIR/../go"; do echo '{"limits":{"time":null}}' > $f; done
kill -USR1 $PPID; while true; do sleep 0.1; done
"""
    fleet.submit("a", "sh", "-c", lift, time_limit=1.0, grace=0.0)
    task = fleet.until_ended("a")
    assert (task.state, task.ending) == ("failed", "timeout")


@pytest.mark.parametrize("name", ["log", "result", "checkpoint", "report", "error", "input"])
@pytest.mark.parametrize("how", ["ln -s", "mv"])
def test_nothing_of_others_is_read_through_the_run_directory(
    fleet: Fleet, name: str, how: str
) -> None:
    """Neither by a link, nor a file of root's that the task may move."""
    secret = fleet.folder / "theirs" / "secret"
    secret.parent.mkdir()
    secret.write_text('{"message": "top secret", "type": "top secret"}\n')
    secret.chmod(0o600)
    secret.parent.chmod(0o777)
    _worker(fleet)
    failing = "exit 1" if name == "error" else "exit 0"
    fleet.submit(
        "a", "sh", "-c", f'cd "$STAYER_DIR"; rm -f {name}; {how} {secret} {name}; {failing}'
    )
    task = fleet.until_ended("a")
    told = repr((task, fleet.store.checkpoint("a"), _log(fleet, 1)))
    assert "top secret" not in told


def test_a_run_directory_can_not_be_swapped(fleet: Fleet) -> None:
    target = fleet.folder / "target"
    target.mkdir()
    (target / "log").write_text("of somebody else\n")
    _worker(fleet)
    fleet.submit(
        "a", "sh", "-c",
        f'cd /; d="$STAYER_DIR"; mv "$d" "$d.x"; mv "$d/.." "$d.y"; rm -rf "$d";'
        f' ln -s {target} "$d"; exit 0',
    )  # fmt: skip
    fleet.until_ended("a")
    assert [path.name for path in target.iterdir()] == ["log"]
    assert b"somebody else" not in _log(fleet, 1)


@pytest.mark.parametrize("options", [(), ("--isolate", "pidns")])
def test_the_kernel_ends_the_task_with_its_keeper(fleet: Fleet, options: tuple[str, ...]) -> None:
    """Giving up rights makes it forget that; and its group, by the pipe that root armed."""
    worker = _worker(fleet, *options)
    fleet.submit("a", "sh", "-c", f"sleep 1000 & touch {fleet.folder}/begun; exec sleep 1000")
    until((fleet.folder / "begun").exists)
    nursery, *keepers = fleet.keepers("one")
    fleet.signal(worker, signal.SIGSTOP)
    os.kill(nursery, signal.SIGSTOP)  # nobody else is to do it
    assert len(fleet.strays()) >= 2
    for keeper in keepers:
        os.kill(keeper, signal.SIGKILL)
    until(lambda: not fleet.strays(), "for the task to die with its keeper")


def test_a_cancel_ends_all_processes_and_a_pause_stops_them(fleet: Fleet) -> None:
    _worker(fleet)
    fleet.stamper("a")
    fleet.until_stamped("a")
    control.pause(fleet.store, "a")
    until(lambda: fleet.get("a").paused)
    control.resume(fleet.store, "a")
    before = len(fleet.read_stamps("a")[1])
    fleet.until_stamped("a", more_than=before)
    control.cancel(fleet.store, "a", grace=0)
    assert fleet.until_ended("a").state == "cancelled"
    assert not fleet.strays()


def test_each_queue_has_its_user(fleet: Fleet) -> None:
    fleet.worker(
        "one", "-q", "films", "-q", "default", "--task-user", "films=daemon", "--task-user", USER,
        lease=60,
    )  # fmt: skip
    for queue in ("films", "default"):
        command = ("sh", "-c", 'id -un > "$STAYER_RESULT"')
        fleet.store.submit([new_task(queue=queue, id=queue, command=command)])
    assert (_result(fleet, "films"), _result(fleet, "default")) == ("daemon", USER)


def test_a_queue_that_nobody_named_is_not_run_as_root(fleet: Fleet) -> None:
    """Whoever can write to the store may put a task into another queue when it is taken."""
    with closing(sqlite3.connect(fleet.folder / "stayer.db")) as database:
        database.execute(
            "CREATE TRIGGER evil AFTER UPDATE OF state ON stayer_tasks WHEN new.state = 'reserved' "
            "BEGIN UPDATE stayer_tasks SET queue = 'other' WHERE seq = new.seq; END"
        )
    fleet.worker("one", "-q", "films", "--task-user", f"films={USER}", lease=60)
    proof = fleet.folder / "proof"
    fleet.store.submit([new_task(queue="films", id="a", command=("touch", str(proof)))])

    def refused() -> bool:
        return any("refused by its worker" in (each.note or "") for each in fleet.store.events("a"))

    until(lambda: refused() or fleet.get("a").state in FINISHED)
    assert refused()
    assert not proof.exists()


def test_no_user_is_never_taken_for_root() -> None:
    somebody = TaskUser.from_name(USER)
    assert TaskUsers().of("any") is None
    assert TaskUsers({"films": somebody}, None).of("films") == somebody
    assert TaskUsers({}, somebody).of("any") == somebody
    with pytest.raises(NotAllowed):
        TaskUsers({"films": somebody}, None).of("any")


def test_deep_folders_of_that_user_harm_nobody(fleet: Fleet) -> None:
    deep_folders_harm_nobody(fleet)


def test_a_python_class_and_an_app_are_loaded_and_run_as_that_user(fleet: Fleet) -> None:
    """Root runs nothing that the user may have written."""
    (fleet.folder / "made.py").write_text(
        "import os, stayer\n"
        f"open({str(fleet.folder)!r} + '/loaded', 'a').write(f'{{os.getuid()}} ')\n"
        "app = stayer.App()\n"
        "@app.task\ndef whoami() -> int:\n    return os.getuid()\n"
        "class Run:\n    def __init__(self, task): pass\n"
        "    def run(self): return os.getuid()\n"
    )
    (fleet.folder / "made.py").chmod(0o644)
    _worker(fleet, "--app", "made", "--run", str(fleet.folder / "made.py"))
    uid = pwd.getpwnam(USER).pw_uid
    fleet.store.submit([new_task(queue="default", id="a", name="made.whoami")])
    fleet.store.submit([new_task(queue="default", id="b")])
    assert (_result(fleet, "a"), _result(fleet, "b")) == (uid, uid)
    assert set((fleet.folder / "loaded").read_text().split()) == {str(uid)}


def _refused(folder: Path, *options: str, **more: object) -> str:
    """What a worker that can't begin says."""
    python, environment = stayer_for(USER)
    arguments = [python, "-m", "stayer", "worker", "--store", f"sqlite:///{folder}/x.db"]
    more = {"env": environment, "cwd": folder, **more}
    done = subprocess.run(
        [*arguments, *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **more,  # type: ignore[call-overload]
    )
    assert done.returncode != 0
    return str(done.stderr).replace("\n", " ")


def test_what_can_not_work_is_said_at_the_start(tmp_path: Path) -> None:
    state = ("--state-dir", str(tmp_path / "state"), "--allow-commands")
    assert "no such user" in _refused(tmp_path, *state, "--task-user", "no-such-user")
    assert "root" in _refused(tmp_path, *state, "--task-user", "root")
    said = _refused(tmp_path, *state, "-q", "a", "-q", "b", "--task-user", "a=nobody")
    assert "no user for queue b" in said
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    hidden = ("--state-dir", str(closed / "state"), "--allow-commands", "--task-user", USER)
    assert "can't reach its files" in _refused(tmp_path, *hidden)
    assert "can't enter" in _refused(tmp_path, *state, "--task-user", USER, cwd=closed)
    (closed / "tool").write_text("#!/bin/sh\n")
    (closed / "tool").chmod(0o755)
    exec = ("--state-dir", str(tmp_path / "state"), "--exec", str(closed / "tool"))
    assert "can't run" in _refused(tmp_path, *exec, "--task-user", USER)
    (closed / "made.py").write_text("class Run:\n    def run(self): pass\n")
    run = ("--state-dir", str(tmp_path / "state"), "--run", str(closed / "made.py"))
    assert "can't be loaded by nobody" in _refused(tmp_path, *run, "--task-user", USER)
    threads = ("--app", "json", "--threads", "2", "--task-user", USER)
    assert "processes of their own" in _refused(tmp_path, *threads)


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_what_still_runs_can_not_keep_a_worker_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Tasks of that user may do to the process that tries it out what they like."""
    monkeypatch.setattr(task_user, "_TRIAL_TIMEOUT_S", 2.0)
    python, environment = stayer_for(USER)
    monkeypatch.setattr(sys, "executable", python)
    monkeypatch.setenv("PYTHONPATH", environment.get("PYTHONPATH", ""))
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / "run"
    runs.mkdir(mode=0o711)
    hit = threading.Event()

    def disturb() -> None:
        children = Path(f"/proc/self/task/{threading.main_thread().native_id}/children")
        while not hit.is_set():
            for pid in map(int, children.read_text().split()):
                with suppress(OSError):
                    if os.stat(f"/proc/{pid}").st_uid == pwd.getpwnam(USER).pw_uid:
                        os.kill(pid, number)
                        hit.set()

    thread = threading.Thread(target=disturb)
    thread.start()
    task_user.try_out(TaskUser.from_name(USER), runs, None)
    hit.set()
    thread.join()
    assert not list(runs.iterdir())


def test_the_folder_of_a_trial_can_not_be_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever knows its name puts a pipe there, which is waited for."""
    made: list[str] = []
    monkeypatch.setattr(safe_files, "clear", lambda path: made.append(path.name))
    user = TaskUser.from_name(USER)
    for number in range(2):
        runs = tmp_path / f"{number}"
        runs.mkdir(mode=0o711)
        with suppress(BadConfig):
            task_user.try_out(user, runs, None)
    assert made[0] != made[-1]


def test_only_root_can_name_a_user(tmp_path: Path) -> None:
    options = ("--state-dir", str(tmp_path / "state"), "--allow-commands", "--task-user", "daemon")
    known = pwd.getpwnam(USER)
    said = _refused(
        tmp_path, *options, user=known.pw_uid, group=known.pw_gid, extra_groups=[], cwd=tmp_path,
        env={**stayer_for(USER)[1], "HOME": str(tmp_path)},
    )  # fmt: skip
    assert "a worker that root has started" in said


def test_a_worker_without_the_right_to_kill_says_so(tmp_path: Path) -> None:
    python, environment = stayer_for(USER)
    arguments = [
        "setpriv", "--bounding-set", "-kill", python, "-m", "stayer", "worker",
        "--store", f"sqlite:///{tmp_path}/x.db", "--state-dir", str(tmp_path / "state"),
        "--allow-commands", "--task-user", USER,
    ]  # fmt: skip
    done = subprocess.run(
        arguments, capture_output=True, text=True, check=False, timeout=120, env=environment,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode != 0
    assert "CAP_KILL" in done.stderr


def test_in_a_file(fleet: Fleet) -> None:
    file = fleet.folder / "stayer.toml"
    file.write_text('[worker]\nallow_commands = true\ntask_user = { default = "daemon" }\n')
    state = fleet.folder / "one"
    process = subprocess.Popen(
        [
            fleet.python, "-m", "stayer", "worker", "--config", str(file), "--store", fleet.url,
            "--state-dir", str(state),
        ],
        env=stayer_for(USER)[1], cwd=fleet.folder,
    )  # fmt: skip
    fleet.workers.append(process)
    assert _run(fleet, 'id -un > "$STAYER_RESULT"') == "daemon"
    assert json.loads((state / "identity").read_text())["id"]
