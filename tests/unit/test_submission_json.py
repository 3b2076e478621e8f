"""A task that is written as a submission is the same task when it is read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stayer.core.model import Task
from stayer.core.submit import checks
from stayer.core.submit.edits import Edits, make_clone
from stayer.core.submit.json import parse_submission

POLICIES: list[dict[str, Any]] = [
    {}, {"retries": 3}, {"retries": 3, "retry_wait": 0.0}, {"retries": 3, "retry_wait": 7.0},
    {"time_limit": 5.0, "when_failed": "run"},
]  # fmt: skip


@pytest.mark.parametrize("fields", POLICIES)
def test_a_policy_comes_back_as_it_was(fields: dict[str, Any]) -> None:
    new = checks.new_task(queue="q", id="t", **fields)
    written = msgspec.json.encode(checks.submission_json(new))
    assert checks.new_task(**parse_submission(written, "it")).policy == new.policy


@pytest.mark.parametrize("fields", POLICIES)
def test_a_clone_has_the_policy_of_its_task(fields: dict[str, Any]) -> None:
    policy = checks.new_task(queue="q", id="t", **fields).policy
    clone = make_clone(Task("t", "q", policy=policy), Edits(), (), owner=None, now=0.0)
    assert clone.policy == policy
