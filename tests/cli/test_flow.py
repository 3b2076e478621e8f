"""`stayer flow`, and what other commands know of flows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stayer.core.happenings import Done, Fail
from stayer.core.model import Fault
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import apply, get, new, submit, take

FLOW: dict[str, Any] = {
    "name": "films",
    "id": "f",
    "defaults": {"queue": "q"},
    "tasks": {
        "list": {"name": "list"},
        "encode": {"map": ["a", "b", "c"], "command": ["ffmpeg", "{}"], "after": ["list"]},
        "mail": {"after": ["list"]},
        "publish": {"after": ["encode", "mail"]},
    },
}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "flow.json"
    path.write_text(json.dumps(FLOW))
    return str(path)


def run(store: Store, failing: str = "") -> None:
    while found := take(store):
        bad = failing and failing in found[0].id
        apply(store, found[0], Fail(Fault("Boom")) if bad else Done())


def test_a_flow_is_submitted_and_drawn(stayer: Here, file: str, store: Store, worker: str) -> None:
    assert stayer("flow", "submit", file).works().out == "f\n"
    run(store, failing="encode.1")

    head, _, *lines = stayer("flow", "show", "f").works().lines

    assert head == "films  f  failed  4/6"
    assert lines == [
        "●    list     complete             list",
        "├─✗  encode   2/3        1 failed  ffmpeg",
        "● │  mail     complete",
        "✗─┘  publish  cancelled",
    ]


def test_the_same_again_is_no_error(stayer: Here, file: str) -> None:
    stayer("flow", "submit", file).works()
    done = stayer("flow", "submit", file)
    assert (done.code, done.out) == (0, "f\n")
    assert "is already there (pending)" in done.err
    assert stayer("flow", "submit", file, "--json").json["fresh"] is False


def test_it_comes_from_stdin_too(stayer: Here) -> None:
    assert stayer("flow", "submit", "-", input=json.dumps(FLOW)).works().out == "f\n"
    text = json.dumps({"name": "n", "tasks": {"a": {"after": ["b"]}}})
    stayer("flow", "submit", "-", input=text).refuses("stdin: tasks: a: no part", "'b'")
    stayer("flow", "submit", "/nowhere.json").refuses("/nowhere.json can't be read")


def test_flows_are_listed(stayer: Here, file: str, store: Store, worker: str) -> None:
    stayer("init").works()
    assert "no flows" in stayer("flow", "ls").err
    stayer("flow", "submit", file).works()
    run(store, failing="list")

    heading, line = stayer("flow", "ls").works().lines

    assert heading.split() == ["ID", "NAME", "STATE", "DONE", "AGE", "OWNER"]
    assert line.split()[:8] == ["f", "films", "failed", "0/6", "1", "failed,", "5", "cancelled"]
    [shown] = stayer("flow", "ls", "--json").works().json
    assert shown == stayer("flow", "show", "f", "--json").works().json
    assert [part["name"] for part in shown["parts"]] == ["list", "encode", "mail", "publish"]
    assert shown["parts"][1]["counts"]["cancelled"] == 3


@pytest.mark.parametrize(
    ("failing", "code", "said"),
    [
        ("", 0, "f complete"),
        ("encode", 1, "f failed: 2 complete, 3 failed, 1 cancelled"),
    ],
)
def test_waiting_tells_how_it_ended(
    stayer: Here, file: str, store: Store, worker: str, failing: str, code: int, said: str
) -> None:
    stayer("flow", "submit", file).works()
    waited = stayer("flow", "wait", "f", "--timeout", "0s")
    assert (waited.code, waited.out) == (124, "")
    run(store, failing)
    assert stayer("flow", "wait", "f").code == code
    assert stayer("flow", "submit", file, "--wait").lines == ["f", said]


def test_it_is_cancelled_and_retried(stayer: Here, file: str, store: Store) -> None:
    stayer("flow", "submit", file).works()
    stayer("flow", "retry", "f").refuses("nothing of it has failed")
    stayer("flow", "cancel", "f").refuses("say --yes")
    assert stayer("flow", "cancel", "f", "-y").works().out == "f cancelled: 6 tasks\n"
    assert stayer("flow", "wait", "f").code == 3
    assert stayer("flow", "retry", "f").works().out == "f goes on: 6 tasks to run again\n"
    assert get(store, "f.publish").state == "waiting"


def test_an_unknown_flow_is_refused(stayer: Here) -> None:
    stayer("init").works()
    for verb in ("show", "wait", "retry", "cancel"):
        stayer("flow", verb, "nobody").refuses("no flow 'nobody'")
    stayer("ls", "--flow", "nobody").refuses("no flow 'nobody'")


def test_its_tasks_are_listed(stayer: Here, file: str, store: Store) -> None:
    submit(store, new("other"))
    stayer("flow", "submit", file).works()
    listed = stayer("ls", "--flow", "f", "--state", "waiting", "--ids").works().lines
    assert sorted(listed) == ["f.encode.0", "f.encode.1", "f.encode.2", "f.mail", "f.publish"]


def test_show_says_what_a_task_waits_for(stayer: Here, file: str, store: Store) -> None:
    stayer("flow", "submit", file).works()
    shown = stayer("show", "f.publish").works().out
    assert "waits: for f.encode.0, f.encode.1, f.encode.2 and 1 more to end" in shown
    assert "f (publish)" in shown
    assert "4 tasks" in shown


def test_a_task_is_added_after_others(stayer: Here, store: Store, worker: str) -> None:
    first = stayer("add", "-q", "q").works().out.strip()
    second = stayer("add", "-q", "q", "--after", first[:10], "--when-failed", "hold").works()
    task = get(store, second.out.strip())
    assert (task.state, task.policy.when_failed) == ("waiting", "hold")
    stayer("add", "--after", "nobody").refuses("no task 'nobody'")
    line = json.dumps({"id": "c", "queue": "q", "after": [first]})
    stayer("add", "--jsonl", "-", input=line).works()
    control.cancel(store, first)
    assert (get(store, "c").state, get(store, task.id).held) == ("cancelled", True)
