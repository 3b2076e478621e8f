"""Every state with every event: what becomes of a task, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from stayer.core import effects, errors
from stayer.core.errors import Refused
from stayer.core.happenings import (
    Ask,
    Cancel,
    DeclareComplete,
    DeclareFailed,
    Done,
    Due,
    Edit,
    Expire,
    Fail,
    FaultyEnding,
    Happening,
    Hold,
    Interrupt,
    Note,
    Pin,
    Ready,
    Release,
    Reserve,
    Retry,
    Set,
    SetMeta,
    Snooze,
    Start,
    Stop,
    UpstreamFailed,
    WaitAgain,
    WorkerLost,
)
from stayer.core.insight.fingerprint import fingerprint
from stayer.core.lifecycle import TABLE, acknowledge, decide, read_exception
from stayer.core.model import (
    FINISHED,
    QUEUED,
    RUNNING,
    STATES,
    Change,
    Fault,
    Order,
    Pinned,
    Policy,
    Task,
    Verb,
)

BOOM = Fault("Boom", "it broke", exit_code=1)
HAPPENINGS: tuple[Happening, ...] = (
    Ready(),
    UpstreamFailed("b, which is failed"),
    Due(),
    Reserve(),
    Start(pid=7),
    Done({"n": 1}),
    Fail(BOOM),
    Interrupt("drained"),
    WorkerLost("worker w lost"),
    Snooze(60.0),
    Stop(),
    Expire(),
    Cancel(),
    DeclareComplete({"n": 1}),
    DeclareFailed(BOOM),
    Ask("pause"),
    Note("adopted", "by another"),
    Pin(Pinned("3.11", "ab12"), "text"),
    Set(priority=1),
    SetMeta({"team": "vision"}),
    Edit(sets={"priority": 1}, note="priority 0 → 1"),
    Retry(),
    WaitAgain(("b",)),
    Hold(),
    Release(),
)
OUTCOMES = (Fail(BOOM), Interrupt(), WorkerLost(), Snooze(1.0), Stop())
CANCEL = Order(3, "cancel")


def a_task(state: Any, **fields: Any) -> Task:
    """A task that was tried before; held by a worker if the state says so."""
    holder = {"worker": "w", "node": "n"} if state in RUNNING else {}
    known = {"attempt": 2, "last_order": 3, "failures": 1, "interruptions": 4, "losses": 1}
    return Task(**{"id": "a", "queue": "q", "state": state, **known, **holder, **fields})


def what_changes(change: Change) -> dict[str, Any]:
    """What the happening itself sets, without what follows from where it leads (see
    test_effects.py), and what else must hold.
    """
    effect = change.effect
    usual = effects.effect(change.state, change.to, {})
    found: dict[str, Any] = {"to": change.to, **given(effect.sets, usual.sets)}
    found |= {f"{field} in": seconds for field, seconds in given(effect.times, usual.times).items()}
    if (effect.event, effect.note) != (usual.event, usual.note):
        found["said"] = (effect.event, effect.note)
    if change.result is not UNSET:
        found["result"] = change.result
    if change.losses_before is not None:
        found["losses_before"] = change.losses_before
    return found


def given(those: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in those.items() if name not in usual or value != usual[name]
    }


def becomes(change: Change, field: str) -> Any:
    """What the field becomes; UNSET if it stays."""
    return change.effect.sets.get(field, UNSET)


def named(value: Any) -> str | None:
    return None if isinstance(value, str) else type(value).__name__


everything = pytest.mark.parametrize("happening", HAPPENINGS, ids=named)
in_every_state = pytest.mark.parametrize("state", STATES)
while_running = pytest.mark.parametrize("state", RUNNING)


def test_the_table_mentions_every_event():
    kinds = set(get_args(Happening))
    assert {kind for _, kind in TABLE} == kinds
    assert {type(happening) for happening in HAPPENINGS} == kinds


def test_the_table_speaks_of_known_states_only():
    assert {state for state, _ in TABLE} == set(STATES)
    assert all(targets and set(targets) <= set(STATES) for targets in TABLE.values())
    assert all(len(set(targets)) == len(targets) for targets in TABLE.values())


def test_every_state_is_reached_by_some_event():
    reached = {
        target for (state, _), targets in TABLE.items() for target in targets if target != state
    }
    assert reached == set(STATES)


def test_every_task_can_still_finish():
    leads_to = {state: {state} for state in STATES}
    for _ in STATES:
        for (state, _kind), targets in TABLE.items():
            for target in targets:
                leads_to[state] |= leads_to[target]
    assert all(set(FINISHED) <= reachable for reachable in leads_to.values())


def test_nothing_but_a_retry_leaves_an_end():
    leaving = {
        kind
        for (state, kind), to in TABLE.items()
        if state in FINISHED and not {*to} <= {*FINISHED}
    }
    assert leaving == {Retry}


@in_every_state
@everything
def test_what_the_table_allows_is_decided_and_the_rest_refused(state, happening):
    task = a_task(state)
    allowed = TABLE.get((state, type(happening)))
    if allowed is None or isinstance(happening, Reserve):
        with pytest.raises(Refused) as refusal:
            decide(task, happening)
        if allowed is None:
            assert f"task a is {state}" in str(refusal.value)
    else:
        change = decide(task, happening)
        assert change.to in allowed
        assert (change.id, change.state, change.worker) == ("a", state, task.worker)
        assert (change.attempt, change.last_order) == (2, 3)


def test_only_the_store_reserves():
    with pytest.raises(Refused, match=r"only Store\.reserve"):
        decide(a_task("pending"), Reserve())


@pytest.mark.parametrize(
    ("state", "happening", "said"),
    [
        ("started", Retry(), "only a finished task can be retried"),
        ("complete", Cancel(), "it has ended, there is nothing to cancel"),
        ("failed", Hold(), "it has ended, there is nothing to hold"),
        ("cancelled", Release(), "it has ended, there is nothing to release"),
        ("pending", Ask("signal"), "only a running task can be asked to signal"),
        ("complete", Done(), "done is not possible now"),
    ],
)
def test_a_refusal_says_why(state, happening, said):
    with pytest.raises(Refused) as refusal:
        decide(a_task(state), happening)
    assert str(refusal.value) == f"task a is {state}: {said}"


def test_a_task_whose_time_has_come_is_pending():
    assert what_changes(decide(a_task("scheduled"), Due())) == {"to": "pending"}


def test_a_task_that_waits_for_nothing_more_is_pending():
    assert what_changes(decide(a_task("waiting"), Ready())) == {"to": "pending"}


def test_a_started_task_has_a_process():
    change = decide(a_task("reserved"), Start(pid=7))
    assert what_changes(change) == {"to": "started", "pid": 7}


@while_running
def test_done_is_complete_and_welcome_late(state):
    task = a_task(state, error=BOOM, orders=(Order(3, "pause"),))
    assert what_changes(decide(task, Done({"n": 1}))) == {
        "to": "complete",
        "ending": "done",
        "said": ("complete", "done"),
        "result": {"n": 1},
        "error": None,
        "orders": (),
        "worker": "w",
    }
    assert decide(task, Done()).late


@while_running
def test_done_beats_a_wanted_cancel(state):
    change = decide(a_task(state, orders=(CANCEL,)), Done(b"bytes"))
    assert (change.to, becomes(change, "ending")) == ("complete", "done")
    assert change.result == b"bytes"


@pytest.mark.parametrize("happening", [h for h in HAPPENINGS if type(h) not in (Done, Reserve)])
def test_nothing_but_done_is_welcome_late(happening):
    for state in STATES:
        if (state, type(happening)) in TABLE:
            assert not decide(a_task(state), happening).late


@while_running
@pytest.mark.parametrize("outcome", OUTCOMES, ids=named)
def test_with_a_cancel_wanted_every_outcome_but_done_is_cancelled(state, outcome):
    for order in (CANCEL, replace(CANCEL, acknowledged=True)):
        task = a_task(state, orders=(order,), policy=Policy(retries=9))
        change = decide(task, outcome)
        assert (change.to, becomes(change, "ending")) == ("cancelled", "cancelled")
        assert becomes(change, "orders") == ()
        assert becomes(change, "failures") is UNSET
        assert becomes(change, "interruptions") is UNSET


def test_a_cancelled_task_that_broke_keeps_its_error():
    change = decide(a_task("started", orders=(CANCEL,)), Fail(BOOM))
    assert becomes(change, "error") == BOOM


def test_a_cancelled_task_on_a_lost_node_is_marked_unproven():
    error = becomes(decide(a_task("started", orders=(CANCEL,)), WorkerLost()), "error")
    assert isinstance(error, Fault)
    assert error.type == "Unproven"
    assert error.message.startswith("node lost")


@while_running
@pytest.mark.parametrize("ending", get_args(FaultyEnding))
def test_a_failure_without_retries_is_the_end(state, ending):
    task = a_task(state, failures=0, orders=(Order(3, "pause"),))
    assert what_changes(decide(task, Fail(BOOM, ending))) == {
        "to": "failed",
        "ending": ending,
        "said": ("failed", ending),
        "error": BOOM,
        "fingerprint": fingerprint(task.kind, ending, BOOM),
        "failures": 1,
        "orders": (),
    }


def test_a_failure_with_retries_left_goes_back_to_the_queue():
    task = a_task("started", failures=1, policy=Policy(retries=2))
    assert what_changes(decide(task, Fail(BOOM, "oom"))) == {
        "to": "pending",
        "ending": "oom",
        "said": ("pending", "oom"),
        "error": BOOM,
        "failures": 2,
        "losses": 0,
        "orders": (),
        "eta": None,
    }


def test_a_task_runs_once_and_then_as_often_as_its_retries():
    task = a_task("started", failures=0, policy=Policy(retries=2))
    ends = []
    for _ in range(3):
        change = decide(task, Fail(BOOM))
        ends.append(change.to)
        task = replace(task, failures=becomes(change, "failures"))
    assert ends == ["pending", "pending", "failed"]


def test_an_interruption_is_free_of_charge_however_many():
    task = a_task("started", orders=(Order(3, "stack"),))
    assert what_changes(decide(task, Interrupt("drained"))) == {
        "to": "pending",
        "ending": "interrupted",
        "said": ("pending", "interrupted: drained"),
        "interruptions": 5,
        "losses": 0,
        "orders": (),
    }


@pytest.mark.parametrize("happening", [Interrupt("drained"), WorkerLost("gone")])
@pytest.mark.parametrize(
    ("paused", "asked", "held"),
    [
        (True, (), True),
        (False, (), UNSET),
        (False, ("pause",), True),
        (True, ("resume",), UNSET),
        (False, ("resume", "pause"), True),
        (True, ("pause", "resume"), UNSET),
    ],
)
def test_what_was_to_stand_still_is_held_when_it_goes_back(
    happening: Happening, paused: bool, asked: tuple[Verb, ...], held: object
) -> None:
    orders = tuple(Order(number, verb) for number, verb in enumerate(asked, 1))
    change = decide(a_task("started", paused=paused, orders=orders, losses=0), happening)
    assert (change.to, becomes(change, "held")) == ("pending", held)


def test_an_attempt_that_never_began_leaves_the_count_of_losses():
    change = decide(a_task("reserved", losses=2), Interrupt("drained"))
    assert (change.to, becomes(change, "interruptions")) == ("pending", 5)
    assert becomes(change, "losses") is UNSET


def test_a_lost_task_is_returned_and_its_late_result_still_welcome():
    assert what_changes(decide(a_task("started", losses=1), WorkerLost("worker w lost"))) == {
        "to": "pending",
        "ending": "lost",
        "said": ("pending", "lost: worker w lost"),
        "interruptions": 5,
        "losses": 2,
        "losses_before": 1,
        "orders": (),
        "returned_from": "w 2",
    }


def test_nothing_but_a_loss_marks_a_task_as_returned():
    for happening in HAPPENINGS:
        for state in STATES:
            allowed = (state, type(happening)) in TABLE and not isinstance(happening, Reserve)
            if allowed and not isinstance(happening, WorkerLost):
                assert becomes(decide(a_task(state), happening), "returned_from") is None


def test_a_loss_before_the_start_is_not_counted():
    change = decide(a_task("reserved", losses=2), WorkerLost())
    assert (change.to, becomes(change, "losses")) == ("pending", 2)
    assert becomes(change, "returned_from") == "w 2"


def test_a_task_lost_too_often_is_set_aside():
    change = decide(a_task("started", losses=2), WorkerLost("worker w lost"))
    assert (change.to, becomes(change, "ending")) == ("failed", "lost")
    assert (becomes(change, "losses"), becomes(change, "returned_from")) == (3, None)
    error = becomes(change, "error")
    assert error.type == "Lost"
    assert "3 times in a row" in error.message


def test_the_budget_of_losses_is_the_policy_s():
    assert (
        decide(a_task("started", losses=5, policy=Policy(losses=7)), WorkerLost()).to == "pending"
    )
    assert decide(a_task("started", losses=6, policy=Policy(losses=7)), WorkerLost()).to == "failed"


@while_running
def test_a_snoozed_task_is_scheduled(state):
    found = what_changes(decide(a_task(state), Snooze(60.0)))
    assert found.items() >= {"to": "scheduled", "ending": "snoozed", "eta in": 60.0}.items()


@while_running
def test_a_stopped_task_is_cancelled(state):
    assert what_changes(decide(a_task(state, orders=(CANCEL,)), Stop())) == {
        "to": "cancelled",
        "ending": "cancelled",
        "said": ("cancelled", "cancelled"),
        "orders": (),
    }


@pytest.mark.parametrize("state", QUEUED)
def test_a_queued_task_is_cancelled_at_once(state):
    assert what_changes(decide(a_task(state), Cancel(grace=5.0))) == {
        "to": "cancelled",
        "ending": "cancelled",
        "said": ("cancelled", "cancelled"),
        "orders": (),
    }


@while_running
@pytest.mark.parametrize(
    ("grace", "arguments", "note"),
    [(None, {}, None), (0.0, {"grace": 0.0}, "grace 0.0")],
)
def test_a_running_task_is_asked_to_be_cancelled(state, grace, arguments, note):
    assert what_changes(decide(a_task(state), Cancel(grace))) == {
        "to": state,
        "orders": (Order(4, "cancel", arguments),),
        "last_order": 4,
        "said": ("cancel", note),
    }


@while_running
def test_what_is_told_changes_nothing(state):
    change = decide(a_task(state), Note("thawed", "stood still for 3 s"))
    assert what_changes(change) == {"to": state, "said": ("thawed", "stood still for 3 s")}


@while_running
def test_an_order_joins_those_that_are_open(state):
    first = Order(3, "pause")
    change = decide(a_task(state, orders=(first,)), Ask("signal", {"signal": 10}))
    assert what_changes(change) == {
        "to": state,
        "orders": (first, Order(4, "signal", {"signal": 10})),
        "last_order": 4,
        "said": ("signal", "10"),
    }


@pytest.mark.parametrize("state", QUEUED)
def test_an_expired_task_has_failed(state):
    change = decide(a_task(state), Expire())
    assert (change.to, becomes(change, "ending")) == ("failed", "expired")
    assert becomes(change, "failures") is UNSET
    assert becomes(change, "error").type == "Expired"


@pytest.mark.parametrize("state", FINISHED)
def test_a_retried_task_starts_afresh(state):
    task = a_task(state, result={"n": 1}, error=BOOM, eta=5.0)
    assert what_changes(decide(task, Retry())) == {
        "to": "pending",
        "result": None,
        "error": None,
        "failures": 0,
        "interruptions": 0,
        "losses": 0,
        "eta": None,
        "last_order": 4,
        "said": ("pending", "retried"),
    }
    assert decide(task, Retry()).unique_is_free


@pytest.mark.parametrize("state", [*QUEUED, *RUNNING])
@pytest.mark.parametrize(
    ("happening", "held", "note"), [(Hold(), True, "held"), (Release(), False, "released")]
)
def test_holding_and_releasing_leave_the_state(state, happening, held, note):
    change = decide(a_task(state), happening)
    assert what_changes(change) == {
        "to": state, "held": held, "said": (note, None), "last_order": 4
    }  # fmt: skip


def test_acknowledged_orders_are_gone():
    orders = (Order(1, "pause"), Order(2, "resume"), Order(5, "signal", {"signal": 1}))
    assert acknowledge(orders, 0) == orders
    assert acknowledge(orders, 2) == (orders[2],)
    assert acknowledge(orders, 5) == ()
    assert acknowledge((), 5) == ()


def test_an_acknowledged_cancel_stays_wanted():
    orders = (Order(1, "pause"), Order(2, "cancel", {"grace": 1.0}), Order(3, "stack"))
    left = acknowledge(orders, 2)
    assert left == (Order(2, "cancel", {"grace": 1.0}, acknowledged=True), orders[2])
    assert a_task("started", orders=left).cancel_wanted
    assert acknowledge(left, 2) == left


def test_a_result_is_not_accepted_for_a_task_that_nobody_runs():
    with pytest.raises(Refused):
        decide(a_task("pending"), Done("forged"))


def test_losses_in_a_row_are_broken_by_any_other_ending():
    task = a_task("started", losses=2, policy=Policy(retries=9))
    for other in (Interrupt(), Fail(BOOM), Snooze(5)):
        assert becomes(decide(task, other), "losses") == 0


def test_a_task_that_was_merely_reserved_is_never_set_aside():
    task = a_task("reserved", losses=5, policy=Policy(losses=0))
    assert decide(task, WorkerLost()).to == "pending"


def test_a_snoozed_task_takes_no_old_orders_with_it():
    task = a_task("started", orders=(Order(3, "pause"),))
    assert becomes(decide(task, Snooze(5)), "orders") == ()


def test_a_task_with_an_eta_waits_for_it_after_all_else_is_there():
    assert decide(a_task("waiting", eta=5.0), Ready()).to == "scheduled"
    assert decide(a_task("waiting", eta=None), Ready()).to == "pending"


@pytest.mark.parametrize("last", [False, True])
def test_a_forsaken_task_is_cancelled_unless_it_says_otherwise(last):
    change = decide(a_task("waiting"), UpstreamFailed("b, which is failed", last=last))
    assert (change.to, becomes(change, "ending")) == ("cancelled", "cancelled")
    assert becomes(change, "error") == Fault("Forsaken", "it was to run after b, which is failed")


@pytest.mark.parametrize("eta", [None, 5.0])
@pytest.mark.parametrize(("when_failed", "held"), [("run", UNSET), ("hold", True)])
def test_a_forsaken_task_runs_or_is_held_if_it_says_so(when_failed, held, eta):
    task = a_task("waiting", eta=eta, policy=Policy(when_failed=when_failed))
    waits_on = decide(task, UpstreamFailed("b, which is failed"))
    assert (waits_on.to, becomes(waits_on, "held")) == ("waiting", held)
    ready = decide(task, UpstreamFailed("b, which is failed", last=True))
    assert ready.to == ("pending" if eta is None else "scheduled")
    assert becomes(ready, "held") == held


def test_a_retried_task_waits_for_what_is_named():
    assert decide(a_task("failed"), Retry()).to == "pending"
    change = decide(a_task("cancelled"), Retry(("b", "c")))
    assert (change.to, change.effect.waits) == ("waiting", ("b", "c"))


def test_a_held_task_that_waits_once_more_is_released():
    change = decide(a_task("pending", held=True), WaitAgain(("b",)))
    assert (change.to, change.effect.waits) == ("waiting", ("b",))
    assert becomes(change, "held") is False


@pytest.mark.parametrize("said", [float("nan"), float("inf"), 1e300, "10s", None, True, 10**400])
def test_a_wait_that_is_no_time_is_not_believed(said: Any) -> None:
    """Thread tasks and listeners say it in Python, where anything may be said."""
    fault = Fault("Snooze")
    assert read_exception(errors.Snooze(said), fault) == Fail(fault, bases=("Exception",))
    assert read_exception(errors.Retry(after=said), fault) == Fail(fault, bases=("Exception",))


def test_a_wait_that_is_one_is() -> None:
    fault = Fault("Retry")
    assert read_exception(errors.Snooze(5), fault) == Snooze(5.0)
    assert read_exception(errors.Snooze(-5.0), fault) == Snooze(0.0)
    again = Fail(fault, after=0.5, bases=("Exception",))
    assert read_exception(errors.Retry(after=0.5), fault) == again
