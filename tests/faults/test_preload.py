"""Tasks that are forked by a process that has imported their app: they keep all promises, whatever
becomes of that process.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stayer.core.submit.checks import new_task
from stayer.service.control import tasks as control
from tests.faults.fleet import TASK_USER, Fleet, is_stopped, until
from tests.faults.pools import is_alive

APP = """
import os, random, subprocess, sys, time, stayer
app = stayer.App()
@app.task(name="about")
def about() -> dict:
    print("hello")
    parent = open(f"/proc/{os.getppid()}/comm").read().strip()
    return {"parent": parent, "group": os.getpgrp() == os.getpid(), "user": os.getuid(),
            "cwd": os.getcwd(), "try": os.environ["STAYER_ATTEMPT"], "nothing": sys.stdin.read()}
@app.task(name="draw")
def draw() -> float:
    return random.random()
@app.task(name="leave")
def leave(code: int) -> None:
    sys.exit(code)
@app.task(name="work")
def work(stamps: str, stop: str) -> None:
    subprocess.Popen(["setsid", "sleep", "1000"])
    file = os.open(stamps, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    while not os.path.exists(stop):
        moment = time.clock_gettime(time.CLOCK_BOOTTIME)
        os.write(file, f"{os.environ['STAYER_ATTEMPT']} {moment:.6f}\\n".encode())
        time.sleep(0.005)
"""
ENDING = """
import atexit, gc, os, threading, time
FOLDER = os.path.dirname(__file__)
early = open(f"{FOLDER}/early-{os.getpid()}", "w")  # each process that imports this has its own
def write(name):
    with open(f"{FOLDER}/{name}", "w") as file:
        file.write(name)
class Cycle:
    def __init__(self):
        self.me, self.file = self, open(f"{FOLDER}/cycle", "w")
        self.file.write("cycle")
@app.task(name="leave_open")
def leave_open() -> str:
    global late
    late = open(f"{FOLDER}/late", "wb")
    late.write(b"late")
    early.write("early")
    gc.disable()
    Cycle()
    def work():
        time.sleep(0.2)
        write("thread")
    threading.Thread(target=work).start()
    atexit.register(write, "atexit")
    print("no newline", end="")
    return early.name
"""
THREAD = (
    "import threading, time\nthreading.Thread(target=time.sleep, args=[1000], daemon=True).start()"
)


@pytest.fixture(autouse=True)
def _app(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    (fleet.folder / "preloaded_app.py").write_text(APP)
    monkeypatch.setenv("PYTHONPATH", str(fleet.folder))


def start(fleet: Fleet, *options: str, **others: Any) -> int:
    """A worker, with a zygote that is ready."""
    pid = fleet.worker("one", "--app", "preloaded_app", "--preload", *options, **others)
    until(lambda: zygotes(fleet), "for a zygote")
    return pid


def zygotes(fleet: Fleet) -> list[int]:
    """Those that wait to be asked: one that still imports has its first name."""
    return [pid for pid in below(fleet.keepers("one")[:1]) if name_of(pid) == "stayer-zygote"]


def below(pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        with suppress(OSError):
            words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            found += [int(word) for word in words]
    return found


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def submit(fleet: Fleet, id: str, name: str, **parameters: Any) -> str:
    new = new_task(queue="default", id=id, name=name, parameters=parameters)
    return fleet.store.submit([new])[0].task.id


def work(fleet: Fleet, id: str) -> dict[str, Any]:
    """A preloaded task that stamps the clock; what its keeper says of it."""
    stamps, stop = str(fleet.stamps(id)), str(fleet.folder / f"{id}.stop")
    submit(fleet, id, "work", stamps=stamps, stop=stop)
    fleet.until_stamped(id)
    fleet.until_state(id, "started")
    [run] = (fleet.folder / "one" / "run").glob(f"{id}.*")
    found: dict[str, Any] = json.loads((run / "running").read_text())
    assert name_of(found["first"]) == "stayer-first"
    return found


def is_preloaded(fleet: Fleet, id: str) -> bool:
    submit(fleet, id, "about")
    result = fleet.until_ended(id).result
    assert isinstance(result, dict), fleet.get(id).error
    return bool(result["parent"] == "stayer-first")


def until_preloaded(fleet: Fleet) -> None:
    tries = iter(range(1000))
    until(lambda: is_preloaded(fleet, f"try-{next(tries)}"), "for a preloaded task")


def test_it_is_forked_with_all_that_a_task_has(fleet: Fleet) -> None:
    start(fleet, "--env", "COLOUR=red", lease=30)
    until_preloaded(fleet)
    user = pwd.getpwnam(TASK_USER).pw_uid if TASK_USER else os.getuid()
    cwd = fleet.folder if TASK_USER else Path.cwd()
    submit(fleet, "a", "about")
    task = fleet.until_ended("a")
    assert task.result == {
        "parent": "stayer-first", "group": True, "user": user, "cwd": str(cwd),
        "try": "1", "nothing": "{}",
    }  # fmt: skip
    for id in ("b", "c"):
        submit(fleet, id, "draw")
    assert fleet.until_ended("b").result != fleet.until_ended("c").result
    submit(fleet, "d", "leave", code=7)
    error = fleet.until_ended("d").error
    assert error is not None
    assert error.exit_code == 7


def test_cancelled_means_that_nothing_is_left(fleet: Fleet) -> None:
    start(fleet, lease=30)
    until_preloaded(fleet)
    about = work(fleet, "a")
    until(fleet.strays)
    control.cancel(fleet.store, "a", grace=0.2)
    assert fleet.until_ended("a").state == "cancelled"
    assert fleet.strays() == []
    assert not os.path.exists(f"/proc/{about['pid']}")


@pytest.mark.parametrize("who", ["keeper", "first"])
def test_whoever_is_killed_the_task_goes_with_it(fleet: Fleet, who: str) -> None:
    start(fleet, lease=30)
    until_preloaded(fleet)
    about = work(fleet, "a")
    until(fleet.strays)
    seen = [about["pid"], about["first"], *fleet.strays()]
    os.kill(about[who], signal.SIGKILL)
    until(lambda: fleet.endings("a")[:1] == ["lost"])
    assert not [pid for pid in seen if is_alive(pid)]
    control.cancel(fleet.store, "a", grace=0)
    fleet.until_ended("a")
    fleet.assert_no_overlap("a")


def test_tasks_outlive_their_zygote_and_another_is_made(fleet: Fleet) -> None:
    start(fleet, lease=30)
    until_preloaded(fleet)
    work(fleet, "a")
    [zygote] = zygotes(fleet)
    os.kill(zygote, signal.SIGKILL)
    until(lambda: zygotes(fleet) not in ([], [zygote]), "for another")
    until_preloaded(fleet)
    before = len(fleet.read_stamps("a")[1])
    fleet.until_stamped("a", more_than=before)
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"
    assert (fleet.endings("a"), fleet.strays()) == (["done"], [])


def test_nothing_that_it_wrote_is_lost_at_its_end(fleet: Fleet) -> None:
    """It does not take the interpreter apart, which closes files by the way."""
    (fleet.folder / "preloaded_app.py").write_text(APP + ENDING)
    start(fleet, lease=30)
    until_preloaded(fleet)
    submit(fleet, "a", "leave_open")
    early = fleet.until_ended("a").result
    assert isinstance(early, str), fleet.get("a").error
    assert Path(early).read_text() == "early"
    for name in ("late", "cycle", "thread", "atexit"):
        assert (fleet.folder / name).read_text() == name
    log = b"".join(piece.data for piece in fleet.store.log("a", 1, 0, 1000))
    assert log.endswith(b"no newline")


def test_a_zygote_that_is_stopped_keeps_nobody_waiting(fleet: Fleet) -> None:
    start(fleet, lease=30)
    until_preloaded(fleet)
    [zygote] = zygotes(fleet)
    os.kill(zygote, signal.SIGSTOP)
    until(lambda: is_stopped(zygote))
    assert not is_preloaded(fleet, "a")
    os.kill(zygote, signal.SIGCONT)
    until_preloaded(fleet)


def test_a_stopped_keeper_is_fenced_by_the_kernel(fleet: Fleet) -> None:
    one = start(fleet)
    until_preloaded(fleet)
    about = work(fleet, "a")
    fleet.worker("two", "--app", "preloaded_app", "--preload")
    os.kill(about["keeper"], signal.SIGSTOP)
    fleet.signal(one, signal.SIGKILL)
    fleet.until_stamped("a", attempt=2, more_than=50)
    fleet.finish("a")
    assert fleet.until_ended("a").state == "complete"
    fleet.assert_no_overlap("a")


def test_changed_code_is_what_runs_next(fleet: Fleet) -> None:
    start(fleet, lease=30)
    until_preloaded(fleet)
    changed = APP.replace("return random.random()", "return 2.0")
    (fleet.folder / "preloaded_app.py").write_text(changed)
    submit(fleet, "a", "draw")
    assert fleet.until_ended("a").result == 2.0
    until_preloaded(fleet)
    submit(fleet, "b", "draw")
    assert fleet.until_ended("b").result == 2.0


def test_an_app_with_threads_is_not_forked_and_its_worker_says_so(fleet: Fleet) -> None:
    (fleet.folder / "preloaded_app.py").write_text(f"{APP}\n{THREAD}\n")
    start(fleet, lease=30)
    assert not is_preloaded(fleet, "a")
    assert "starts 1 threads" in (fleet.folder / "one.log").read_text()
