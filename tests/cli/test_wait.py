"""`stayer wait`: the exit code says how it ended."""

from __future__ import annotations

import signal

import pytest

from stayer.core.happenings import Done, Fail
from stayer.core.model import Fault
from stayer.service.control import queues as queue_control
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.cli.running import Apart, Here
from tests.contract.builders import apply, new, started, submit


@pytest.fixture(autouse=True)
def ended(store: Store, worker: str) -> None:
    """A task that ended in each way, and one that has not."""
    apply(store, started(store, id="good"), Done())
    apply(store, started(store, id="bad"), Fail(Fault("ValueError", "no\nway")))
    submit(store, new("gone"), new("open"))
    control.cancel(store, "gone")


@pytest.mark.parametrize(
    ("ids", "code"),
    [
        (["good"], 0),
        (["good", "good"], 0),
        (["bad"], 1),
        (["gone"], 3),
        (["good", "gone"], 3),
        (["gone", "bad", "good"], 1),
        (["good", "open"], 124),
        (["bad", "open"], 124),
        (["good", "nope"], 2),
        (["open", "nope"], 2),
    ],
)
def test_the_exit_code_is_the_worst_ending(stayer: Here, ids: list[str], code: int) -> None:
    assert stayer("wait", *ids, "--timeout", "10ms").code == code


def test_each_is_printed_as_it_ended(stayer: Here) -> None:
    done = stayer("wait", "good", "bad", "gone")

    assert sorted(line.split(" in ")[0] for line in done.lines) == [
        r"bad failed: ValueError: no\nway", "gone cancelled", "good complete",
    ]  # fmt: skip
    assert done.err == ""


def test_json_is_an_array_of_records(stayer: Here) -> None:
    done = stayer("wait", "good", "bad", "--json")

    assert {task["id"]: task["state"] for task in done.json} == {
        "good": "complete",
        "bad": "failed",
    }
    assert done.code == 1


def test_time_that_is_over_is_said(stayer: Here) -> None:
    done = stayer("wait", "open", "good", "--timeout", "0", "--json")

    assert [task["id"] for task in done.json] == ["good"]
    assert done.err == "stayer: open did not end in 0s: wait again, or cancel\n"


def test_an_unknown_id_is_said_and_the_others_are_waited_for(stayer: Here) -> None:
    done = stayer("wait", "nope", "good")

    assert (done.code, len(done.lines)) == (2, 1)
    assert done.err.startswith("stayer: no task 'nope'")


def test_bad_input_is_one_line(stayer: Here) -> None:
    stayer("wait").refuses("give the ids of tasks, or a filter")
    stayer("wait", "good", "--timeout", "later").refuses("--timeout", "not a duration")
    stayer("wait", "good", "--timeout", "-1").refuses("-1")


def test_it_waits_for_what_is_still_open(apart: Apart, store: Store) -> None:
    # Given somebody who waits: for the first is told, so it is waiting for the second
    process = apart.start("wait", "good", "open")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("good complete")

    # When the other one ends
    control.cancel(store, "open")

    # Then that is told, too
    out, err = process.communicate()
    assert (out, err) == ("open cancelled\n", "")
    assert process.returncode == 3


def test_control_c_is_quiet(apart: Apart) -> None:
    process = apart.start("wait", "good", "open")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("good complete")

    process.send_signal(signal.SIGINT)

    out, err = process.communicate()
    assert (process.returncode, out, err) == (130, "", "")


def test_a_task_that_is_deleted_meanwhile_is_an_error(apart: Apart, store: Store) -> None:
    process = apart.start("wait", "good", "open")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("good complete")

    queue_control.drop_queue(store, "q", force=True)

    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert err.startswith("stayer: no task 'open'")
