"""What was said of a task, and what its queue may still say."""

from __future__ import annotations

import msgspec

from stayer.core.model import Code, NewTask, Policy, SentFile
from stayer.core.submit.checks import new_task, submission_json
from stayer.core.submit.defaults import with_defaults
from stayer.core.submit.json import parse_submission


def _through_json(new: NewTask) -> NewTask:
    written = msgspec.json.encode(submission_json(new))
    return new_task(**parse_submission(written, "it"))


def test_what_was_said_is_said_through_json_too() -> None:
    defaults = '{"retries":3,"retry_wait":60.0,"grace":5.0}'
    for options, policy in (
        ({}, Policy(retries=3, retry_wait=60.0, grace=5.0)),
        ({"retries": 0}, Policy(retry_wait=60.0, grace=5.0)),
        ({"retries": 5}, Policy(retries=5, retry_wait=60.0, grace=5.0)),
        ({"retries": 5, "retry_wait": 10.0}, Policy(retries=5, retry_wait=10.0, grace=5.0)),
        ({"retry_wait": 0.0, "grace": 1.0}, Policy(retries=3, grace=1.0)),
    ):
        new = new_task(queue="q", id="a", **options)
        for each in (new, _through_json(new)):
            assert with_defaults(each, defaults).policy == policy, options


def test_defaults_that_cannot_be_read_are_none() -> None:
    new = new_task(queue="q", id="a")
    for text in ("", "{", "[]", '{"retries": "many"}'):
        assert with_defaults(new, text) == new


def test_files_that_come_along_get_the_code_of_the_queue() -> None:
    """They say what is to be there besides, not what the task needs installed."""
    defaults = '{"code": {"requirements": ["numpy"], "python": "3.12"}}'
    files = (SentFile("train.py", "0" * 64, 3),)

    for own, both in (
        (None, Code(("numpy",), "3.12")),
        (Code(files=files), Code(("numpy",), "3.12", files=files)),
        (Code(("rich",), files=files), Code(("rich",), files=files)),
        (Code(python="3.11"), Code(python="3.11")),
        (Code(image="python:3.12"), Code(image="python:3.12")),
    ):
        assert (
            with_defaults(new_task(queue="q", command=("true",), code=own), defaults).code == both
        )
