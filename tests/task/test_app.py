"""`--app MODULE[:app]`: functions of an app."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.task.rig import APP, PATIENCE, Rig


def test_the_function_is_called_by_name_with_its_arguments(rig: Rig) -> None:
    source = """
        @app.task
        def add(a: int, b: int = 2) -> int:
            return a + b
    """
    assert rig.run_app(source, "add", {"a": 40}).result == 42


def test_an_annotated_parameter_receives_the_task(rig: Rig) -> None:
    source = """
        @app.task
        def tell(task: Context, n: int, again: Context) -> list:
            return [task.id, n, again is task is stayer.current_task()]
    """
    assert rig.run_app(source, "tell", {"n": 3}).result == ["task", 3, True]


def test_a_function_may_be_asynchronous(rig: Rig) -> None:
    source = """
        import asyncio
        @app.task
        async def add(task: Context, a: int) -> int:
            await asyncio.sleep(0)
            return a + task.attempt
    """
    assert rig.run_app(source, "add", {"a": 1}).result == 2


def test_hooks_of_the_app_surround_each_task(rig: Rig) -> None:
    source = """
        @app.before
        def connect(task: Context): print("before", task.id)
        @app.after
        def count(task: Context): print("after 1")
        @app.after
        def disconnect(task: Context): print("after 2")
        @app.task
        def fail(): print("run"); raise ValueError("broken")
    """
    ended = rig.run_app(source, "fail")
    assert ended.error["type"] == "ValueError"
    assert ended.log.splitlines()[:4] == ["before task", "run", "after 2", "after 1"]


def test_the_app_may_have_another_name(rig: Rig) -> None:
    rig.write("jobs.py", APP.replace("app =", "mine =") + "@mine.task(name='f')\ndef f(): return 1")
    assert rig.run("app", "jobs", name="f").result == 1
    assert rig.run("app", "jobs:mine", name="f").result == 1
    error = rig.run("app", "jobs:yours", name="f").error
    assert (error["type"], error["message"]) == ("ImportError", "jobs has no App called yours")


def test_a_module_that_is_not_there_is_told_without_a_detour(rig: Rig) -> None:
    error = rig.run("app", "nowhere_at_all", name="f").error
    said = f"No module named 'nowhere_at_all' (looked in {rig.code} first)"
    assert error["message"] == f"nowhere_at_all can't be imported: ModuleNotFoundError: {said}"
    assert "File" not in error["traceback"]


def test_a_task_that_is_not_in_the_app_fails(rig: Rig) -> None:
    error = rig.run_app("", "missing").error
    assert error["type"] == "stayer.core.errors.BadInput"
    assert "'jobs.missing' is not in this app" in error["message"]


def names(folder: Path, target: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stayer.task", "names", target]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def test_names_are_the_last_line_whatever_the_module_does(rig: Rig) -> None:
    rig.write(
        "jobs.py",
        APP
        + """
import atexit, threading
print("loading", end="")
atexit.register(print, "goodbye")
threading.Thread(target=threading.Event().wait).start()
@app.task
def one(): ...
@app.task(name="second")
def two(): ...
""",
    )
    done = names(rig.code, "jobs")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert (said["names"], said["schedules"]) == (["jobs.one", "second"], [])


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("x = 1", "jobs has no App: call it app"),
        ("def (", "SyntaxError"),
    ],
)
def test_an_app_that_can_not_be_loaded_says_why_on_the_last_line(
    rig: Rig, source: str, complaint: str
) -> None:
    rig.write("jobs.py", source)
    done = names(rig.code, "jobs")
    assert done.returncode == 1
    assert complaint in done.stderr.splitlines()[-1]


def test_a_file_instead_of_a_module_is_told(rig: Rig) -> None:
    rig.write("jobs.py", APP)
    done = names(rig.code, "./jobs.py")
    assert "such as jobs," in done.stderr.splitlines()[-1]
