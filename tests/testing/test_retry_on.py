"""Retries by the class of an error: classes, subclasses, and words that are nearly right."""

from __future__ import annotations

import subprocess
import warnings
from typing import Any

import pytest

from stayer import App, testing
from stayer.core.happenings import Fail
from stayer.core.lifecycle import decide
from stayer.core.model import Policy, Task
from stayer.task import outcome_files
from stayer.task.context import Context
from stayer.worker.outcome import outcome


class Busy(ConnectionError):
    """An error of somebody's own."""


def tries(error: type[Exception], **options: Any) -> int:
    app = App("memory:")

    @app.task(name="raises", retries=1, **options)
    def raises() -> None:
        raise error

    with testing.store(app) as store:
        raises.submit()
        return len(store.drain(check=False))


@pytest.mark.parametrize(
    ("error", "options", "expected"),
    [
        (ConnectionResetError, {"retry_on": ["OSError"]}, 2),
        (ConnectionResetError, {"retry_on": [OSError, KeyError]}, 2),
        (Busy, {"retry_on": [ConnectionError]}, 2),
        (Busy, {"retry_on": [Busy]}, 2),
        (Busy, {"retry_on": ["Busy"]}, 2),
        (Busy, {"retry_on": Busy}, 2),
        (Busy, {"retry_on": [subprocess.SubprocessError]}, 1),
        (ValueError, {"retry_on": [OSError]}, 1),
        (Busy, {"give_up_on": [OSError]}, 1),
        (KeyError, {"give_up_on": ["OSError"]}, 2),
    ],
)
def test_an_error_is_one_of_its_bases(
    error: type[Exception], options: dict[str, Any], expected: int
) -> None:
    assert tries(error, **options) == expected


def test_what_a_process_writes_of_an_error_names_its_bases(tmp_path: Any) -> None:
    import json

    context = Context.for_test(folder=tmp_path)
    outcome_files.fail(context, Busy("later"))
    written = json.loads((tmp_path / "error").read_text())
    happening = outcome({"exit_code": 1}, written, "")
    assert isinstance(happening, Fail)
    assert happening.bases == ("ConnectionError", "OSError", "Exception")
    task = Task(
        id="t", queue="q", state="started", worker="w", attempt=1,
        policy=Policy(retries=1, retry_on=("OSError",)),
    )  # fmt: skip
    assert decide(task, happening).to == "pending"


@pytest.mark.parametrize("bases", [None, "OSError", [1, {}], ["x" * 10_000] * 1000])
def test_what_is_written_there_may_be_anything(bases: object) -> None:
    assert isinstance(outcome({"exit_code": 1}, {"type": "X", "bases": bases}, ""), Fail)


@pytest.mark.parametrize(
    ("word", "meant"), [("OsError", "OSError"), ("ConectionError", "ConnectionError")]
)
def test_a_word_that_is_nearly_a_built_in_error_is_warned_of(word: str, meant: str) -> None:
    with pytest.warns(UserWarning, match=f"called {word}: did you mean {meant}"):
        App("memory:").task(name="f", retry_on=[word])(lambda: None)


@pytest.mark.parametrize("word", ["Busy", "oom", "Connection*", "ValidationError", "mine.OsError"])
def test_other_words_are_not(word: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        App("memory:").task(name="f", retry_on=[word])(lambda: None)
