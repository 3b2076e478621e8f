"""Data that would command a terminal is written as what it is."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from stayer.cli.output import safe
from stayer.core.happenings import Done, Fail
from stayer.core.model import Fault, Progress, Report
from stayer.store import Store
from tests.cli.running import Apart, Here
from tests.contract.builders import apply, beat, new, register, started, submit

ATTACK = "\x1b]0;title\x07\x1b[2J\x9b31m\x00\r\x08\x7f\u202e\u2028[bold red]:smile:\ud7ff"
TYPED = ATTACK.replace("\0", "")
"""What can be an argument, an id or the name of a queue."""
COMMANDING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029\u2066-\u2069]")


@pytest.fixture(autouse=True)
def attacks(store: Store, tmp_path: Path) -> None:
    """Tasks whose every text is an attack, also where only somebody with SQL can put one."""
    worker = register(store, f"w{ATTACK}", queues=("q",))
    fault = Fault(ATTACK, ATTACK, f"{ATTACK}\n{ATTACK}")
    fields: dict[str, Any] = {"owner": ATTACK, "tags": (ATTACK,), "parameters": {ATTACK: ATTACK}}
    named = started(store, worker.id, id="named", name=ATTACK, **fields)
    apply(store, named, Fail(fault))
    command: dict[str, Any] = {"command": (ATTACK, ATTACK), "cwd": ATTACK, "env": {"A": ATTACK}}
    apply(store, started(store, worker.id, id="done", **command), Done(ATTACK))
    running = started(store, worker.id, id="running")
    progress = Progress(done=1, total=2, message=ATTACK)
    beat(store, worker, 2, Report(id="running", attempt=running.attempt, progress=progress))
    submit(store, new(f"id{TYPED}", queue=f"queue{TYPED}"))
    with sqlite3.connect(tmp_path / "stayer.db") as database:
        line = json.dumps([1, 0, ATTACK, 1, ATTACK, ATTACK])
        database.execute("UPDATE stayer_tasks SET history = history || ? || char(10)", [line])
    database.close()


@pytest.mark.parametrize(
    "arguments",
    [
        ["ls"],
        ["ls", "--ids"],
        ["ls", "--json"],
        ["ls", "--jsonl"],
        ["show", "named"],
        ["show", "done"],
        ["show", "running"],
        ["show", f"id{TYPED}"],
        ["show", "named", "--json"],
        ["wait", "named", "done"],
        ["wait", "named", "--json"],
        ["hold", f"id{TYPED}"],
        ["queues"],
        ["queues", "--json"],
        ["workers"],
        ["workers", "--json"],
        ["ls", "-q", "nope"],
        ["ls", "-q", TYPED],
        ["show", TYPED],
        ["wait", f"id{TYPED}", "--timeout", "0"],
        ["queues", "drop", TYPED, "--yes"],
        ["workers", "drop", TYPED],
        ["top"],
        ["top", "--json"],
        ["log", f"id{TYPED}"],
        ["pause", f"id{TYPED}"],
        ["pause", "-q", f"queue{TYPED}"],
        ["resume", TYPED],
        ["signal", "running", TYPED],
        ["stack", f"id{TYPED}"],
        ["set", "running", "--time-limit", TYPED],
        ["drain", TYPED],
        ["drain", f"w{TYPED}"],
        ["run", "--detach", "--id", f"new{TYPED}", "--", TYPED],
        ["doctor"],
        [TYPED],
        [f"--{TYPED}"],
    ],
)
def test_nothing_that_commands_a_terminal_is_printed(
    stayer: Here, apart: Apart, arguments: list[str]
) -> None:
    for run in (stayer, apart):
        done = run(*arguments)

        assert not COMMANDING.findall(done.out.replace("\n", "")), done
        assert not COMMANDING.findall(done.err.replace("\n", "")), done
        assert "Traceback" not in done.err


def test_json_still_says_exactly_what_the_data_is(stayer: Here) -> None:
    named = stayer("show", "named", "--json").works().json

    assert named["name"] == ATTACK
    assert named["parameters"] == {ATTACK: ATTACK}
    assert json.loads(stayer("ls", "--jsonl", "--state", "complete").out)["result"] == ATTACK


def test_data_is_not_markup(stayer: Here) -> None:
    assert "[bold red]:smile:" in stayer("ls").works().out
    assert "[bold red]:smile:" in stayer("show", "named").works().out


def test_safe_text_keeps_what_people_write() -> None:
    assert safe("größe 漢字 🙂 a\tb") == r"größe 漢字 🙂 a\tb"
    assert safe("a\n\tb", lines=True) == "a\n\tb"
    assert safe("a\nb\x1b[0m") == r"a\nb\x1b[0m"
    assert safe("\ud800") == r"\ud800"
