"""Context: what a task says and hears, without a worker."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import stayer
from stayer import BadInput, Context
from tests.task.rig import PATIENCE, Rig


def test_outside_of_a_task_there_is_no_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STAYER_DIR", raising=False)
    assert stayer.current_task() is None
    monkeypatch.setenv("STAYER_DIR", "/nowhere")
    assert stayer.current_task() is None


def test_any_program_within_a_task_finds_it(rig: Rig) -> None:
    code = "import stayer; task = stayer.current_task(); task.progress(1, 2); print(task.id)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=rig.prepare(), capture_output=True, text=True,
        check=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.stdout == "task\n"
    assert (rig.folder / "report").read_text() == '{"done": 1, "total": 2}\n'


def test_a_test_may_enter_a_context() -> None:
    with Context.for_test({"n": 1}, id="mine", attempt=3) as task:
        assert stayer.current_task() is task
        assert (task.id, task.parameters, task.attempt) == ("mine", {"n": 1}, 3)
        folder = task.folder
    assert stayer.current_task() is None
    del task
    assert not folder.exists()


def test_steps_are_done_once_in_the_life_of_a_task(tmp_path: Path) -> None:
    calls = []

    def fetch(n: int) -> tuple[int, int]:
        calls.append(n)
        return n, 2 * n

    first = Context.for_test(folder=tmp_path)
    assert first.step("fetch", fetch, 1) == [1, 2]  # type: ignore[comparison-overlap]
    first.checkpoint({"epoch": 3})
    assert first.step("draw", bytes, 3) == b"\0\0\0"

    second = Context.for_test(folder=tmp_path, attempt=2)
    assert second.restore() == {"epoch": 3}
    assert second.step("fetch", fetch, 1) == [1, 2]  # type: ignore[comparison-overlap]
    assert second.step("draw", bytes, 3) == b"\0\0\0"
    assert second.step("nothing", lambda: None) is None
    assert calls == [1]


def test_a_name_of_a_step_that_comes_twice_is_told(tmp_path: Path) -> None:
    task = Context.for_test(folder=tmp_path)
    task.step("encode", int)
    with pytest.raises(BadInput, match=r'give each step its own, such as f"encode {number}"'):
        task.step("encode", int)


def test_a_step_that_failed_may_be_tried_again(tmp_path: Path) -> None:
    task = Context.for_test(folder=tmp_path)
    with pytest.raises(ValueError, match="invalid literal"):
        task.step("parse", int, "x")
    assert task.step("parse", int, "7") == 7


def test_a_step_that_can_not_be_remembered_is_not_wasted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task = Context.for_test(folder=tmp_path)
    result = task.step("look", lambda: {1, 2})
    assert result == {1, 2}
    assert "the result of step 'look' is a set" in caplog.text
    assert "done again in a next attempt" in caplog.text


def test_the_log_goes_to_stderr_with_the_time(rig: Rig) -> None:
    ended = rig.run_class("""
        class Run:
            def __init__(self, task): self.task = task
            def run(self): self.task.log.info("epoch %d", 3)
    """)
    assert ended.log[:2] == "20"
    assert ended.log.endswith(" INFO epoch 3\n")


def test_a_program_that_has_set_up_logging_keeps_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        Context.for_test().log.info("hello")
    assert caplog.messages == ["hello"]


def test_sleep_ends_when_the_task_must_stop() -> None:
    task = Context.for_test()
    assert task.sleep(0.001) is True
    sleeper = threading.Thread(target=task.sleep, args=[PATIENCE])
    sleeper.start()
    task.request_stop()
    sleeper.join(PATIENCE / 2)
    assert not sleeper.is_alive()
    assert task.cancelled
    assert task.sleep(PATIENCE) is False


def test_a_record_is_whole(rig: Rig) -> None:
    environment = rig.prepare([1, None])
    code = "import stayer; print(stayer.current_task().record)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True,
        check=True, timeout=PATIENCE,
    )  # fmt: skip
    for word in ("parameters=[1, None]", "tags=('x',)", "created=1700000000.5", "attempt=1"):
        assert word in done.stdout


def test_a_task_file_that_can_not_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAYER_DIR", str(tmp_path))
    for content in (None, "", "{}", '{"task": {"id": 1}}'):
        if content is not None:
            (tmp_path / "task.json").write_text(content)
        with pytest.raises(BadInput, match=r"task\.json can't be read"):
            Context.from_environment()


def test_forked_helpers_report_too(rig: Rig) -> None:
    environment = rig.prepare()
    code = """
import os, stayer
task = stayer.current_task()
task.progress(1, 3)
task.progress(2, 3)
if os.fork() == 0:
    task.progress(3, 3)
    os._exit(0)
os.wait()
"""
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=PATIENCE)
    lines = (rig.folder / "report").read_text().splitlines()
    assert set(lines) == {f'{{"done": {number}, "total": 3}}' for number in (1, 2, 3)}


def test_the_files_are_where_the_variables_say(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in rig.prepare().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("STAYER_CHECKPOINT", str(tmp_path / "elsewhere"))
    Context.from_environment().checkpoint(b"\xff")
    assert os.listdir(tmp_path / "run" / "task.1") == ["task.json"]
    assert (tmp_path / "elsewhere").read_bytes() == b"\xff"


def test_a_script_sets_its_result(rig: Rig) -> None:
    code = "import stayer; stayer.current_task().set_result({'loss': 0.5})"
    subprocess.run([sys.executable, "-c", code], env=rig.prepare(), check=True, timeout=PATIENCE)
    assert (rig.folder / "result").read_bytes() == b'{"loss":0.5}'


def test_the_last_result_counts_and_none_takes_it_back(tmp_path: Path) -> None:
    task = Context.for_test(folder=tmp_path)
    task.set_result(1)
    task.set_result(b"\xff")
    assert (tmp_path / "result").read_bytes() == b"\xff"
    task.set_result(None)
    assert not (tmp_path / "result").exists()
    task.set_result(None)


def test_a_result_that_can_not_be_stored_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    task = Context.for_test(folder=tmp_path)
    task.set_result("kept")
    with pytest.raises(BadInput):
        task.set_result({1, 2})
    with pytest.raises(stayer.TooLarge):
        task.set_result("x" * 2_000_000)
    assert (tmp_path / "result").read_bytes() == b'"kept"'
