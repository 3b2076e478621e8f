"""The throttle of a sweep: so many run at once, and no fewer while there are others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stayer.core.flows.model import NewFlow
from stayer.core.flows.sweep import plan_sweep
from stayer.core.happenings import Done, Start
from stayer.core.model import NewTask
from stayer.core.submit.checks import new_task
from stayer.core.submit.edits import Edits
from stayer.service.control import edits as edit_control
from stayer.service.control import flows as flow_control
from stayer.store import Store
from tests.contract.builders import Clock, apply, check_counts, get, ids, register, take


def _submit(store: Store, id: str, throttle: int, key: str | None = None) -> bool:
    pattern = new_task(queue="q", command=["train", "{n}"], key=key)
    plan = plan_sweep({"n": [0, 1, 2, 3, 4]}, pattern, id=id, throttle=throttle)
    return flow_control.submit(store, *plan)[1]


def test_others_go_on_while_one_takes_long(store: Store) -> None:
    register(store)
    assert _submit(store, "s", 2)
    first, second = take(store, limit=10)
    apply(store, first, Start(pid=1))
    for number in (2, 3, 4):
        assert take(store, limit=10) == []
        apply(store, second, Done())
        [second] = take(store, limit=10)
        assert second.id == f"s.sweep.{number}"
    apply(store, second, Done())
    assert take(store, limit=10) == []
    assert get(store, first.id).state == "started"
    check_counts(store)


def test_no_more_run_though_another_sweep_comes_while_one_is_submitted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a sweep whose limit is set, and that is not there yet
    register(store)
    plain = store.submit_flow
    running: list[str] = []

    def late(flow: NewFlow, tasks: Sequence[NewTask]) -> bool:
        monkeypatch.undo()
        # When another one comes, which takes away the limits of sweeps that are gone
        assert _submit(store, "other", 1)
        fresh = plain(flow, tasks)
        # Then its limit holds from the moment at which it is there
        running.extend(ids(take(store, limit=10)))
        return fresh

    monkeypatch.setattr(store, "submit_flow", late)
    assert _submit(store, "s", 2)
    assert sorted(running) == ["other.sweep.0", "s.sweep.0", "s.sweep.1"]
    assert take(store, limit=10) == []


def test_the_limits_of_sweeps_that_are_gone_are_taken_away(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(store)
    monkeypatch.setattr(flow_control, "_ON_ITS_WAY_S", 0.001)  # until then none is gone
    store.set_queue("q", key_limits={"ann": 1})
    _submit(store, "old", 5)
    _submit(store, "old", 3)  # again: it is there, and stays as it was
    assert store.queues(["q"])[0].key_limits == {"ann": 1, "sweep old": 5}
    for task in take(store, limit=10):
        apply(store, task, Done())
    assert len(store.purge(None, ["complete"], store.now() + 1, 10)) == 5
    clock.advance(1)
    _submit(store, "new", 2)
    assert store.queues(["q"])[0].key_limits == {"ann": 1, "sweep new": 2}


def test_tasks_with_a_key_of_their_own_stand_in_lines(store: Store) -> None:
    register(store)
    _submit(store, "s", 2, key="ann")
    assert ids(take(store, limit=10)) == ["s.sweep.0", "s.sweep.1"]
    assert (get(store, "s.sweep.4").state, get(store, "s.sweep.4").key) == ("waiting", "ann")


def test_a_clone_is_not_under_the_throttle(store: Store) -> None:
    _submit(store, "s", 2)
    assert edit_control.clone(store, "s.sweep.0", Edits()).task.key is None
