"""What tasks get from those that they run after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace as Names
from typing import Any

import pytest

from stayer import Client, Flow
from stayer.core.errors import TooLarge
from stayer.core.submit.checks import new_task
from stayer.service import upstream_results
from tests.faults.fleet import Fleet
from tests.faults.pools import PoolFleet

JOBS = """
import stayer

app = stayer.App(queue="default")

@app.task
def double(number: int) -> int:
    return 2 * number

@app.task
def next_to(task: stayer.Context) -> int:
    return task.inputs["double"] + 1

@app.task
def total(task: stayer.Context) -> dict:
    return {"inputs": task.inputs, "sum": sum(task.inputs["double"])}

@app.task
def raw() -> bytes:
    return b"\\x00raw"

@app.task
def size(task: stayer.Context) -> int:
    return len(task.inputs["raw"])
"""


@pytest.fixture
def pools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PoolFleet]:
    fleet = PoolFleet(tmp_path)
    (fleet.folder / "jobs.py").write_text(JOBS)
    monkeypatch.setenv("PYTHONPATH", str(fleet.folder))
    yield fleet
    fleet.close()


@pytest.mark.parametrize("threads", [False, True])
def test_python_tasks_get_results_by_the_names_of_parts(pools: PoolFleet, threads: bool) -> None:
    if threads:
        pools.pool_worker(lease=30)
    else:
        pools.worker("one", "--app", "jobs", lease=30)
    module = Names(**load_app_of(pools.folder / "jobs.py"))
    flow = Flow("sums", id="f")
    doubled = flow.map(module.double, [1, {"number": 2}, 3], at_once=2)
    after = flow.map(module.next_to, doubled)
    flow.add(module.total.s(), after=[doubled, after])
    flow.add(module.size.s(), after=[flow.add(module.raw.s())])
    with Client(pools.store.url) as client:
        handle = client.submit(flow).wait(timeout="60s")
        assert handle.task("total").result == {
            "inputs": {"double": [2, 4, 6], "next_to": [3, 5, 7]},
            "sum": 12,
        }
        assert handle.task("size").result == 4


def load_app_of(path: Path) -> dict[str, Any]:
    """What the module defines, read under its own name."""
    found: dict[str, Any] = {"__name__": "jobs"}
    exec(path.read_text(), found)
    return found


def test_commands_get_them_in_a_file(fleet: Fleet) -> None:
    fleet.worker("one", lease=30)
    fleet.submit("a", "sh", "-c", "echo 42 > $STAYER_RESULT; test -z $STAYER_INPUTS")
    read = ("sh", "-c", "cat $STAYER_INPUTS > $STAYER_RESULT")
    fleet.store.submit([new_task(queue="default", id="b", command=read, after=["a"])])
    task = fleet.until_ended("b")
    assert (task.state, task.result) == ("complete", {"a": 42})


def test_what_is_too_large_fails_the_task(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.worker("one", lease=30)
    fleet.submit("a", "sh", "-c", "printf '\"%99999s\"' x > $STAYER_RESULT")
    fleet.until_ended("a")
    fleet.store.submit([new_task(queue="paused", id="b", after=["a"])])
    monkeypatch.setattr(upstream_results, "LIMIT_BYTES", 10_000)
    with pytest.raises(TooLarge, match="1 tasks that b runs after are over"):
        upstream_results.of(fleet.store, fleet.get("b"))
