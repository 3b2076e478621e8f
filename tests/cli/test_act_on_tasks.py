"""`stayer cancel`, `retry`, `hold`, `release`."""

from __future__ import annotations

import time

import pytest

from stayer.core.happenings import Done, Fail
from stayer.core.model import Fault, Filter, Policy, Report
from stayer.core.worker_model import EVERYTHING
from stayer.service.control import tasks as control
from stayer.store import Store
from stayer.stores import open_store
from tests.cli.running import Here
from tests.contract.builders import apply, beat, get, new, register, started, submit


@pytest.fixture(autouse=True)
def tasks(store: Store, worker: str) -> None:
    """One in each condition, in the queue q, and one elsewhere."""
    apply(store, started(store, id="complete"), Done())
    apply(store, started(store, id="failed"), Fail(Fault("E")))
    submit(store, new("cancelled"))
    control.cancel(store, "cancelled")
    started(store, id="started")
    submit(store, new("pending", name="f"), new("scheduled", delay=99), new("held", held=True))
    submit(store, new("elsewhere", queue="other"))


def in_state(store: Store, state: str) -> set[str]:
    return {task.id for task in control.find_all(store, Filter()) if task.state == state}


def test_cancel_ends_what_waits_and_asks_what_runs(stayer: Here, store: Store) -> None:
    done = stayer("cancel", "pending", "started", "--grace", "5s").works()

    assert done.lines == ["pending cancelled", "started asked to stop"]
    assert get(store, "pending").state == "cancelled"
    assert [(order.verb, order.arguments) for order in get(store, "started").orders] == [
        ("cancel", {"grace": 5.0})
    ]


def test_all_are_tried_and_each_failure_is_a_line(stayer: Here, store: Store) -> None:
    done = stayer("cancel", "nope", "complete", "pending", "scheduled")

    assert done.lines == ["pending cancelled", "scheduled cancelled"]
    assert done.err.splitlines()[0].startswith("stayer: no task 'nope'")
    assert done.err.splitlines()[1].startswith("stayer: task complete is complete")
    assert done.code == 2


def test_the_same_id_twice_is_once(stayer: Here) -> None:
    assert stayer("hold", "pending", "pending").works().lines == ["pending held"]


def test_a_filter_means_what_has_not_ended(stayer: Here, store: Store) -> None:
    done = stayer("cancel", "-q", "q", "--yes").works()

    assert done.lines == ["3 tasks cancelled", "1 task asked to stop"]
    assert in_state(store, "pending") == {"elsewhere"}
    assert in_state(store, "complete") == {"complete"}


def test_a_filter_can_name_states_and_names(stayer: Here, store: Store) -> None:
    assert stayer("cancel", "--state", "scheduled", "-y").works().lines == ["1 task cancelled"]
    assert stayer("cancel", "--name", "f", "-y").works().lines == ["1 task cancelled"]
    assert in_state(store, "cancelled") == {"cancelled", "scheduled", "pending"}


def test_cancel_tells_of_those_that_were_to_run_after(stayer: Here, store: Store) -> None:
    # Given some that wait, one of them for something that nobody cancels
    submit(store, new("then", after=("pending",)), new("last", after=("then",)))
    submit(store, new("other", after=("elsewhere",)))
    submit(store, new("anyhow", after=("pending",), policy=Policy(when_failed="run")))

    # When one is cancelled, then many
    done = stayer("cancel", "pending")
    done.works("2 tasks that were to run after these were cancelled too")
    assert done.lines == ["pending cancelled"]
    many = stayer("cancel", "-q", "other", "--yes", "--json")
    many.works("1 task that was to run after these was cancelled too")

    # Then these are, and no others
    assert in_state(store, "cancelled") >= {"then", "last", "other"}
    assert get(store, "anyhow").state == "pending"
    stayer("cancel", "anyhow").works()


def test_retry_by_filter_leaves_complete_tasks_alone(stayer: Here, store: Store) -> None:
    assert stayer("retry", "-q", "q", "--yes").works().lines == ["2 tasks pending"]
    assert get(store, "complete").state == "complete"
    assert stayer("retry", "--state", "complete", "--yes").works().lines == ["1 task pending"]
    assert in_state(store, "pending") >= {"complete", "failed", "cancelled"}


def test_retry_by_id_takes_any_finished_task(stayer: Here) -> None:
    assert stayer("retry", "complete", "failed").works().lines == [
        "complete pending", "failed pending",
    ]  # fmt: skip
    stayer("retry", "pending").refuses("only a finished task")


def test_retry_from_the_start_forgets_what_was_saved(
    stayer: Here, store: Store, worker: str
) -> None:
    ids = ["goes-on", "anew", "by-filter"]
    for number, id in enumerate(ids, 2):
        [task] = submit(store, new(id, "saves"))
        [held] = store.reserve(worker, ["saves"], 1, EVERYTHING)
        report = Report(id=task.id, attempt=1, checkpoint=b"half")
        beat(store, worker, number, report)
        apply(store, held, Fail(Fault("Boom")))
    stayer("retry", "goes-on", "--from-checkpoint").works()
    stayer("retry", "anew", "--from-start").works()
    assert stayer("retry", "-q", "saves", "--from-start", "-y").works().lines == ["1 task pending"]
    assert [store.checkpoint(id) is None for id in ids] == [False, True, True]


def test_hold_and_release(stayer: Here, store: Store) -> None:
    assert stayer("hold", "pending", "started").works().lines == [
        "pending held",
        "started runs on, and is held if it comes back",
    ]
    assert stayer("hold", "-q", "q", "--yes").works().lines == ["1 task held"]
    assert stayer("release", "-q", "q", "--yes").works().lines == ["4 tasks released"]
    assert stayer("release", "pending").works().lines == ["pending was not held"]
    assert not any(task.held for task in control.find_all(store, Filter()))
    stayer("hold", "complete").refuses("nothing to hold")


def test_json_is_an_array_of_records(stayer: Here) -> None:
    by_id = stayer("cancel", "pending", "nope", "--json")
    by_filter = stayer("retry", "--state", "failed", "--yes", "--json").works()

    assert [(task["id"], task["state"]) for task in by_id.json] == [("pending", "cancelled")]
    assert by_id.code == 2
    assert [(task["id"], task["state"]) for task in by_filter.json] == [("failed", "pending")]
    assert stayer("cancel", "--name", "none", "--yes", "--json").json == []


def test_nothing_that_matches_is_no_error(stayer: Here) -> None:
    done = stayer("cancel", "--name", "none")

    assert (done.code, done.out) == (0, "")
    assert done.err == "stayer: no task to cancel matches\n"


@pytest.mark.parametrize("verb", ["cancel", "retry", "hold", "release"])
def test_a_filter_without_a_terminal_needs_yes(stayer: Here, store: Store, verb: str) -> None:
    before = list(control.find_all(store, Filter()))

    stayer(verb, "-q", "q", input="y\n").refuses("--yes", "task", "?")

    assert list(control.find_all(store, Filter())) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["ids", "-q QUEUE"]),
        (["pending", "-q", "q"], ["either ids or a filter"]),
        (["--yes"], ["ids", "-q QUEUE"]),
        (["-q", "nope", "--yes"], ["'nope'", "other, q"]),
        (["--state", "over", "--yes"], ["'over'"]),
        (["--since", "never", "--yes"], ["--since"]),
    ],
)
@pytest.mark.parametrize("verb", ["cancel", "retry", "hold", "release"])
def test_bad_input_is_one_line_and_changes_nothing(
    stayer: Here, store: Store, verb: str, arguments: list[str], words: list[str]
) -> None:
    before = list(control.find_all(store, Filter()))

    stayer(verb, *arguments).refuses(*words)

    assert list(control.find_all(store, Filter())) == before


def test_an_absurd_grace_is_refused(stayer: Here) -> None:
    stayer("cancel", "pending", "--grace", "ages").refuses("--grace", "not a duration")


def test_a_cancel_that_nobody_hears_says_so(stayer: Here, url: str) -> None:
    earlier = open_store(url, clock=lambda: time.time() - 500)
    earlier.setup()
    register(earlier, "old", queues=("x",))
    started(earlier, "old", id="t", queue="x")
    earlier.close()

    said = stayer("cancel", "t").works().out

    assert said.startswith("t asked to stop, but the worker on node-of-old is silent")
    assert "declared lost" in said


@pytest.mark.parametrize("verb", ["cancel", "hold"])
def test_a_dry_run_names_tasks_and_does_nothing(stayer: Here, store: Store, verb: str) -> None:
    submit(store, new("a", queue="x"), new("b", queue="x"))

    tried = stayer(verb, "-q", "x", "--dry-run")

    assert (tried.code, sorted(tried.lines)) == (0, ["a", "b"])
    assert f"to {verb}: 2 tasks; nothing was done" in tried.err
    assert [(get(store, id).state, get(store, id).held) for id in "ab"] == [("pending", False)] * 2


def test_what_has_ended_can_not_be_released(stayer: Here) -> None:
    stayer("release", "complete").refuses("task complete is complete", "nothing to release")
    stayer("release", "cancelled").refuses("task cancelled is cancelled")


def test_release_says_so_if_a_task_was_not_held(stayer: Here, store: Store) -> None:
    assert stayer("release", "pending", "held").works().lines == [
        "pending was not held",
        "held released",
    ]
    assert stayer("release", "held").works().lines == ["held was not held"]
    assert stayer("release", "-q", "q").works("no task to release matches").lines == []
    assert [event.event for event in store.events("pending")] == ["pending"]


def test_a_retried_task_that_is_still_held_says_so(stayer: Here) -> None:
    stayer("cancel", "held").works()

    assert stayer("retry", "held").works().lines == ["held pending held"]


def test_a_cancelled_task_that_was_scheduled_keeps_its_eta(stayer: Here, store: Store) -> None:
    eta = get(store, "scheduled").eta
    stayer("cancel", "scheduled").works()

    assert stayer("retry", "scheduled").works().lines == ["scheduled scheduled"]
    assert get(store, "scheduled").eta == eta

    stayer("cancel", "scheduled").works()
    assert stayer("retry", "--now", "scheduled").works().lines == ["scheduled pending"]
    assert get(store, "scheduled").eta is None


@pytest.mark.parametrize(
    "verb",
    [("cancel",), ("retry",), ("hold",), ("release",), ("delete",), ("pause",), ("resume",),
     ("signal", "TERM"), ("stack",), ("set", "--priority", "5")],
)  # fmt: skip
def test_what_changes_a_task_wants_four_letters_of_its_id(
    stayer: Here, store: Store, verb: tuple[str, ...]
) -> None:
    drawn = stayer("add", "-q", "q").works().out.strip()
    name, *rest = verb

    for length in range(1, 4):
        stayer(name, drawn[:length], *rest).refuses(
            f"'{drawn[:length]}' is too short", "4 letters", drawn
        )
    assert drawn in stayer("show", drawn[:3]).works().out
    stayer(name, drawn[:4], *rest, "--help")
    assert "is too short" not in stayer(name, drawn[:4], *rest).err


def test_a_short_id_is_enough_if_it_is_the_whole_one(stayer: Here, store: Store) -> None:
    submit(store, new("a"))

    assert stayer("cancel", "a").works().lines == ["a cancelled"]
    assert stayer("delete", "a").works().lines == ["a deleted"]
    stayer("delete", "a").refuses("no task 'a'")
