"""The record as JSON is a promise: every command prints the same names, with these values."""

from __future__ import annotations

import re
from typing import Any

import pytest

from stayer.core import codec
from stayer.core.happenings import Fail
from stayer.core.model import Fault, Policy, Progress, Report, Task
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import apply, beat, started

RECORD = list(codec.record(Task("id", "queue")))
"""The names, in their order: `tests/unit/test_codec_json.py` has the promise."""
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def record(stayer: Here, store: Store, worker: str) -> dict[str, Any]:
    """Of a task that has something in almost every field."""
    task = started(
        store, id="t", command=("train", "-v"), cwd="/data", env={"SEED": "1"},
        parameters={"rate": 0.5}, priority=7, owner="ann", tags=("night",),
        policy=Policy(retries=2, time_limit=60.0, fence="kill"),
    )  # fmt: skip
    progress = Progress(done=1.0, total=4.0, message="epoch 1", at=1.0, remaining=9.5)
    beat(store, worker, 2, Report(id="t", attempt=task.attempt, progress=progress))
    fault = Fault("ValueError", "bad", "Traceback", exit_code=1)
    apply(store, task, Fail(fault))
    found = stayer("show", "t", "--json").works().json
    assert isinstance(found, dict)
    return found


def test_the_names_and_their_order_are_fixed(stayer: Here, record: dict[str, Any]) -> None:
    assert list(record) == [*RECORD, "statistics", "attempts", "events"]
    assert list(stayer("ls", "--json").json[0]) == RECORD
    assert list(stayer("add", "--json").json) == [*RECORD, "fresh"]
    assert list(stayer("cancel", "t", "--json").json[0]) == RECORD


def test_the_values_are_of_fixed_kinds(record: dict[str, Any]) -> None:
    assert TIME.fullmatch(record.pop("created"))
    assert TIME.fullmatch(record.pop("updated"))
    attempts, events = record.pop("attempts"), record.pop("events")
    statistics = record.pop("statistics")

    progress = record["progress"]
    assert TIME.fullmatch(progress.pop("at"))
    promised = {
        "id": "t", "queue": "q", "name": None, "command": ["train", "-v"], "cwd": "/data",
        "env": {"SEED": "1"}, "parameters": {"rate": 0.5}, "state": "pending", "held": False,
        "attempt": 1, "failures": 1, "interruptions": 0, "ending": "error", "priority": 7,
        "owner": "ann", "tags": ["night"], "result": None,
        "error": {
            "type": "ValueError", "message": "bad", "traceback": "Traceback", "exit_code": 1,
            "signal": None,
        },
        "progress": {"done": 1.0, "total": 4.0, "message": "epoch 1", "remaining": 9.5},
        "node": None, "worker": None, "pid": None, "eta": None, "started_at": None,
        "finished_at": None, "paused": False, "usage": None, "checkpoint_at": None,
        "orders": [], "key": None,
        "unique": None, "unique_while": "alive", "unique_for": 0.0, "notify": [],
        "fingerprint": None, "cloned_from": None, "code": None, "pinned": None, "retries": 2,
        "meta": None, "submitted_by": None, "source_commit": None,
        "metrics": None,
        "start_before": None, "flow": None, "part": None, "upstreams": 0, "when_failed": "cancel",
        "retry_wait": 0.0, "retry_backoff": 2.0, "retry_cap": 3600.0, "retry_on": [],
        "give_up_on": [],
        "time_limit": 60.0, "deadline": None, "finish_before": None,
        "silence_limit": None, "memory_limit": None, "grace": None, "fence": "kill",
        "time_growth": 1.0, "time_most": None, "memory_growth": 1.0, "memory_most": None,
        "near": None, "near_wait": None,
    }  # fmt: skip
    assert {name: record[name] for name in promised} == promised
    assert [list(attempt) for attempt in attempts] == [
        [
            "attempt", "worker", "node", "pid", "reserved_at", "started_at", "finished_at",
            "ending", "error", "usage",
        ]
    ]  # fmt: skip
    assert {tuple(event) for event in events} == {
        ("number", "at", "id", "queue", "event", "attempt", "worker", "note")
    }
    assert statistics["attempt"] == 1
