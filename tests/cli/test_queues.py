"""`stayer queues`."""

from __future__ import annotations

import pytest

from stayer import control
from stayer.core.lifecycle import Done
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import apply, fill, new, started, submit


def test_the_table_counts_tasks_by_state(stayer: Here, store: Store, worker: str) -> None:
    apply(store, started(store), Done())
    fill(store, 2)
    submit(store, new(queue="other"))
    control.pause_queue(store, "other")
    store.set_queue("q", limit=3)

    heading, other, own = (line.split() for line in stayer("queues").works().lines)

    assert heading == [
        "QUEUE", "LIMIT", "PENDING", "STARTED", "COMPLETE", "FAILED", "WORKERS", "OLDEST",
    ]  # fmt: skip
    assert other[:-1] == ["other", "paused", *"10000"]
    assert own[:-1] == ["q", "3", *"20101"]


def test_a_state_has_a_column_when_it_has_tasks(stayer: Here, store: Store) -> None:
    submit(store, new(delay=99))

    heading = stayer("queues").works().lines[0].split()

    assert heading[2:4] == ["SCHEDULED", "PENDING"]


def test_json_is_an_array_of_queues(stayer: Here, store: Store) -> None:
    assert stayer("queues", "--json").works().json == []
    fill(store, 1)

    [queue] = stayer("queues", "--json").works().json

    assert list(queue) == ["name", "paused", "limit", "counts", "workers", "oldest"]
    assert (queue["name"], queue["counts"]["pending"]) == ("q", 1)


def test_a_store_without_queues_says_so(stayer: Here) -> None:
    stayer("init").works()
    done = stayer("queues")

    assert (done.code, done.out) == (0, "")
    assert "no queues" in done.err


def test_a_limit_is_set_and_taken_away(stayer: Here, store: Store) -> None:
    fill(store, 1)

    assert stayer("queues", "set", "q", "--limit", "3").works().out == "q limit 3\n"
    assert store.queues()[0].limit == 3
    assert stayer("queues", "set", "q", "--limit", "none", "--json").works().json["limit"] is None
    assert store.queues()[0].limit is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["set", "q"], ["--limit"]),
        (["set", "q", "--limit", "0"], ["--limit", "none"]),
        (["set", "q", "--limit", "-1"], ["--limit"]),
        (["set", "q", "--limit", "²"], ["--limit"]),
        (["set", "q", "--limit", str(2**31)], ["--limit"]),
        (["set", "qq", "--limit", "1"], ["'qq'", "there are q"]),
        (["set"], ["queues set --help"]),
        (["drop", "qq", "--yes"], ["'qq'", "there are q"]),
        (["drop", "q"], ["--yes", "1 task"]),
        (["drop", "q", "--yes"], ["1 unfinished", "force"]),
        (["dorp"], ["dorp"]),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    stayer: Here, store: Store, arguments: list[str], words: list[str]
) -> None:
    fill(store, 1)
    before = store.queues()

    stayer("queues", *arguments).refuses(*words)

    assert store.queues() == before


def test_drop_deletes_a_queue_whose_tasks_have_ended(
    stayer: Here, store: Store, worker: str
) -> None:
    apply(store, started(store), Done())

    assert stayer("queues", "drop", "q", "--yes").works().out == "q dropped with 1 task\n"
    assert store.queues() == []


def test_drop_deletes_unfinished_tasks_by_force(stayer: Here, store: Store) -> None:
    fill(store, 1200)

    done = stayer("queues", "drop", "q", "--yes", "--force").works()

    assert done.out == "q dropped with 1,200 tasks\n"
    assert store.queues() == []


def test_drop_refuses_while_a_task_runs(stayer: Here, store: Store, worker: str) -> None:
    started(store)

    stayer("queues", "drop", "q", "--yes", "--force").refuses("running")
