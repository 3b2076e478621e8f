"""A task says who submitted it, unless nobody wants that."""

from __future__ import annotations

import os
from pathlib import Path

import stayer as package
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import get

HERE = os.uname().nodename


def test_user_host_program_and_process_are_told(stayer: Here, store: Store, folder: Path) -> None:
    stayer("add", "--id", "one").works()
    (folder / "lines").write_text('{"id": "two"}\n')
    stayer("add", "--jsonl", str(folder / "lines")).works()
    flow = '{"name": "f", "id": "f", "tasks": {"part": {}}}'
    (folder / "flow").write_text(flow)
    stayer("flow", "add", str(folder / "flow")).works()
    for id in ("one", "two", "f.part"):
        said = get(store, id).submitted_by
        assert said is not None
        assert said.startswith(f"ann@{HERE} ")
        assert said.endswith(f"[{os.getpid()}]")
    assert f"ann@{HERE}" in stayer("show", "one").works().out
    clone = stayer("clone", "one", STAYER_SUBMITTER="somebody else").works().lines[0]
    assert get(store, clone).submitted_by == "somebody else"


def test_python_tells_it_too(store: Store, url: str) -> None:
    with package.Client(url) as client:
        said = client.get_task(client.get_queue("q").enqueue(1)).submitted_by
        assert said is not None
        assert said.endswith(f"[{os.getpid()}]")


def test_nobody_is_named_who_does_not_want_it(stayer: Here, store: Store) -> None:
    stayer("add", "--id", "one", STAYER_SUBMITTER="none").works()
    assert get(store, "one").submitted_by is None
    stayer("add", "--id", "two", STAYER_SUBMITTER=" x").refuses("submitter")


def test_what_a_schedule_submits_says_so(stayer: Here, store: Store) -> None:
    stayer("cron", "add", "nightly", "0 3 * * *", "--", "true").works()
    id = stayer("cron", "run", "nightly").works().lines[0]
    assert get(store, id).submitted_by == "schedule nightly"
