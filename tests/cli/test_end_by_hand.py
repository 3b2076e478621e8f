"""`complete` and `fail`: a person says how tasks ended."""

from __future__ import annotations

from stayer.core.model import Fault
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import get, new, started, submit


def test_tasks_end_as_it_is_said(stayer: Here, store: Store) -> None:
    submit(store, new("a"), new("b", tags=("t",)), new("c", tags=("t",)))

    assert stayer("complete", "a", "--result", '{"n": 1}').works().lines == ["a complete"]
    assert get(store, "a").result == {"n": 1}
    done = stayer("fail", "--tag", "t", "-y", "--error", "no use").works()
    assert done.lines == ["2 tasks failed"]
    assert get(store, "c").error == Fault("DeclaredFailed", "no use")
    assert "by hand" in stayer("show", "c").works().out


def test_what_makes_no_sense_changes_nothing(stayer: Here, store: Store, worker: str) -> None:
    task = started(store, id="runs")
    submit(store, new("a"))
    stayer("complete", "a", "--result", "{n").refuses("--result", "not JSON")
    assert get(store, "a").state == "pending"
    found = stayer("fail", "runs")
    assert (found.code, "--stop" in found.err) == (2, True)
    assert get(store, "runs") == task
