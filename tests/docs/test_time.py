"""What the pages about time say works."""

from __future__ import annotations

import json
from typing import Any

from tests.docs.pages import blocks
from tests.docs.reader import Reader


def test_schedules_are_made_and_looked_after(reader: Reader) -> None:
    found = blocks("how-to/schedules.md")
    for block in found:
        if block.language == "console":
            reader.follow(block)
    [task] = json.loads(reader.run("stayer ls --json"))
    assert task["command"] == ["make", "report"]
    assert json.loads(reader.run("stayer cron ls --json")) == []


def test_schedules_are_declared_in_a_file_and_an_app(reader: Reader) -> None:
    for block in blocks("how-to/schedules.md"):
        if block.language == "toml":
            (reader.folder / "stayer.toml").write_text(block.code)
        elif block.language == "python":
            reader.follow(block)
    worker = reader.start("-m", "stayer", "worker", "--app", "jobs")
    try:
        listed: list[dict[str, Any]] = []
        while len(listed) < 3:
            listed = json.loads(reader.run("stayer init >/dev/null && stayer cron ls --json"))
            assert worker.poll() is None
    finally:
        worker.kill()
        worker.wait()
    assert {each["name"]: each["task"]["queue"] for each in listed} == {
        "nightly": "reports", "mail": "default", "jobs.send_mail": "mail",
    }  # fmt: skip


def test_tasks_expire(reader: Reader) -> None:
    for block in blocks("how-to/let-tasks-expire.md"):
        reader.follow(block)
    tasks = {task["id"]: task for task in json.loads(reader.run("stayer ls --json"))}
    assert tasks["report"]["start_before"] is not None
    assert tasks["stale"]["ending"] == "expired"
