"""What failed, by fault, over HTTP."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stayer import Client
from stayer.core.happenings import Fail
from stayer.core.insight.failures import Failures
from stayer.core.insight.fingerprint import fingerprint
from stayer.core.model import Fault
from stayer.store import Store
from tests.contract.builders import apply, started
from tests.http.serving import Site

MARK = fingerprint("crawl", "error", Fault("Boom", "page 1"))


def _fail(store: Store) -> None:
    for number in (1, 2):
        task = started(store, id=f"page-{number}", name="crawl")
        apply(store, task, Fail(Fault("Boom", f"page {number}")))
    apply(store, started(store, id="other"), Fail(Fault("Bang"), "killed"))


def _but_times(found: Failures) -> Failures:
    """JSON says them to the millisecond."""
    faults = (replace(each, first=0.0, last=0.0) for each in found.failures)
    return replace(found, failures=tuple(faults))


def test_faults_are_listed_and_their_tasks_found(site: Site, store: Store, worker: str) -> None:
    _fail(store)
    found = site("GET", "/v1/failures?limit=1").json
    assert (found["faults"], found["tasks"]) == (2, 3)
    assert found["failures"][0]["fingerprint"] == MARK
    assert site("GET", "/v1/failures?queue=none").json["failures"] == []
    tasks = site("GET", f"/v1/tasks?fingerprint={MARK}").json["tasks"]
    assert [(task["id"], task["fingerprint"]) for task in tasks] == [
        ("page-2", MARK), ("page-1", MARK),
    ]  # fmt: skip
    again = site("POST", f"/v1/tasks/retry?fingerprint={MARK}").json["tasks"]
    assert [task["state"] for task in again] == ["pending", "pending"]
    assert site("GET", "/v1/failures").json["tasks"] == 1


def test_a_client_of_the_server_sees_the_same(
    site: Site, store: Store, worker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fail(store)
    monkeypatch.setenv("STAYER_TOKEN", site.tokens["operate"])
    with Client(site.url) as client:
        here, there = store.failures((), 100), client.failures()
        assert _but_times(there) == _but_times(here)
        assert there.failures[0].last == pytest.approx(here.failures[0].last, abs=0.002)
        assert client.failures("q", 1).faults == 2
        assert {task.id for task in client.find(fingerprint=MARK)} == {"page-1", "page-2"}
