"""`stayer queues`."""

from __future__ import annotations

from pathlib import Path

import pytest

from stayer.cli.declare import declare_queues
from stayer.config import load
from stayer.core.happenings import Done
from stayer.core.queue_model import Rate
from stayer.service.control import queues as queue_control
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import apply, fill, new, started, submit


def test_the_table_counts_tasks_by_state(stayer: Here, store: Store, worker: str) -> None:
    apply(store, started(store), Done())
    fill(store, 2)
    submit(store, new(queue="other"))
    queue_control.pause_queue(store, "other")
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

    assert list(queue) == [
        "name", "paused", "limit", "key_limit", "key_limits", "rate", "fair", "notify",
        "defaults", "next_start", "counts", "workers", "oldest", "retention",
    ]  # fmt: skip
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


def test_limits_of_keys_rate_and_turns_are_set_and_taken_away(stayer: Here, store: Store) -> None:
    store.set_queue("q", limit=3)
    said = stayer(
        "queues", "set", "q", "--key-limit", "2", "--key-limit", "a=b=5", "--rate", "100/1h",
        "--fair", "owner",
    ).works()  # fmt: skip
    assert said.out == "q limit 3, key 2, key a=b 5, rate 100/1h, fair owner\n"
    assert "key 2, key a=b 5, rate 100/1h, fair owner" in stayer("queues").works().out
    [queue] = store.queues()
    assert (queue.limit, queue.key_limit, queue.key_limits) == (3, 2, {"a=b": 5})
    assert (queue.rate, queue.fair) == (Rate(100, 3600.0), "owner")
    shown = stayer(
        "queues", "set", "q", "--key-limit", "none", "--key-limit", "a=b=none", "--rate", "none",
        "--fair", "none", "--json",
    ).works()  # fmt: skip
    assert [shown.json[name] for name in ("limit", "key_limit", "key_limits", "rate", "fair")] == [
        3, None, {}, None, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["set", "q"], ["--limit"]),
        (["set", "q", "--limit", "0"], ["--limit", "none"]),
        (["set", "q", "--key-limit", "0"], ["key_limit", "from 1 on"]),
        (["set", "q", "--key-limit", "a=x"], ["--key-limit a=x", "KEY=number"]),
        (["set", "q", "--rate", "100"], ["rate '100'", "100/1h"]),
        (["set", "q", "--rate", "0/1h"], ["rate", "at least 1"]),
        (["set", "q", "--rate", "5/1x"], ["rate"]),
        (["set", "q", "--fair", "nobody"], ["--fair"]),
        (["set", "q", "--default", "priority=1"], ["no default for 'priority'", "retries"]),
        (["set", "q", "--limit", "-1"], ["--limit"]),
        (["set", "q", "--limit", "²"], ["--limit"]),
        (["set", "q", "--limit", str(2**31)], ["--limit"]),
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

    assert stayer("queues", "rm", "q", "--yes").works().out == "q removed with 1 task\n"
    assert store.queues() == []


def test_drop_deletes_unfinished_tasks_by_force(stayer: Here, store: Store) -> None:
    fill(store, 1200)

    done = stayer("queues", "rm", "q", "--yes", "--force").works()

    assert done.out == "q removed with 1,200 tasks\n"
    assert store.queues() == []


def test_drop_refuses_while_a_task_runs(stayer: Here, store: Store, worker: str) -> None:
    started(store)

    stayer("queues", "rm", "q", "--yes", "--force").refuses("running")


def test_the_file_limits_queues_when_a_worker_starts(tmp_path: Path, store: Store) -> None:
    (tmp_path / "limits.toml").write_text('[queues.q]\nkey_limit = 2\nrate = "5/1m"\n')
    store.set_queue("q", limit=3)
    found = load({"config": str(tmp_path / "limits.toml")}, {"HOME": str(tmp_path)}, tmp_path)
    declare_queues(found, store)
    [queue] = store.queues()
    assert (queue.limit, queue.key_limit, queue.rate) == (3, 2, Rate(5, 60.0))


def test_a_queue_may_be_limited_and_paused_before_its_first_task(
    stayer: Here, store: Store
) -> None:
    submit(store, new(queue="q"))

    limited, paused = stayer("queues", "set", "crawl", "--limit", "2"), stayer("pause", "-q", "qq")

    assert (limited.code, limited.out) == (0, "crawl limit 2\n")
    assert limited.err == "stayer: queue crawl is new (there are q)\n"
    assert (paused.code, paused.out) == (0, "qq paused\n")
    assert "queue qq is new (there are crawl, q)" in paused.err
    found = {queue.name: (queue.limit, queue.paused) for queue in store.queues()}
    assert found == {"q": (None, False), "crawl": (2, False), "qq": (None, True)}
    stayer("resume", "-q", "nope").refuses("no queue 'nope'")


def test_defaults_are_set_and_taken_away(stayer: Here, store: Store) -> None:
    fill(store, 1)
    said = stayer(
        "queues", "set", "q", "--default", "retries=2", "--default", "time-limit=1d",
        "--default", "retry_on=oom, timeout",
    ).works()  # fmt: skip
    assert said.out == "q defaults retries 2, retry_on oom,timeout, time_limit 1d 0h\n"
    stayer("add", "-q", "q", "--id", "silent", "--", "true").works()
    stayer("add", "-q", "q", "--id", "other", "--retries", "0", "--", "true").works()
    tasks = store.get(["silent", "other"])
    assert [task.policy.retries for task in tasks if task] == [2, 0]
    assert [task.policy.time_limit for task in tasks if task] == [86400.0, 86400.0]
    left = stayer("queues", "set", "q", "--default", "retries=none").works().out
    assert left == "q defaults retry_on oom,timeout, time_limit 1d 0h\n"
