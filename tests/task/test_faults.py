"""How a task's code may go wrong, and what is said of it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.task.rig import PATIENCE, Rig


def test_an_exception_is_told_from_where_the_users_code_begins(rig: Rig) -> None:
    ended = rig.run_class("""
        class Broken(Exception): ...
        class Run:
            def __init__(self, task): ...
            def run(self):
                try:
                    self.deeper()
                except ZeroDivisionError as error:
                    raise Broken("it is \\udcff broken") from error
            def deeper(self): return 1 / 0
    """)
    error = ended.error
    assert (error["type"], error["message"]) == ("work.Broken", "it is \\udcff broken")
    assert "in deeper" in error["traceback"]
    assert "direct cause" in error["traceback"]
    assert "stayer/runners" not in error["traceback"]
    assert error["traceback"] in ended.log


def test_what_stayer_itself_refuses_within_user_code_shows_the_call(rig: Rig) -> None:
    ended = rig.run_class("""
        class Run:
            def __init__(self, task): self.task = task
            def run(self): self.task.checkpoint({1, 2})
    """)
    assert "self.task.checkpoint({1, 2})" in ended.error["traceback"]
    assert "is a set" in ended.error["message"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def (", "SyntaxError: invalid syntax"),
        ("import sys; sys.exit()", "sys.exit(None) while it was imported"),
    ],
)
def test_code_that_can_not_be_imported_is_an_import_error(
    rig: Rig, source: str, message: str
) -> None:
    error = rig.run_class(source).error
    assert error["type"] == "ImportError"
    assert message in error["message"]
    assert "work.py" in error["traceback"]
    assert "importlib" not in error["traceback"]


@pytest.mark.parametrize(
    ("call", "code"),
    [("sys.exit()", 0), ("sys.exit(0)", 0), ("sys.exit(7)", 7), ("sys.exit(256)", 1)],
)
def test_an_exit_code_is_passed_on(rig: Rig, call: str, code: int) -> None:
    ended = rig.run_class(f"""
        import sys
        class Run:
            def __init__(self, task): ...
            def run(self): {call}
    """)
    assert ended.code == code, ended.log
    assert not (ended.folder / "error").exists()


def test_an_exit_with_words_is_a_failure_with_these(rig: Rig) -> None:
    ended = rig.run_class("""
        class Run:
            def __init__(self, task): ...
            def run(self): raise SystemExit("no such video")
    """)
    assert (ended.error["type"], ended.error["message"]) == ("SystemExit", "no such video")
    assert "no such video" in ended.log


RETURNS = "class Run:\n def __init__(self, task): ...\n def run(self): return "


def test_a_result_that_is_too_large_is_kept_as_json(rig: Rig) -> None:
    ended = rig.run_class(RETURNS + "['x' * 500_000] * 3")
    assert ended.error["type"] == "stayer.core.errors.TooLarge"
    assert "the limit is 1 MB" in ended.error["message"]
    assert str(ended.folder / "result.refused") in ended.error["message"]
    kept = json.loads((ended.folder / "result.refused").read_bytes())
    assert kept == ["x" * 500_000] * 3


def test_bytes_that_are_too_many_are_kept_as_they_are(rig: Rig) -> None:
    ended = rig.run_class(RETURNS + "b'x' * 1_000_001")
    assert ended.error["type"] == "stayer.core.errors.TooLarge"
    assert (ended.folder / "result.refused").read_bytes() == b"x" * 1_000_001


def test_a_result_that_json_can_not_say_is_kept_as_text(rig: Rig) -> None:
    ended = rig.run_class(RETURNS + "{'loss': float('nan')}")
    assert "['loss'] is nan, which JSON can't say" in ended.error["message"]
    assert (ended.folder / "result.refused").read_text() == "{'loss': nan}"
    assert "What was returned: {'loss': nan}" in ended.log


def test_the_result_of_a_function_is_kept_as_well(rig: Rig) -> None:
    source = """
        class Model:
            def __repr__(self): return "<Model with all its weights>"
        @app.task
        def train(): return Model()
    """
    ended = rig.run_app(source, "train")
    assert ended.error["type"] == "stayer.core.errors.BadResult"
    assert "JSON can't say what is of class Model" in ended.error["message"]
    assert (ended.folder / "result.refused").read_text() == "<Model with all its weights>"


def test_a_value_that_can_not_even_be_shown_is_still_a_clear_failure(rig: Rig) -> None:
    ended = rig.run_class("""
        class Odd:
            def __repr__(self): raise ValueError("no")
        class Run:
            def __init__(self, task): ...
            def run(self): return Odd()
    """)
    assert "is of class Odd" in ended.error["message"]


def test_what_is_printed_is_in_the_log_at_once(rig: Rig) -> None:
    path = rig.write("work.py", """
        import os
        class Run:
            def __init__(self, task): ...
            def run(self):
                print("half \\u2603 done")
                os._exit(3)
    """)  # fmt: skip
    ended = rig.run("class", path)
    assert (ended.code, ended.log) == (3, "half ☃ done\n")


@pytest.mark.parametrize("arguments", [["class", "x.py"], ["app", "x"]])
def test_outside_of_a_task_it_says_so(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stayer.task", *arguments],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 2
    assert "this is no task: STAYER_DIR" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["class"], ["frobnicate", "x"]])
def test_wrong_use_is_told(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stayer.task", *arguments],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 2
    assert "class FILE[:Class]" in done.stderr


def test_an_exception_that_can_not_be_changed_is_told_as_it_is(rig: Rig) -> None:
    source = """
        from dataclasses import dataclass
        @dataclass(frozen=True)
        class Frozen(Exception):
            number: int
        @app.task
        def work(): raise Frozen(3)
    """
    error = rig.run_app(source, "work").error
    assert (error["type"], error["message"]) == ("jobs.Frozen", "3")


@pytest.mark.parametrize("how", ["sys.stderr.close()", "sys.stdout.close(); sys.stderr.close()"])
def test_who_has_closed_the_log_is_still_heard(rig: Rig, how: str) -> None:
    ended = rig.run_class(f"""
        import sys
        class Run:
            def __init__(self, task): ...
            def run(self):
                {how}
                raise ValueError("out of cheese")
    """)
    assert (ended.error["type"], ended.error["message"]) == ("ValueError", "out of cheese")


def test_a_copy_that_comes_back_from_the_task_does_not_tell_the_result(rig: Rig) -> None:
    ended = rig.run_class("""
        import os
        class Run:
            def __init__(self, task): self.task = task
            def run(self):
                parent_told = os.path.exists
                child = os.fork()
                if child == 0:
                    return "child"
                os.waitpid(child, 0)
                assert not parent_told(self.task.result_path)
                return "parent"
    """)
    assert ended.result == "parent"
