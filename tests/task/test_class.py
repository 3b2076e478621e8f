"""`--run FILE[:Class]`: a class in a file."""

from __future__ import annotations

import pytest

from tests.task.rig import Rig


def test_what_run_returns_is_the_result(rig: Rig) -> None:
    ended = rig.run_class(
        """
        class Run:
            def __init__(self, task):
                self.task = task

            def run(self):
                task = self.task
                return [task.parameters, task.id, task.attempt, task.queue, task.record.created]
        """,
        {"n": 1},
    )
    assert ended.result == [{"n": 1}, "task", 1, "q", 1_700_000_000.5]


def test_parameters_may_be_bytes(rig: Rig) -> None:
    source = """
        class Run:
            def __init__(self, task): self.data = task.parameters
            def run(self): return self.data[::-1]
    """
    assert rig.run_class(source, b"\x00\xff").result == b"\xff\x00"


def test_no_result_is_no_file(rig: Rig) -> None:
    ended = rig.run_class("class Run:\n def __init__(self, task): ...\n def run(self): ...")
    assert ended.result is None
    assert not (ended.folder / "result").exists()


@pytest.mark.parametrize("value", [b"", b"42", b'{"a": 1}'])
def test_bytes_that_look_like_json_stay_bytes(rig: Rig, value: bytes) -> None:
    source = f"class Run:\n def __init__(self, task): ...\n def run(self): return {value!r}"
    assert rig.run_class(source).result == value


SEVERAL = """
    class Base:
        def __init__(self, task): ...
        def run(self): return type(self).__name__
    class Other(Base): ...
"""


def test_a_class_may_be_named(rig: Rig) -> None:
    path = rig.write("work.py", SEVERAL)
    assert rig.run("class", f"{path}:Other").result == "Other"


def test_of_several_classes_one_must_be_named(rig: Rig) -> None:
    error = rig.run_class(SEVERAL).error
    assert error["type"] == "ImportError"
    assert "more than one class with a method `run` (Base, Other)" in error["message"]
    assert "work.py:Base" in error["message"]


def test_the_only_class_that_runs_needs_no_name(rig: Rig) -> None:
    rig.write("bases.py", SEVERAL)
    ended = rig.run_class("from bases import Base\nclass Mine(Base): ...\nclass Helper: ...")
    assert ended.result == "Mine"


def test_a_class_that_is_not_there_is_told(rig: Rig) -> None:
    path = rig.write("work.py", "")
    assert "no class with a method `run`: call it Run" in rig.run("class", path).error["message"]
    error = rig.run("class", f"{path}:Mine").error
    assert "no class with a method `run` called Mine" in error["message"]


def test_a_file_that_is_not_there_is_told(rig: Rig) -> None:
    error = rig.run("class", f"{rig.code}/nowhere.py:Run").error
    assert (error["type"], "nowhere.py" in error["message"]) == ("ImportError", True)


def test_the_file_is_imported_and_finds_its_neighbours(rig: Rig) -> None:
    rig.write("neighbour.py", "name = __name__")
    ended = rig.run_class("""
        import neighbour
        if __name__ == "__main__":
            raise AssertionError
        class Run:
            def __init__(self, task): ...
            def run(self):
                import work
                return [neighbour.name, __name__, work.Run is Run]
    """)
    assert ended.result == ["neighbour", "work", True]


def test_a_file_may_be_called_like_a_module_of_python(rig: Rig) -> None:
    path = rig.write("signal.py", SEVERAL)
    assert rig.run("class", f"{path}:Base").result == "Base"


def test_hooks_surround_the_run(rig: Rig) -> None:
    ended = rig.run_class("""
        class Run:
            def __init__(self, task): print("made")
            def before(self): print("before")
            def run(self): print("run"); raise ValueError("broken")
            def after(self): print("after")
    """)
    assert ended.error["message"] == "broken"
    assert ended.log.splitlines()[:4] == ["made", "before", "run", "after"]


def test_run_may_be_asynchronous(rig: Rig) -> None:
    ended = rig.run_class("""
        import asyncio
        class Run:
            def __init__(self, task): ...
            async def run(self):
                await asyncio.sleep(0)
                return 7
    """)
    assert ended.result == 7


def test_a_process_of_its_own_finds_the_class(rig: Rig) -> None:
    ended = rig.run_class("""
        import multiprocessing
        def double(n): return 2 * n
        class Run:
            def __init__(self, task): ...
            def run(self):
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    return pool.map(double, [1, 2])
    """)
    assert ended.result == [2, 4]
