"""`stayer failures`, and the filter by fingerprint."""

from __future__ import annotations

import pytest

from stayer.core.happenings import Fail
from stayer.core.insight.fingerprint import fingerprint
from stayer.core.model import Fault
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import apply, get, started

MARK = fingerprint("crawl", "error", Fault("Boom", "page 1"))


@pytest.fixture
def failed(store: Store, worker: str) -> None:
    for number in (1, 2):
        task = started(store, id=f"page-{number}", name="crawl")
        apply(store, task, Fail(Fault("Boom", f"page {number}")))
    apply(store, started(store, id="other"), Fail(Fault("Bang"), "killed"))


@pytest.mark.usefixtures("failed")
def test_faults_are_listed_the_most_frequent_first(stayer: Here) -> None:
    head, first, second = stayer("failures").works().lines
    assert head.split()[:4] == ["FINGERPRINT", "COUNT", "FIRST", "LAST"]
    assert head.split()[4:] == ["KIND", "QUEUE", "EXAMPLE", "ERROR"]
    assert first.split()[:2] == [MARK, "2"]
    assert first.endswith("crawl  q      page-2   Boom: page 2")
    assert second.endswith("other    Bang")


@pytest.mark.usefixtures("failed")
def test_the_json_says_how_many_there_are(stayer: Here) -> None:
    found = stayer("failures", "-n", "1", "--json").works().json
    assert isinstance(found, dict)
    assert (found["faults"], found["tasks"]) == (2, 3)
    [fault] = found["failures"]
    assert (fault["fingerprint"], fault["count"], fault["queues"]) == (MARK, 2, ["q"])
    assert (fault["kind"], fault["type"], fault["example"]) == ("crawl", "Boom", "page-2")
    assert sum(fault["lately"]) == 2
    more = stayer("failures", "-n", "1")
    assert more.code == 0
    assert "2 faults in 3 tasks: -n 10 shows more" in more.err


def test_nothing_failed_is_said(stayer: Here, store: Store) -> None:
    assert "nothing has failed" in stayer("failures").err
    stayer("failures", "-q", "none").refuses("no queue 'none'")


@pytest.mark.usefixtures("failed")
def test_all_of_one_fault_are_listed_and_retried(stayer: Here, store: Store) -> None:
    assert stayer("ls", "--fingerprint", MARK, "--ids").works().lines == ["page-2", "page-1"]
    retried = stayer("retry", "--fingerprint", MARK, "--yes").works()
    assert retried.lines == ["2 tasks pending"]
    assert get(store, "other").state == "failed"
    assert f"fingerprint  {get(store, 'other').fingerprint}" in stayer("show", "other").works().out
    assert len(stayer("failures").works().lines) == 2
