"""What follows from where a change leads, written out: stores apply it without knowing why."""

from __future__ import annotations

from typing import Any

import pytest

from stayer.core.effects import completion, effect
from stayer.core.happenings import (
    Ask,
    Cancel,
    Done,
    Expire,
    Fail,
    Hold,
    Note,
    Ready,
    Retry,
    Start,
    UpstreamFailed,
    WaitAgain,
)
from stayer.core.lifecycle import TABLE, date_back, decide, with_checkpoint
from stayer.core.model import (
    FINISHED,
    QUEUED,
    RUNNING,
    STATES,
    AttemptNews,
    Effect,
    Fault,
    Policy,
    State,
    Task,
)

BOOM = Fault("Boom", "it broke")
ARROWS = sorted({(state, to) for (state, _), targets in TABLE.items() for to in targets})
"""From where to where a change may lead."""

in_every_way = pytest.mark.parametrize(("state", "to"), ARROWS)


def a_task(state: State, **fields: Any) -> Task:
    holder = {"worker": "w", "node": "n"} if state in RUNNING else {}
    return Task(**{"id": "a", "queue": "q", "state": state, "attempt": 2, **holder, **fields})


def of(state: State, to: State) -> Effect:
    return effect(state, to, {})


def cleared(state: State, to: State) -> set[str]:
    sets = of(state, to).sets
    assert all(value is None or value is False for value in sets.values())
    return set(sets) - {"returned_from"}


@in_every_way
def test_what_is_cleared_follows_from_where_it_leads(state: State, to: State) -> None:
    expected: set[str] = set()
    if state != to and to in ("waiting", "scheduled", "pending"):
        expected |= {"worker", "node", "pid", "started_at", "usage", "near_node", "near_until"}
    if state == "started" != to:
        expected |= {"paused"}
    if (state, to) == ("reserved", "started"):
        expected |= {"start_before"}
    if state in FINISHED and to not in FINISHED:
        expected |= {"finished_at", "ending", "fingerprint", "start_before", "finish_before"}
    assert cleared(state, to) == expected


@in_every_way
def test_every_change_is_of_now_and_makes_a_return_forgotten(state: State, to: State) -> None:
    assert of(state, to).times == {"updated": 0.0}
    assert of(state, to).sets["returned_from"] is None


@in_every_way
def test_a_start_and_an_end_have_a_moment(state: State, to: State) -> None:
    expected = None
    if (state, to) == ("reserved", "started"):
        expected = "started_at"
    if to in FINISHED and state != to:
        expected = "finished_at"
    assert of(state, to).moment == expected


@in_every_way
def test_an_event_has_the_name_of_the_new_state_or_of_what_was_done(
    state: State, to: State
) -> None:
    said = effect(state, to, {}, word="word", note="why")
    assert (said.event, said.note) == (("word", "why") if to == state else (to, "word: why"))
    short = effect(state, to, {}, word="word")
    assert (short.event, short.note) == (("word", None) if to == state else (to, "word"))
    assert of(state, to).event == (None if to == state else to)
    assert of(state, to).note is None


@in_every_way
def test_who_is_woken_and_what_ends_follow_from_where_it_leads(state: State, to: State) -> None:
    found = of(state, to)
    assert found.ends == (to in FINISHED and state != to)
    assert found.ends_run == (state in RUNNING and to not in RUNNING)
    assert found.enters_lane == (to == "pending")
    assert found.wakes_queue == (to != state and to in ("pending", "scheduled"))
    assert not found.wakes_worker
    ordered = effect(state, to, {}, order=4)
    assert (ordered.wakes_queue, ordered.wakes_worker) == (True, True)
    assert ordered.sets["last_order"] == 4


@in_every_way
def test_what_leaves_waiting_waits_for_nothing(state: State, to: State) -> None:
    waits = of(state, to).waits
    assert (waits == ()) == (state == "waiting" != to)
    assert effect(state, to, {}, waits=("b",)).waits == ("b",)


def test_a_start_tells_the_attempt_its_process() -> None:
    change = decide(a_task("reserved"), Start(7))
    assert change.effect.attempt == AttemptNews(pid=7)


def test_an_end_is_the_end_of_an_attempt_if_there_is_one() -> None:
    assert decide(a_task("started"), Done(1)).effect.attempt == AttemptNews(ending="done")
    failed = decide(a_task("reserved"), Fail(BOOM, "oom")).effect
    assert failed.attempt == AttemptNews(ending="oom", error=BOOM)
    for state in QUEUED:
        for happening in (Cancel(), Expire()):
            ended = decide(a_task(state), happening).effect
            assert (ended.ends, ended.attempt) == (True, None)
            assert ended.sets["ending"] in ("cancelled", "expired")


def test_a_failure_that_is_not_the_end_says_so_of_the_attempt_too() -> None:
    again = decide(a_task("started", policy=Policy(retries=1)), Fail(BOOM)).effect
    assert again.attempt == AttemptNews(ending="error", error=BOOM)
    assert (again.to, again.sets["error"], again.hook_words) == ("pending", BOOM, ("retrying",))


@pytest.mark.parametrize(
    ("state", "happening", "words"),
    [
        ("reserved", Start(7), ("started",)),
        ("started", Done(), ("complete", "ended")),
        ("started", Fail(BOOM, "oom"), ("failed", "ended", "oom")),
        ("pending", Expire(), ("failed", "ended", "expired")),
        ("pending", Cancel(), ("cancelled", "ended")),
        ("started", Ask("pause"), ()),
        ("pending", Hold(), ()),
        ("failed", Retry(), ()),
    ],
)
def test_hooks_hear_of_starts_retries_and_ends(
    state: State, happening: Any, words: tuple[str, ...]
) -> None:
    assert decide(a_task(state), happening).effect.hook_words == words


def test_a_delay_counts_from_the_store_s_now_and_none_is_no_eta() -> None:
    assert effect("started", "scheduled", {}, delay=5.0).times == {"updated": 0.0, "eta": 5.0}
    assert effect("started", "pending", {}, delay=None).sets["eta"] is None
    assert "eta" not in of("started", "pending").sets


def test_a_node_has_a_task_for_itself_for_a_while() -> None:
    found = decide(a_task("waiting"), Ready(near=("node", 30.0))).effect
    assert found.sets["near_node"] == "node"
    assert found.times["near_until"] == 30.0
    assert "near_until" not in found.sets


def test_from_the_start_means_without_what_was_saved() -> None:
    fresh = decide(a_task("failed"), Retry(from_start=True)).effect
    assert fresh.forgets_checkpoint
    assert {"progress": None, "checkpoint_at": None}.items() <= dict(fresh.sets).items()
    again = decide(a_task("failed"), Retry()).effect
    assert not again.forgets_checkpoint
    assert "progress" not in again.sets


def test_a_retry_needs_its_unique_word_and_nothing_else_does() -> None:
    for state in STATES:
        if (state, Retry) in TABLE:
            assert decide(a_task(state), Retry()).unique_is_free
    assert not decide(a_task("pending"), Hold()).unique_is_free


@pytest.mark.parametrize(
    ("state", "happening", "said"),
    [
        ("waiting", WaitAgain(("b",)), ("waits again", None)),
        ("pending", WaitAgain(("b",)), ("waiting", "waits again")),
        ("waiting", UpstreamFailed("b, which is failed"), ("held", "b, which is failed")),
        ("waiting", UpstreamFailed("b", last=True), ("pending", "held: b")),
        ("started", Note("adopted", "by w2"), ("adopted", "by w2")),
        ("failed", Retry(from_start=True), ("pending", "retried from the start")),
    ],
)
def test_what_is_said_of_a_change(
    state: State, happening: Any, said: tuple[str, str | None]
) -> None:
    change = decide(a_task(state, policy=Policy(when_failed="hold")), happening)
    assert (change.effect.event, change.effect.note) == said


def test_tasks_that_ran_to_their_end_share_one_effect() -> None:
    one, other = (decide(a_task("started", id=id), Done(id)) for id in "ab")
    assert one.effect is other.effect is completion("started", "w")
    assert (one.result, other.result) == ("a", "b")


def test_a_checkpoint_that_comes_with_the_end_says_that_it_was_not_lost_in_vain() -> None:
    plain = decide(a_task("started"), Done())
    saved = with_checkpoint(plain, b"saved")
    assert saved.checkpoint == b"saved"
    assert saved.effect.sets == {**plain.effect.sets, "losses": 0}
    assert saved.effect.times == {"updated": 0.0, "checkpoint_at": 0.0}
    assert "losses" not in plain.effect.sets


def test_only_what_an_attempt_does_is_told_late() -> None:
    assert date_back(decide(a_task("started"), Done()), 60.0).ago == 60.0
    assert date_back(decide(a_task("pending"), Cancel()), 60.0).ago == 0.0
