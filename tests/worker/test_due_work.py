"""Workers and time: nothing is asked of the store until something is due, then it happens."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from stayer.client import Client
from stayer.core.model import NewTask
from stayer.core.schedules.model import Schedule
from stayer.service.control import schedules
from stayer.stores import open_store
from tests.faults.fleet import PATIENCE, Fleet, until

COUNTING = """
import sys
from stayer.stores import open_store
from stayer.worker.handlers import configure
from stayer.worker.loop import WorkerLoop
from stayer.worker.options import Options
from stayer.worker.state_directory import StateDirectory

class Counting:
    def __init__(self, store):
        self.store = store
    def __getattr__(self, name):
        operation = getattr(self.store, name)
        if not callable(operation):
            return operation
        def call(*arguments, **named):
            print(name, flush=True)
            answer = operation(*arguments, **named)
            if name == "reserve" and answer:
                print("given", flush=True)
            return answer
        return call

url, folder = sys.argv[1:]
state = StateDirectory(__import__("pathlib").Path(folder), "node")
state.open()
options = Options(lease=120.0)
WorkerLoop(Counting(open_store(url)), state, configure(allow_commands=True), options).run()
"""
YEARLY = "0 0 1 1 *"


class Counted:
    """A worker that writes down what it asks of the store."""

    def __init__(self, fleet: Fleet) -> None:
        self._file = fleet.folder / "calls.txt"
        with open(self._file, "wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-c", COUNTING, fleet.url, str(fleet.folder / "counted")],
                stdout=file, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        fleet.workers.append(self.process)

    @property
    def calls(self) -> list[str]:
        return self._file.read_text().split()

    def looks(self) -> int:
        """How often it has looked whether something is due."""
        return self.calls.count("promote")

    def until_idle(self) -> None:
        until(lambda: "forget" in self.calls, "for the worker to have done what it does at first")


@pytest.fixture
def counted(fleet: Fleet) -> Counted:
    task = NewTask(id="", queue="default", command=("true",))
    wanted = schedules.add(fleet.store, Schedule(name="s0", cron=YEARLY, task=task))
    for number in range(1, 200):
        fleet.store.put_schedule(
            Schedule(name=f"s{number}", cron=YEARLY, task=task, next=wanted.next)
        )
    return Counted(fleet)


def test_an_idle_worker_looks_when_something_is_due_and_not_before(
    fleet: Fleet, counted: Counted
) -> None:
    counted.until_idle()
    fleet.submit("later", "true", delay=7.0)
    until(lambda: counted.looks() >= 2, "for the worker to hear of it")
    before = counted.looks()
    assert fleet.until_ended("later").state == "complete"
    until(lambda: "given" in counted.calls)
    calls = counted.calls[: counted.calls.index("given")]
    # One when it is due, and one because it has become pending. Looking each second were seven.
    assert calls.count("promote") - before <= 3
    assert calls.count("reserve") <= 5
    assert "due_schedules" not in calls


def test_it_hears_of_what_is_due_sooner(fleet: Fleet, counted: Counted) -> None:
    fleet.submit("far", "true", delay=3600.0)
    counted.until_idle()
    fleet.submit("near", "true", delay=1.0)
    assert fleet.until_ended("near").state == "complete"
    assert counted.looks() <= 8
    assert fleet.get("far").state == "scheduled"


def test_what_is_too_old_ends_by_itself(fleet: Fleet) -> None:
    fleet.worker()
    until(fleet.store.workers)
    fleet.submit("held", "true", held=True, expire=1.0)
    fleet.submit("late", "true", eta=time.time() + 3600.0, expire=1.0)
    assert fleet.until_ended("held").ending == "expired"
    assert fleet.until_ended("late").ending == "expired"


def test_what_has_been_kept_for_long_enough_goes_by_itself(fleet: Fleet) -> None:
    fleet.submit("a", "true")
    fleet.worker("one")
    fleet.until_ended("a")
    fleet.store.set_queue("default", retention={"complete": 0.0})
    fleet.worker("two")
    until(lambda: fleet.store.get(["a"]) == [None], "for it to be forgotten")


def test_a_listener_sees_to_schedules_too(fleet: Fleet) -> None:
    task = NewTask(id="", queue="q", parameters={"n": 1})
    earlier = open_store(fleet.url, clock=lambda: time.time() - 120)
    schedules.add(earlier, Schedule(name="s", cron="* * * * *", task=task))
    earlier.close()
    with Client(fleet.url) as client, client.get_listener("q") as listener:
        taken = listener.listen(PATIENCE)
    assert taken is not None
    assert taken.id.startswith("s@")


CONFIG = """
store = "{url}"

[retention]
complete = "7d"

[[cron]]
name = "nightly"
cron = "30 2 * * *"
zone = "Europe/Berlin"
task = {{ queue = "reports", command = ["make", "report"] }}
"""


def declared(fleet: Fleet) -> dict[str, str | None]:
    return {schedule.name: schedule.origin for schedule in fleet.store.schedules()}


def test_a_file_declares_schedules_and_takes_them_back(fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "stayer.toml"
    file.write_text(CONFIG.format(url=fleet.url))
    task = NewTask(id="", queue="q")
    schedules.add(fleet.store, Schedule(name="by-hand", cron=YEARLY, task=task))
    one = fleet.worker("one", "--config", str(file))
    until(lambda: "nightly" in declared(fleet))
    assert declared(fleet) == {"by-hand": None, "nightly": str(file)}
    made = schedules.get(fleet.store, "nightly")
    assert (made.task.command, made.task.cwd) == (("make", "report"), str(tmp_path))
    schedules.pause(fleet.store, "nightly")
    fleet.signal(one, 15)
    fleet.end_of(one)

    file.write_text(CONFIG.format(url=fleet.url).replace("30 2", "45 3"))
    two = fleet.worker("one", "--config", str(file))
    until(lambda: schedules.get(fleet.store, "nightly").cron == "45 3 * * *")
    assert schedules.get(fleet.store, "nightly").paused  # whoever paused it meant it
    fleet.signal(two, 15)
    fleet.end_of(two)

    file.write_text(f'store = "{fleet.url}"\n')
    fleet.worker("one", "--config", str(file))
    until(lambda: declared(fleet) == {"by-hand": None})


def test_a_wrong_declaration_is_refused_before_anything_runs(fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "stayer.toml"
    file.write_text(CONFIG.format(url=fleet.url).replace("30 2", "30 25"))
    pid = fleet.worker("one", "--config", str(file))
    assert fleet.end_of(pid) == 2
    said = (tmp_path / "one.log").read_text()
    assert "[[cron]] 1" in said
    assert "bad hour" in said


APP = """
import stayer
app = stayer.App()

@app.cron("0 0 1 1 *", zone="Asia/Tokyo", parameters={"much": 3})
@app.task(queue="default", retries=2)
def tidy(much: int) -> int:
    return much + 1
"""


@pytest.mark.parametrize("threads", [False, True], ids=["processes", "threads"])
def test_an_app_declares_schedules(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: bool
) -> None:
    (tmp_path / "yearly.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    options = ["--threads", "1"] if threads else []
    with open(tmp_path / "app.log", "wb") as log:
        fleet.workers.append(
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "stayer",
                    "worker",
                    "--store",
                    fleet.url,
                    "--state-dir",
                    str(tmp_path / "state"),
                    "--app",
                    "yearly",
                    *options,
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        )
    until(fleet.store.schedules, (tmp_path / "app.log").read_text())
    made = schedules.get(fleet.store, "yearly.tidy")
    assert (made.zone, made.origin, made.task.policy.retries) == ("Asia/Tokyo", "app yearly", 2)
    ran = schedules.run(fleet.store, "yearly.tidy")
    assert fleet.until_ended(ran.id).result == 4
