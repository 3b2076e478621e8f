"""SIGTERM, and the signal that shows the stacks."""

from __future__ import annotations

import os
import signal
import subprocess
import textwrap

from stayer.task.stack_dump import STACK_SIGNAL
from tests.task.rig import APP, Rig


def started(process: subprocess.Popen[str], line: str = "ready\n") -> None:
    """Wait until it says so."""
    assert process.stdout is not None
    assert process.stdout.readline() == line


def start_app(rig: Rig, source: str, name: str) -> subprocess.Popen[str]:
    rig.write("jobs.py", APP + textwrap.dedent(source))
    process = rig.start("app", "jobs", name=f"jobs.{name}")
    started(process)
    return process


def test_a_function_is_stopped_by_an_exception_that_nobody_swallows(rig: Rig) -> None:
    process = start_app(rig, """
        import time
        @app.task
        def wait(task: Context):
            try:
                print("ready")
                while True:
                    try:
                        time.sleep(1000)
                    except Exception:
                        print("swallowed")
            except stayer.Stopped:
                task.checkpoint({"cancelled": task.cancelled})
                raise
            finally:
                print("cleaned up")
    """, "wait")  # fmt: skip
    process.terminate()
    ended = rig.end(process)
    assert ended.code == -signal.SIGTERM
    assert ended.log == "cleaned up\nstayer: stopped by SIGTERM\n"
    assert (ended.folder / "checkpoint").read_bytes() == b'{"cancelled":true}'
    assert not (ended.folder / "error").exists()


def test_what_is_to_happen_at_exit_still_happens(rig: Rig) -> None:
    process = start_app(rig, """
        import atexit, time
        @app.task
        def wait():
            atexit.register(print, "goodbye")
            print("ready")
            time.sleep(1000)
    """, "wait")  # fmt: skip
    process.terminate()
    assert rig.end(process).log.endswith("goodbye\n")


def test_cleaning_up_is_not_disturbed_by_the_next_signal(rig: Rig) -> None:
    process = start_app(rig, """
        import os, signal, time
        @app.task
        def wait():
            try:
                print("ready")
                time.sleep(1000)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                print("cleaned up")
    """, "wait")  # fmt: skip
    process.terminate()
    assert "cleaned up" in rig.end(process).log


def test_a_stop_that_was_swallowed_is_tried_again(rig: Rig) -> None:
    process = start_app(rig, """
        import time
        @app.task
        def wait():
            try:
                print("ready")
                time.sleep(1000)
            except BaseException:
                pass
            print("swallowed")
            time.sleep(1000)
    """, "wait")  # fmt: skip
    process.terminate()
    started(process, "swallowed\n")
    process.terminate()
    assert rig.end(process).code == -signal.SIGTERM


def test_a_result_that_is_returned_all_the_same_counts(rig: Rig) -> None:
    process = start_app(rig, """
        import time
        @app.task
        def wait() -> str:
            try:
                print("ready")
                time.sleep(1000)
            except stayer.Stopped:
                return "as far as it got"
    """, "wait")  # fmt: skip
    process.terminate()
    assert rig.end(process).result == "as far as it got"


def test_a_coroutine_is_cancelled(rig: Rig) -> None:
    process = start_app(rig, """
        import asyncio
        @app.task
        async def wait():
            try:
                print("ready")
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(0)
                print("cleaned up")
    """, "wait")  # fmt: skip
    process.terminate()
    ended = rig.end(process)
    assert ended.code == -signal.SIGTERM
    assert "cleaned up" in ended.log


def test_the_kill_of_a_class_is_called_each_time_in_the_main_thread_and_not_within_itself(
    rig: Rig,
) -> None:
    path = rig.write("work.py", """
        import os, signal, threading
        class Run:
            def __init__(self, task):
                self.task = task
                self.kills = []
            def run(self):
                print("ready")
                while self.task.sleep(1000):
                    pass
                os.kill(os.getpid(), signal.SIGTERM)
                return [self.kills, self.task.cancelled]
            def kill(self):
                os.kill(os.getpid(), signal.SIGTERM)
                self.kills.append(threading.current_thread() is threading.main_thread())
    """)  # fmt: skip
    process = rig.start("class", path)
    started(process)
    process.terminate()
    assert rig.end(process).result == [[True, True], True]


def test_a_class_without_kill_is_stopped_by_the_exception(rig: Rig) -> None:
    path = rig.write("work.py", """
        import time
        class Run:
            def __init__(self, task): ...
            def run(self): print("ready"); time.sleep(1000)
            def after(self): print("after")
    """)  # fmt: skip
    process = rig.start("class", path)
    started(process)
    process.terminate()
    ended = rig.end(process)
    assert (ended.code, ended.log.splitlines()[0]) == (-signal.SIGTERM, "after")


def test_threads_may_look_whether_to_stop(rig: Rig) -> None:
    process = start_app(rig, """
        import threading
        @app.task
        def wait(task: Context):
            task.on_stop(lambda: None)
            def work():
                print("ready")
                while not task.cancelled:
                    task.sleep(0.01)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            return "stopped by itself"
    """, "wait")  # fmt: skip
    process.terminate()
    assert rig.end(process).result == "stopped by itself"


def test_forked_helpers_die_of_the_signal_as_usual(rig: Rig) -> None:
    ended = rig.run_class("""
        import multiprocessing, signal, time
        def wait(pipe):
            pipe.send("ready")
            try:
                time.sleep(1000)
            finally:
                print("the helper was told to clean up")
        class Run:
            def __init__(self, task): ...
            def run(self):
                fork = multiprocessing.get_context("fork")
                here, there = fork.Pipe()
                helper = fork.Process(target=wait, args=[there])
                helper.start()
                here.recv()
                helper.terminate()
                helper.join()
                return helper.exitcode
    """)
    assert (ended.result, ended.log) == (-signal.SIGTERM, "")


def test_an_interrupt_ends_it_by_that_signal(rig: Rig) -> None:
    process = start_app(rig, """
        import time
        @app.task
        def wait(): print("ready"); time.sleep(1000)
    """, "wait")  # fmt: skip
    process.send_signal(signal.SIGINT)
    assert rig.end(process).code == -signal.SIGINT


def test_the_stack_signal_shows_all_threads_and_harms_nothing(rig: Rig) -> None:
    os.mkfifo(rig.code / "fifo")
    process = start_app(rig, """
        import threading
        @app.task
        def wait():
            event = threading.Event()
            def look_here():
                print("ready")
                event.wait()
            threading.Thread(target=look_here).start()
            blocked_here()
            event.set()
        def blocked_here():
            open("fifo").read()
    """, "wait")  # fmt: skip
    lines: list[str] = []
    with open(rig.code / "fifo", "w"):  # which waits until the task has opened it
        process.send_signal(STACK_SIGNAL)
        assert process.stdout is not None
        while not lines or "<frozen runpy>" not in lines[-1]:
            lines.append(process.stdout.readline())
    ended = rig.end(process)
    assert ended.result is None
    shown = "".join(lines) + ended.log
    assert "in look_here" in shown
    assert "in blocked_here" in shown


def test_the_stack_signal_harms_no_process_that_does_not_know_it(rig: Rig) -> None:
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    process.send_signal(STACK_SIGNAL)
    process.communicate()
    assert process.returncode == 0


def test_a_crash_of_the_interpreter_shows_where_it_was(rig: Rig) -> None:
    ended = rig.run_class("""
        import ctypes
        class Run:
            def __init__(self, task): ...
            def run(self): ctypes.string_at(0)
    """)
    assert ended.code == -signal.SIGSEGV
    assert "work.py" in ended.log
