"""A worker runs only what its own configuration names, whatever a task or the store says."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from stayer.service.control import edits as edit_control
from stayer.service.control import tasks as control
from stayer.service.explain import explain, why_waiting
from stayer.stores.redis import RedisStore
from stayer.worker.attempt import HeldAttempt
from stayer.worker.run_directory import Run
from tests.faults.fleet import until
from tests.servers.finding import redis_binary
from tests.servers.redis import serving
from tests.worker.ruled import Ruled


@pytest.fixture
def ruled(tmp_path: Path) -> Iterator[Ruled]:
    ruled = Ruled(tmp_path.resolve())
    yield ruled
    ruled.close()


# Variables


def test_no_variable_of_a_task_reaches_a_program(ruled: Ruled) -> None:
    """`BASH_ENV` names a script that bash runs first; the task's parameters are its stdin."""
    tool = ruled.script("tools/tool", "echo ran > $STAYER_RESULT")
    attack = f"touch {ruled.proof}".encode()
    env = {"BASH_ENV": "/dev/stdin"}
    ruled.add("command", command=(str(tool),), env=env, parameters=attack)
    ruled.add("plain", env=env, parameters=attack)
    ruled.add("honest", command=(str(tool),), parameters=attack)
    worker = ruled.start("--allow-command", str(tool), "--exec", f"{tool} now", "--slots", "2")

    for id in ("command", "plain"):
        task = ruled.until_refused(id, "BASH_ENV", "--allow-env")
        assert (task.failures, task.interruptions, task.error) == (0, 0, None)
        assert "lets tasks set BASH_ENV: start one with --allow-env" in ruled.reasons(id)
        until(lambda id=id: "it was refused by its worker" in ruled.reasons(id))  # type: ignore[misc]
    assert ruled.until_ended("honest").result == "ran"
    assert not ruled.proof.exists()
    assert ruled.log_of().read_text().count("task command is refused") == 1

    # Somebody who lets tasks have it runs what waits.
    ruled.stop(worker)
    ruled.start("--allow-command", str(tool), "--allow-env", "BASH_*", name="two")
    assert ruled.until_ended("command").node == "two"
    assert ruled.proof.exists()


def test_a_task_that_is_refused_comes_back_less_and_less_often(ruled: Ruled) -> None:
    ruled.add("a", command=("true",), env={"A": "b"})
    ruled.start("--allow-command", "true")
    until(lambda: len(ruled.refusals("a")) >= 3, "for it to come back")
    assert "the variable A: see --allow-env" in why_waiting(explain(ruled.store, "a"))
    taken = [attempt.reserved_at or 0.0 for attempt in ruled.store.attempts("a")]
    assert taken[1] - taken[0] >= 0.9
    assert taken[2] - taken[1] >= 1.9
    assert ruled.log_of().read_text().count("task a is refused") == 1
    control.cancel(ruled.store, "a")
    assert ruled.get("a").state == "cancelled"


def test_those_that_are_allowed_come_along_and_the_interface_stays_the_workers(
    ruled: Ruled,
) -> None:
    shown = ruled.script("shown", "env -0 | sort -z | tr '\\0' '\\n' > $STAYER_RESULT")
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    ruled.add(
        "a", command=(str(shown),), env={"CUDA_X": "1", "TRACEPARENT": parent, "TRACESTATE": "k=v"}
    )
    ruled.add("odd", command=(str(shown),), env={"TRACEPARENT": "() { :; }"})
    ruled.start("--allow-command", str(shown), "--allow-env", "CUDA_*", "--env", "CUDA_X=0")
    lines = str(ruled.until_ended("a").result).splitlines()
    assert {"CUDA_X=1", f"TRACEPARENT={parent}", "TRACESTATE=k=v"} <= set(lines)
    assert "TRACEPARENT" not in str(ruled.until_ended("odd").result)


def test_even_a_worker_for_all_commands_sets_its_own_variables(ruled: Ruled) -> None:
    ruled.add("a", command=("sh", "-c", "echo $A > $STAYER_RESULT"), env={"A": "b"})
    for name in ("STAYER_STORE", "STAYER_RESULT", "STAYER_INPUTS"):
        ruled.add(name, command=("touch", str(ruled.proof)), env={name: "x"})
    ruled.start("--allow-commands", "--slots", "4")
    assert ruled.until_ended("a").result == "b"
    for name in ("STAYER_STORE", "STAYER_RESULT", "STAYER_INPUTS"):
        ruled.until_refused(name, name, "for the worker to set")
    assert not ruled.proof.exists()


# Programs


def test_a_program_is_found_in_the_path_of_the_worker(ruled: Ruled) -> None:
    ruled.script("good/tool", "echo good $0 > $STAYER_RESULT")
    ruled.script("evil/tool", f"touch {ruled.proof}")
    good, evil = str(ruled.home / "good"), str(ruled.home / "evil")
    ruled.add("refused", command=("tool",), env={"PATH": evil})
    ruled.add("a", command=("tool",), cwd=evil)
    ruled.add("b", command=("tool",), env={"PATH": f"{evil}:/bin:/usr/bin"})
    path = f".::{good}:/usr/bin:/bin"
    worker = ruled.start("--allow-command", "tool", PATH=path)
    assert ruled.until_ended("a").result == f"good {good}/tool"
    ruled.until_refused("refused", "PATH")
    ruled.stop(worker)
    ruled.start("--allow-command", "tool", "--allow-env", "PATH", PATH=path)
    assert ruled.until_ended("b").result == f"good {good}/tool"
    assert not ruled.proof.exists()


def test_a_pattern_of_a_folder_means_what_is_in_it(ruled: Ruled) -> None:
    ruled.script("tools/tool", "echo $0 $1 > $STAYER_RESULT")
    tools = ruled.home / "tools"
    (tools / "shell").symlink_to("/bin/sh")
    attack = ("-c", f"touch {ruled.proof}")
    ups = "../" * len(tools.parts)
    ruled.add("dots", command=(f"{tools}/{ups}bin/sh", *attack))
    ruled.add("link", command=(f"{tools}/shell", *attack))
    ruled.add("a", command=(f"{tools}/tool", "word"))
    ruled.start("--allow-command", f"{tools}/*", "--slots", "3")
    assert ruled.until_ended("a").result == f"{tools}/tool word"
    ruled.until_refused("link", "is a link to")
    assert ruled.get("dots").state == "pending"
    assert "no worker of queue default can run" in ruled.reasons("dots")
    assert not ruled.proof.exists()


def test_an_environment_of_python_is_known_by_its_link(ruled: Ruled) -> None:
    venv = ruled.home / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    code = "import os, sys; open(os.environ['STAYER_RESULT'], 'w').write(sys.prefix)"
    ruled.add("whole", command=(f"{venv}/bin/python", "-c", code))
    ruled.add("name", command=("python", "-c", code))
    ruled.start(
        "--allow-command", f"{venv}/bin/python", "--allow-command", "python",
        PATH=f"{venv}/bin:/usr/bin:/bin",
    )  # fmt: skip
    assert [ruled.until_ended(id).result for id in ("whole", "name")] == [str(venv)] * 2


def test_a_program_that_is_allowed_but_not_here_fails_the_task(ruled: Ruled) -> None:
    ruled.add("a", command=("no-such-program",))
    ruled.start("--allow-command", "no-such-program")
    task = ruled.until_ended("a")
    assert task.error is not None
    assert (task.state, task.error.type, task.error.exit_code) == ("failed", "NotStarted", 127)
    assert "can't run no-such-program: No such file" in task.error.message


# What the store says


def betray(ruled: Ruled, words: list[str], state: str = "reserved") -> None:
    """Let the database give a command to whoever takes a task, as one who may write to it can."""
    with sqlite3.connect(ruled.folder / "stayer.db") as database:
        database.execute(
            f"CREATE TRIGGER evil AFTER UPDATE OF state ON stayer_tasks "
            f"WHEN new.state = '{state}' AND new.id = 'x' BEGIN UPDATE stayer_tasks "
            f"SET command = '{json.dumps(words)}', name = NULL WHERE seq = new.seq; END"
        )
    database.close()


def test_a_worker_does_not_believe_the_store_what_it_may_run(ruled: Ruled) -> None:
    ruled.script("job", "echo $1 > $STAYER_RESULT")
    betray(ruled, ["touch", str(ruled.proof)])
    ruled.add("x")
    ruled.add("y")
    ruled.start("--exec", "./job", "--slots", "2")
    assert ruled.until_ended("y").result == "y"
    task = ruled.until_refused("x", "nothing here runs touch")
    assert (task.failures, task.interruptions) == (0, 0)
    assert not list((ruled.folder / "one" / "run").glob("x.*"))
    assert not ruled.proof.exists()


def test_a_worker_does_not_believe_a_lane_of_redis_either(tmp_path: Path) -> None:
    with (
        serving(redis_binary()) as server,
        closing(Ruled(tmp_path.resolve(), server.url())) as ruled,
    ):
        ruled.script("job", "echo $1 > $STAYER_RESULT")
        ruled.add("x", command=("touch", str(ruled.proof)))
        store = ruled.store
        assert isinstance(store, RedisStore)
        lanes = f"{store._server.address.prefix}:{{default}}:lane"
        store._server.ask("RENAME", f"{lanes}:command touch", f"{lanes}:")
        store._server.ask("SADD", f"{lanes}s", "")
        ruled.start("--exec", "./job")
        ruled.until_refused("x", "nothing here runs touch")
        ruled.add("y")
        assert ruled.until_ended("y").result == "y"
        assert not ruled.proof.exists()


def test_threads_run_the_functions_of_their_app_and_nothing_else(ruled: Ruled) -> None:
    (ruled.home / "jobs.py").write_text(
        "import stayer\napp = stayer.App()\n@app.task(name='f')\ndef f() -> str:\n    return 'f'\n"
    )
    betray(ruled, ["touch", str(ruled.proof)])
    ruled.add("x", name="f")
    ruled.add("env", name="f", env={"A": "b"})
    ruled.add("y", name="f")
    ruled.start("--app", "jobs", "--threads", "2")
    assert ruled.until_ended("y").result == "f"
    ruled.until_refused("env", "brings along A", "threads")
    assert "lets tasks set A" in ruled.reasons("env")
    ruled.until_refused("x", "nothing here runs touch")
    assert not ruled.proof.exists()


@pytest.mark.parametrize("threads", [False, True])
def test_a_worker_runs_nothing_of_queues_that_are_not_its_own(ruled: Ruled, threads: bool) -> None:
    """Which queue it is decides as whom it runs."""
    (ruled.home / "jobs.py").write_text(
        "import pathlib, stayer\napp = stayer.App()\n@app.task(name='f')\n"
        f"def f() -> None:\n    pathlib.Path({str(ruled.proof)!r}).touch()\n"
    )
    with closing(sqlite3.connect(ruled.folder / "stayer.db")) as database:
        database.execute(
            "CREATE TRIGGER evil AFTER UPDATE OF state ON stayer_tasks WHEN new.state = 'reserved' "
            "BEGIN UPDATE stayer_tasks SET queue = 'other' WHERE seq = new.seq; END"
        )
    ruled.add("x", name="f", tags=("read in full",))
    ruled.start("--app", "jobs", *(("--threads", "2") if threads else ()))
    ruled.until_refused("x", "queue other")
    assert not ruled.proof.exists()


def test_only_a_command_says_where_it_runs(ruled: Ruled) -> None:
    """In a row written by hand any task can have a directory, with a module of its own in it."""
    evil = ruled.folder / "evil"
    evil.mkdir()
    good = "import stayer\napp = stayer.App()\n@app.task(name='f')\ndef f() -> str:\n    {}\n"
    (ruled.home / "jobs.py").write_text(good.format("return 'good'"))
    (evil / "jobs.py").write_text(good.format("return 'evil'"))
    ruled.script("job", "echo good > $STAYER_RESULT")
    (evil / "job").write_text(f"#!/bin/sh\ntouch {ruled.proof}")
    (evil / "job").chmod(0o755)
    ruled.add("x", name="f", cwd=str(evil))
    ruled.add("y", cwd=str(evil))
    ruled.start("--app", "jobs", "--exec", "./job")
    assert [ruled.until_ended(id).result for id in ("x", "y")] == ["good", "good"]
    assert not ruled.proof.exists()


# Ids


def test_an_id_is_never_an_option_of_the_program(ruled: Ruled) -> None:
    """Such tasks may be there from before: they can be seen and cancelled."""
    ruled.script("job", f'[[ "$@" == *-I* ]] && touch {ruled.proof}', "echo $@ > $STAYER_RESULT")
    ruled.add("-Itouch")
    ruled.add("plain")
    worker = ruled.start("--exec", "./job now")
    assert ruled.until_ended("plain").result == "now plain"
    ruled.until_refused("-Itouch", "an option of ./job")
    assert control.cancel(ruled.store, "-Itouch").state == "cancelled"
    ruled.stop(worker)
    ruled.add("again")
    ruled.add("../$(id)")
    worker = ruled.start("--exec", "./job --id={id} of {id}.json")
    assert ruled.until_ended("again").result == "--id=again of again.json"
    ruled.until_refused("../$(id)", "is not fit for a place within a word")
    ruled.stop(worker)
    control.cancel(ruled.store, "../$(id)")
    ruled.add("../$(date)")
    ruled.start("--exec", "./job {id} now")
    assert ruled.until_ended("../$(date)").result == "../$(date) now"
    assert not ruled.proof.exists()


# Names


def test_the_name_of_a_function_is_no_pattern(ruled: Ruled) -> None:
    (ruled.home / "jobs.py").write_text(
        "import stayer\napp = stayer.App()\n"
        "for name in ('x[1]', 'star*', 'what?'):\n"
        "    app.task(name=name)(lambda name=name: name)\n"
    )
    names = ("x[1]", "star*", "what?")
    for id, name in enumerate(names):
        ruled.add(f"t{id}", name=name)
    for name in ("starfish", "x1", "whatX"):
        ruled.add(name, name=name)
    for mode in ((), ("--threads", "2")):
        worker = ruled.start("--app", "jobs", *mode, name=f"one{len(mode)}")
        for id, name in enumerate(names):
            assert ruled.until_ended(f"t{id}").result == name
        ruled.stop(worker)
        for id, _ in enumerate(names):
            edit_control.retry(ruled.store, f"t{id}")
    assert {ruled.get(id).attempt for id in ("starfish", "x1", "whatX")} == {0}


# A handler that is gone


def test_a_program_that_is_gone_is_the_trouble_of_the_worker(ruled: Ruled) -> None:
    job = ruled.script("job", "echo done > $STAYER_RESULT")
    ruled.start("--exec", "./job")
    ruled.add("before")
    assert ruled.until_ended("before").result == "done"
    for broken in (job.unlink, partial(job.write_text, "#!/no/such/interpreter\n")):
        broken()
        ruled.add("a") if ruled.store.get(["a"])[0] is None else None
        seen = ruled.get("a").interruptions
        until(partial(_more_interruptions, ruled, seen), "for it to be handed back")
        assert (ruled.get("a").failures, ruled.get("a").error) == (0, None)
    assert "takes no more for" in ruled.log_of().read_text()
    ruled.script("job", "echo done > $STAYER_RESULT")
    assert ruled.until_ended("a").result == "done"


def _more_interruptions(ruled: Ruled, seen: int) -> bool:
    return ruled.get("a").interruptions > seen


@pytest.mark.parametrize("kind", ["--run", "--app"])
def test_code_that_can_not_be_loaded_any_more_is_the_trouble_of_the_worker(
    ruled: Ruled, kind: str
) -> None:
    file = ruled.home / "jobs.py"
    good = (
        "import stayer\napp = stayer.App()\n@app.task(name='f')\ndef f() -> str:\n    return 'f'\n"
        "class Run:\n    def __init__(self, task): pass\n    def run(self): return 'f'\n"
    )
    file.write_text(good)
    ruled.start(kind, "jobs.py" if kind == "--run" else "jobs")
    until(lambda: "takes tasks" in ruled.log_of().read_text(), "for the worker")
    file.write_text("raise RuntimeError('a bad deployment')")
    ruled.add("a", name=None if kind == "--run" else "f")
    until(lambda: ruled.get("a").interruptions >= 2, "for it to be handed back")
    assert (ruled.get("a").failures, ruled.get("a").error) == (0, None)
    notes = [each.note or "" for each in ruled.store.events("a")]
    assert any("a bad deployment" in note for note in notes)
    file.write_text(good)
    assert ruled.until_ended("a").result == "f"


def test_what_a_task_itself_can_not_import_is_its_failure(ruled: Ruled) -> None:
    (ruled.home / "jobs.py").write_text(
        "class Run:\n    def __init__(self, task): pass\n    def run(self): import no_such_module\n"
    )
    ruled.add("a")
    ruled.start("--run", "jobs.py")
    task = ruled.until_ended("a")
    assert task.error is not None
    assert (task.state, task.error.type) == ("failed", "ModuleNotFoundError")


def test_a_program_is_not_believed_that_it_was_never_loaded(ruled: Ruled) -> None:
    """It would run again and again, and nobody would count it."""
    ruled.script("job", """echo '{"not_loaded": true}' > "$STAYER_DIR/error"; exit 1""")
    ruled.start("--exec", "./job")
    ruled.add("a")
    until(lambda: ruled.get("a").state == "failed" or ruled.get("a").interruptions)
    assert (ruled.get("a").state, ruled.get("a").attempt) == ("failed", 1)


def test_nor_is_the_code_of_a_task_for_ever(ruled: Ruled) -> None:
    run = ruled.folder / "one" / "run" / "a.1"
    ruled.add("a", name="f")
    [task] = ruled.store.get(["a"])
    assert task is not None
    (run / "task").mkdir(parents=True)
    for signal_number, times, believed in ((10, 0, True), (10, 1_000, False), (None, 0, False)):
        about = {"keeper": {"stack_signal": signal_number}}
        (run / "task.json").write_text(json.dumps(about))
        held = HeldAttempt(replace(task, interruptions=times), Run(run))
        assert held.loads_code == believed
