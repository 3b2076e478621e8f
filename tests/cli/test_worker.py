"""`stayer worker` and `stayer up`: what flags and the file of settings make of a worker."""

from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
from functools import partial
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from stayer import config
from stayer.cli.daemon import begin_daemon
from stayer.cli.worker_options import WorkerPlan, plan_worker
from stayer.core.errors import BadConfig, BadInput
from stayer.worker.threads.commit_outcomes import FailureLog
from tests.cli.running import Apart, Here
from tests.cli.terminal import Terminal
from tests.cli.working import Site
from tests.contract.builders import new
from tests.faults.fleet import until

FILE = """
[worker]
queues = ["a", "b"]
slots = 3
lease = "5m"
state_dir = "state"
grace = "1m"
kill_interval = 5
time_limit = "12h"
silence_limit = "1h"
memory_limit = "8G"
fence = "kill"
exec = "cat -"
app = "module:app"
allow_command = "ffmpeg"
env = { WORD = "x" }
log = "/var/log/w.log"
"""


@pytest.fixture
def plan(folder: Path, environment: dict[str, str]):
    """What these flags make of a worker, with the file of settings that is there."""

    def plan(**flags: object) -> WorkerPlan:
        return plan_worker(config.load({}, environment, folder), flags)

    return plan


def test_with_nothing_said_there_is_one_slot_for_the_usual_queue(plan) -> None:
    found = plan()

    assert found.behaviour == {
        "queues": ("default",), "evenly": False, "slots": 1, "lease": 120.0,
    }  # fmt: skip
    assert found.handlers == {}


def test_the_file_may_say_everything(plan, folder: Path) -> None:
    (folder / "stayer.toml").write_text(FILE)

    found = plan(slots=None, queues=(), evenly=False)

    assert found.handlers == {
        "exec": "cat -", "app": "module:app", "allow_command": ("ffmpeg",), "env": ("WORD=x",),
    }  # fmt: skip
    assert found.behaviour == {
        "queues": ("a", "b"), "evenly": False, "slots": 3, "lease": 300.0, "grace": 60.0,
        "kill_interval": 5.0, "time_limit": 43200.0, "silence_limit": 3600.0,
        "memory_limit": 8 * 1000**3, "fence": "kill",
    }  # fmt: skip
    assert (found.state_dir, found.log) == (str(folder / "state"), "/var/log/w.log")


def test_a_flag_goes_before_the_file(plan, folder: Path) -> None:
    (folder / "stayer.toml").write_text(FILE)

    found = plan(slots=9, queues=("c",), grace=0.0, run="file.py")

    assert (found.behaviour["slots"], found.behaviour["queues"]) == (9, ("c",))
    assert found.behaviour["grace"] == 0.0
    assert found.handlers == {"run": "file.py", "env": ("WORD=x",)}


def test_config_shows_what_the_file_says_about_workers(stayer: Here, folder: Path) -> None:
    file = folder / "stayer.toml"
    file.write_text(FILE)

    rows = {line.split()[0]: line.split()[1:] for line in stayer("config").works().lines}
    found = stayer("config", "--json").works().json

    assert rows["worker.queues"] == ["a", "b", str(file)]
    assert rows["worker.time_limit"] == ["12h", "00m", str(file)]
    assert found["worker.slots"] == {"value": 3, "source": str(file)}
    assert found["worker.allow_command"]["value"] == ["ffmpeg"]
    stayer("config", "--write", "copy.toml").works()
    copy = stayer("--config", "copy.toml", "config", "--json").works().json
    assert {name: copy[name]["value"] for name in copy} == {
        name: found[name]["value"] for name in found
    }


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("slots = 0", ["worker.slots", "1 or more"]),
        ("slot = 1", ["'slot'", "'slots'"]),
        ("lease = 1", ["worker.lease", "too short"]),
        ('fence = "no"', ["worker.fence", "freeze, kill, keep"]),
        ('allow_commands = "yes"', ["worker.allow_commands", "neither true nor false"]),
        ("memory_limit = 1.5", ["worker.memory_limit", "not a size"]),
        ("time_limit = 0", ["time_limit 0", "leave it out"]),
        ("queues = [7]", ["worker.queues", "not text"]),
    ],
)
def test_a_bad_line_is_refused_by_its_name(
    stayer: Here, folder: Path, line: str, words: list[str]
) -> None:
    (folder / "stayer.toml").write_text(f"[worker]\n{line}\n")

    stayer("worker").refuses("stayer.toml", *words)


def test_a_worker_needs_something_to_run(stayer: Here) -> None:
    stayer("worker").refuses("--exec CMD", "--allow-commands")
    stayer("worker", "--allow-commands", "--env", "x").refuses("--env x", "NAME=VALUE")
    stayer("worker", "--allow-commands", "--lease", "1s").refuses("1s is too short")
    stayer("worker", "--allow-commands", "--time-limit", "0").refuses("--time-limit 0", "leave it")


def test_what_a_worker_is_to_run_is_looked_at_before_it_begins(stayer: Here, folder: Path) -> None:
    (folder / "plain.txt").write_text("no program")
    (folder / "empty.py").write_text("")
    (folder / "broken.py").write_text("raise RuntimeError('not like this')")
    (folder / "good.py").write_text("class Run:\n    def run(self): ...\n")
    stayer("worker", "--exec", "/no/such/cmd").refuses("--exec", "/no/such/cmd", "No such file")
    stayer("worker", "--exec", "no-such-cmd -x").refuses("--exec", "no-such-cmd")
    stayer("worker", "--exec", "./plain.txt").refuses("--exec", "Permission denied")
    stayer("worker", "--exec", 'unbalanced "quote').refuses("--exec", "no closing quotation")
    stayer("worker", "--exec", " ").refuses("--exec", "give a command")
    stayer("worker", "--exec", "{id} x").refuses("--exec", "can't be the program")
    stayer("worker", "--run", "good.py:Nope").refuses("--run", "called Nope")
    stayer("worker", "--run", "empty.py").refuses("--run", "no class with a method")
    stayer("worker", "--run", "broken.py").refuses("--run", "not like this")
    (folder / "stayer.toml").write_text("[worker]\nexec = 'unbalanced \"quote'\n")
    stayer("worker").refuses("--exec", "no closing quotation")


@pytest.mark.parametrize("name", ["", " ", "a\n", "x" * 201])
def test_a_worker_listens_to_no_queue_that_can_have_no_task(stayer: Here, name: str) -> None:
    stayer("worker", "--allow-commands", "-q", "good", "-q", name).refuses("queue")


def test_a_queue_that_is_named_twice_is_one(plan) -> None:
    assert plan(queues=("b", "a", "b")).behaviour["queues"] == ("b", "a")


def test_allowed_variables_go_with_commands_from_the_file(plan, folder: Path) -> None:
    (folder / "stayer.toml").write_text(
        '[worker]\nallow_command = ["ffmpeg"]\nallow_env = ["CUDA_*", "LANG"]\n'
    )
    assert plan().handlers == {"allow_command": ("ffmpeg",), "allow_env": ("CUDA_*", "LANG")}
    assert plan(allow_env=("X",)).handlers["allow_env"] == ("X",)
    with pytest.raises(BadConfig, match="--allow-env is for tasks in processes"):
        plan(app="m", threads=2, allow_env=("X",))


def test_a_log_that_can_not_be_written_is_one_line(apart: Apart) -> None:
    apart("worker", "--allow-commands", "--log", "/no/such/file").refuses("--log /no/such/file")


def test_a_worker_does_what_the_file_says(apart: Apart, fleet: Site, folder: Path) -> None:
    (folder / "stayer.toml").write_text(
        '[worker]\nqueues = "some"\nallow_commands = true\nstate_dir = "../one"\n'
        'env = ["WORD=hello"]\nlease = "2s"\nlog = "worker.log"\n'
    )
    process = apart.start("worker")
    try:
        until(fleet.store.workers, "for the worker to register")
        done = apart("run", "-q", "some", "--", "sh", "-c", "echo $WORD").works()
        assert done.out == "hello\n"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.communicate() == ("", "")
    assert "takes tasks from some" in (folder / "worker.log").read_text()


def test_up_makes_the_store_and_runs_commands(apart: Apart, tmp_path: Path, fleet: Site) -> None:
    state = str(tmp_path / "one")
    fresh = {"STAYER_STORE": f"sqlite:///{tmp_path}/new.db"}
    options = ("--state-dir", state, "--lease", "2s", "--port", "0")
    with Terminal(apart, "up", *options, environment=fresh) as up:
        up.until("try, in another terminal: stayer run -- echo hello")
        up.until("/login#code=")
        address = re.search(r"at (http://127.0.0.1:\d+)", up.text)
        assert address
        assert urlopen(f"{address[1]}/readyz").status == 200
        assert f"the store is sqlite:///{tmp_path}/new.db" in up.text
        assert f"{len(os.sched_getaffinity(0))} slot" in up.text
        done = apart("run", "--", "echo", "hello", environment=fresh).works()
        assert done.out == "hello\n"
        up.type("\x03")
        assert up.end() == 0
        with pytest.raises(URLError):  # the server has ended too
            urlopen(f"{address[1]}/readyz")


def test_up_does_not_begin_if_its_port_is_taken(apart: Apart, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = apart("up", "--state-dir", str(tmp_path / "one"), "--port", port)
    assert done.code == 2
    assert f"can't listen on 127.0.0.1:{port}" in done.err
    assert "--no-serve" in done.err


def test_a_worker_does_not_begin_with_tables_that_it_can_not_use(
    apart: Apart, tmp_path: Path, fleet: Site
) -> None:
    with sqlite3.connect(fleet.folder / "stayer.db") as database:
        database.execute("ALTER TABLE stayer_workers DROP COLUMN slots")
    done = apart("worker", "--state-dir", str(tmp_path / "new"), "--allow-commands")
    assert done.code == 2
    assert "run `stayer init`" in done.err


def test_up_says_where_the_store_is_if_only_it_knows(fleet: Site) -> None:
    process = fleet.start(
        "--slots", "1", "--allow-command", "true", "-q", "some", "--no-serve", verb="up"
    )
    log = fleet.folder / "one.log"
    until(lambda: b"takes tasks" in log.read_bytes(), "for it to begin")
    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == 0
    lines = log.read_text().splitlines()
    assert lines[1] == "1 slot for tasks of some"
    assert lines[2].startswith("Ctrl-C stops what runs, and the next `stayer up` begins it again")
    assert lines[3].endswith(f"stayer run --store {fleet.url} -q some -- true")


def test_up_names_no_command_where_it_runs_none(fleet: Site, folder: Path) -> None:
    (folder / "tasks.py").write_text("import stayer\napp = stayer.App()\n")
    process = fleet.start("--app", "tasks", "--no-serve", verb="up")
    log = fleet.folder / "one.log"
    until(lambda: b"takes tasks" in log.read_bytes(), "for it to begin")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert "it runs the functions of tasks, and no commands" in log.read_text()
    assert "stayer run" not in log.read_text()


def test_threads_need_an_app_and_nothing_that_is_for_processes(stayer: Here) -> None:
    stayer("worker", "--threads", "4").refuses("--app")
    stayer("worker", "--threads", "4", "--app", "m", "--slots", "2").refuses("--slots", "processes")
    stayer("worker", "--threads", "4", "--app", "m", "--exec", "cat").refuses("--exec", "processes")


def test_threads_may_stand_in_the_file(plan, folder: Path) -> None:
    (folder / "stayer.toml").write_text('[worker]\napp = "m"\nthreads = 8\ntime_limit = "1m"\n')
    found = plan()
    assert (found.threads, found.handlers) == (8, {"app": "m"})
    assert found.behaviour["time_limit"] == 60.0
    assert found.ignored_note is None


def test_a_flag_for_processes_leaves_the_threads_of_the_file_aside_and_says_so(
    plan, folder: Path
) -> None:
    file = folder / "stayer.toml"
    file.write_text('[worker]\napp = "m"\nthreads = 8\n')
    for flags, name in (
        ({"exec": "cat"}, "--exec"),
        ({"allow_commands": True}, "--allow-commands"),
        ({"app": "other", "allow_command": ("true",)}, "--allow-command"),
    ):
        found = plan(**flags)
        assert (found.threads, found.handlers) == (None, flags)
        said = found.ignored_note
        assert said is not None
        assert f"threads = 8 in {file} is ignored" in said
        assert f"start another worker, without {name}, " in said


def test_another_app_runs_in_the_threads_of_the_file(plan, folder: Path) -> None:
    (folder / "stayer.toml").write_text('[worker]\napp = "m"\nthreads = 8\n')
    found = plan(app="other")
    assert (found.threads, found.handlers, found.ignored_note) == (8, {"app": "other"}, None)


def test_a_flag_that_does_not_go_with_threads_of_the_file_names_both(plan, folder: Path) -> None:
    file = folder / "stayer.toml"
    file.write_text('[worker]\napp = "m"\nthreads = 8\n')
    with pytest.raises(BadConfig, match=f"--slots is for .* without threads in {file}"):
        plan(slots=2)


def test_what_the_file_says_of_processes_does_not_hinder_threads_and_is_said(
    plan, folder: Path
) -> None:
    file = folder / "stayer.toml"
    file.write_text('[worker]\nslots = 4\nallow_commands = true\nqueues = ["a"]\n')
    found = plan(threads=8, app="m")
    assert (found.threads, found.behaviour["queues"]) == (8, ("a",))
    assert found.ignored_note is not None
    assert found.ignored_note.startswith(f"allow_commands, slots in {file} are ignored")
    assert "without --threads" in found.ignored_note


def test_a_worker_says_what_it_leaves_aside(stayer: Here, folder: Path) -> None:
    (folder / "stayer.toml").write_text('[worker]\napp = "m"\nthreads = 8\n')
    refused = stayer("worker", "--run", "nowhere.py")
    assert refused.code == 2
    assert "threads = 8 in " in refused.err


@pytest.mark.parametrize("written", ["0", "1001", '"many"'])
def test_a_number_of_threads_that_makes_no_sense_is_refused(
    plan, folder: Path, written: str
) -> None:
    (folder / "stayer.toml").write_text(f'[worker]\napp = "m"\nthreads = {written}\n')
    with pytest.raises(BadConfig, match=r"worker\.threads"):
        plan()


def test_the_log_tells_what_became_of_each_task(fleet: Site) -> None:
    process = fleet.start("--slots", "3", "--allow-commands")
    log = fleet.folder / "one.log"
    fleet.submit("fine", "true")
    fleet.submit("bad", "sh", "-c", "exit 7")
    fleet.submit("again", "false", retries=1, retry_wait=1000)
    fleet.submit("long", "sleep", "1000")

    for line in ("task long (sleep) started, pid ", "task fine (true) is complete after ",
                 "task bad (sh -c exit 7) failed after ", "(error, exit code 7",
                 "task again (false) ended after ", ": the next try is due in "):  # fmt: skip
        until(partial(_has, log, line), f"for {line!r} in the log")
    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == 0
    said = log.read_text()
    assert "stopping 1 task (" in said
    assert "Ctrl-C again kills at once; `kill -HUP` instead" in said
    assert "task long (sleep) was handed back after " in said


@pytest.mark.parametrize("threads", [(), ("--threads", "2")])
def test_a_function_runs_tasks_whose_names_fit(
    fleet: Site, folder: Path, threads: tuple[str, ...]
) -> None:
    (folder / "routed.py").write_text(
        "from stayer import App, Context\n"
        "app = App()\n"
        "@app.task(name='film', match=['film-*', 'clip?'])\n"
        "def film(task: Context) -> str:\n"
        "    return f'film {task.name}'\n"
        "@app.task(name='film-short')\n"
        "def short() -> str:\n"
        "    return 'short'\n"
        "@app.task(match='*-7')\n"
        "async def later() -> str:\n"
        "    return 'later'\n"
    )
    environment = ("--env", f"PYTHONPATH={folder}")
    names = ("film", "film-7", "clip1", "film-short", "song-7", "song")
    fleet.store.submit([new(name, "default", name=name) for name in names])
    fleet.start("--app", "routed", *environment, *threads)
    results = {name: fleet.until_ended(name).result for name in names[:-1]}
    assert results == {
        "film": "film film", "film-7": "film film-7", "clip1": "film clip1",
        "film-short": "short", "song-7": "later",
    }  # fmt: skip
    assert fleet.get("song").state == "pending"


def test_a_heartbeat_is_at_most_an_eighth_of_the_lease(plan, folder: Path) -> None:
    (folder / "stayer.toml").write_text('[worker]\nheartbeat = "3s"\n')
    assert plan().behaviour["heartbeat"] == 3.0
    assert plan(heartbeat=15.0).behaviour["heartbeat"] == 15.0
    with pytest.raises(BadInput, match="give 15s or less, or a longer lease"):
        plan(heartbeat=16.0)


def test_the_file_of_a_class_has_arguments(fleet: Site, apart: Apart, folder: Path) -> None:
    (folder / "work.py").write_text(
        "import sys\n"
        "loaded = sys.argv[1:]\n"
        "class Run:\n"
        "    def __init__(self, task): ...\n"
        "    def run(self): return [loaded, sys.argv[1:]]\n"
    )
    fleet.start("--run", str(folder / "work.py"), "--", "--quality", "high")
    fleet.store.submit([new("t", "default")])
    words = ["--quality", "high"]
    assert fleet.until_ended("t").result == [words, words]
    apart("worker", "--allow-commands", "word").refuses("--exec CMD or --run FILE")


def test_a_command_has_arguments_before_the_id(fleet: Site) -> None:
    fleet.start("--exec", "printf '%s.%s.%s' one", "--", "two words")
    fleet.store.submit([new("t", "default")])
    fleet.until_ended("t")
    [piece] = fleet.store.log("t", 1, 0, 100)
    assert piece.data == b"one.two words.t"


def test_a_daemon_goes_on_when_the_command_has_ended(
    apart: Apart, fleet: Site, folder: Path
) -> None:
    options = ("worker", "--allow-commands", "--state-dir", "state", "--daemon", "w.pid")
    apart(*options).refuses("--log FILE")
    apart(*options, "--log", "/no/such/file").refuses("--log /no/such/file")

    done = apart(*options, "--log", "w.log", "--lease", "2s").works()

    pid = int((folder / "w.pid").read_text())
    try:
        assert done.out == ""
        assert apart("run", "--", "echo", "hello").works().out == "hello\n"
        apart(*options, "--log", "w.log").refuses(f"process {pid}")
    finally:
        os.kill(pid, signal.SIGTERM)
    until(lambda: not fleet.store.workers(), "for it to leave")
    assert "takes tasks from default" in (folder / "w.log").read_text()


@pytest.mark.parametrize("what", ["link", "shared", "other", "pipe"])
def test_a_daemon_writes_only_to_a_file_of_its_own(folder: Path, what: str) -> None:
    path, target = folder / "w.pid", folder / "target"
    target.write_text("of somebody else")
    match what:
        case "link":
            path.symlink_to(target)
        case "pipe":
            os.mkfifo(path, 0o600)
        case _:
            path.write_text("12\n" if what == "shared" else "something that is no process id")
            path.chmod(0o666 if what == "shared" else 0o600)

    with pytest.raises(BadInput, match="--daemon"):
        begin_daemon(str(path), "w.log")

    assert target.read_text() == "of somebody else"


def test_how_much_a_worker_logs(plan, folder: Path, fleet: Site) -> None:
    assert [plan().log_level, plan(verbose=True).log_level] == ["info", "debug"]
    (folder / "stayer.toml").write_text('[worker]\nlog_level = "error"\n')
    assert [plan().log_level, plan(quiet=True).log_level] == ["error", "warning"]
    with pytest.raises(BadInput, match="not both"):
        plan(quiet=True, verbose=True)
    fleet.start("--allow-commands", "-v", "--lease", "1h", "--heartbeat", "0.1s")
    fleet.start("--allow-commands", "--quiet", name="two")
    until(partial(_has, fleet.folder / "one.log", "DEBUG beat 5 "), "for beats in the log")
    until(lambda: len(fleet.store.workers()) == 2, "for both to register")
    assert (fleet.folder / "two.log").read_text() == ""


def _has(log: Path, line: str) -> bool:
    return line in log.read_text()


def test_few_of_many_failures_of_short_tasks_are_told_one_by_one(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter([100.0] * 1000 + [200.0])
    monkeypatch.setattr(
        "stayer.worker.threads.commit_outcomes.time.monotonic", lambda: next(moments)
    )
    failures = FailureLog()

    for number in range(1001):
        failures.log(f"task {number} failed")

    told = [record.getMessage() for record in caplog.records]
    assert told[0] == "task 0 failed"
    assert told[10:] == ["990 more tasks failed in the meantime", "task 1000 failed"]
