"""`stayer cron`, and what `stayer queues set` says of keeping."""

from __future__ import annotations

import pytest

from stayer.service.control import schedules
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import fill

NIGHTLY = ("nightly", "30 2 * * *", "--tz", "Europe/Berlin", "-q", "reports")


def test_a_schedule_is_added_and_listed(stayer: Here, store: Store) -> None:
    said = stayer("cron", "add", *NIGHTLY, "--retries", "2", "--expire", "1h", "--", "make", "-k")
    assert said.works().out.startswith("nightly next ")
    assert "02:30:00 CE" in said.out

    made = schedules.get(store, "nightly")

    assert (made.task.command, made.task.queue, made.zone) == (
        ("make", "-k"), "reports", "Europe/Berlin",
    )  # fmt: skip
    assert (made.task.owner, made.task.policy.retries, made.task.expire) == ("ann", 2, 3600.0)
    assert (made.overlap, made.catch_up, made.origin) == ("skip", "last", None)
    heading, line = stayer("cron", "ls").works().lines
    assert heading.split() == [
        "NAME", "CRON", "ZONE", "QUEUE", "KIND", "NEXT", "LAST", "TASK", "STATE",
    ]  # fmt: skip
    assert line.split()[:9] == [
        "nightly",
        *["30", "2", "*", "*", "*"],
        "Europe/Berlin",
        "reports",
        "make",
    ]


def test_all_policies_can_be_said(stayer: Here) -> None:
    said = stayer(
        "cron", "add", "s", "@daily", "--overlap", "cancel", "--catch-up", "all", "--jitter", "5m",
        "--paused", "--name", "jobs.f", "--data", '{"n": 1}', "--json",
    )  # fmt: skip
    made = said.works().json
    assert [made[key] for key in ("overlap", "catch_up", "jitter", "paused", "next")][:4] == [
        "cancel", "all", 300.0, True,
    ]  # fmt: skip
    assert (made["task"]["name"], made["task"]["parameters"]) == ("jobs.f", {"n": 1})


def test_json_tells_of_the_last_task_and_of_what_follows(stayer: Here, store: Store) -> None:
    stayer("cron", "add", *NIGHTLY, "--", "make").works()
    [listed] = stayer("cron", "ls", "--json").works().json
    assert (listed["last_task"], listed["last_state"]) == (None, None)
    shown = stayer("cron", "show", "nightly", "--json").works().json
    assert shown["following"][0] == shown["next"]
    assert len(shown["following"]) == 5
    assert list(listed) == list(shown)[:-1]


def test_the_next_ticks_are_shown_one_below_the_other(stayer: Here) -> None:
    stayer("cron", "add", *NIGHTLY, "--", "make").works()
    *_, first, _, _, _, last = stayer("cron", "show", "nightly").works().lines
    assert first.startswith("next       2")
    assert last.startswith("           2")
    stayer("cron", "pause", "nightly").works()
    assert "next       paused" in stayer("cron", "show", "nightly").works().lines


def test_the_same_again_is_no_error_but_another_is(stayer: Here, store: Store) -> None:
    stayer("cron", "add", *NIGHTLY, "--", "make").works()
    stayer("cron", "add", *NIGHTLY, "--", "make").works()
    stayer("cron", "add", *NIGHTLY, "--", "other").refuses("another schedule nightly", "--replace")
    stayer("cron", "add", *NIGHTLY, "--replace", "--", "other").works()
    assert schedules.get(store, "nightly").task.command == ("other",)


def test_it_is_paused_resumed_run_and_removed(stayer: Here, store: Store) -> None:
    stayer("cron", "add", *NIGHTLY, "--", "make").works()
    assert stayer("cron", "pause", "nightly").works().out == "nightly paused\n"
    assert "paused" in stayer("cron", "ls").works().out
    assert stayer("cron", "resume", "nightly").works().out.startswith("nightly next ")
    id = stayer("cron", "run", "nightly").works().out.strip()
    [task] = store.get([id])
    assert task is not None
    assert (task.queue, task.command, task.state) == ("reports", ("make",), "pending")
    assert schedules.get(store, "nightly").last_task is None
    assert stayer("cron", "rm", "nightly").works().out == "nightly removed\n"
    assert store.schedules() == []


@pytest.mark.parametrize("verb", ["show", "rm", "pause", "resume", "run"])
def test_one_that_is_not_there_is_refused(stayer: Here, store: Store, verb: str) -> None:
    stayer("cron", verb, "none").refuses("no schedule 'none'", "stayer cron ls")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["s", "61 * * * *"], ["bad minute", "write five fields"]),
        (["s", "* * * *"], ["wrong number of fields"]),
        (["s", "0 0 30 2 *"], ["cron expression"]),
        (["s", "@daily", "--tz", "Mars"], ["time zone 'Mars'", "Europe/Berlin"]),
        (["", "@daily"], ["name ''"]),
        (["--", "-s", "@daily"], ["name '-s'", "option"]),
        (["x" * 151, "@daily"], ["151 characters"]),
        (["s", "@daily", "--overlap", "maybe"], ["overlap"]),
        (["s", "@daily", "--name", "f", "--", "true"], ["either a name or a command"]),
        (["s", "@daily", "--jitter", "long"], ["jitter"]),
        (["s"], ["CRON"]),
    ],
)
def test_what_makes_no_sense_is_refused(
    stayer: Here, store: Store, arguments: list[str], words: list[str]
) -> None:
    stayer("cron", "add", *arguments).refuses(*words)
    assert store.schedules() == []


def test_an_empty_list_says_what_to_do(stayer: Here, store: Store) -> None:
    done = stayer("cron", "ls")
    assert (done.code, done.out) == (0, "")
    assert "stayer cron add" in done.err


def test_a_queue_is_told_how_long_to_keep(stayer: Here, store: Store) -> None:
    fill(store, 1)
    said = stayer("queues", "set", "q", "--keep-complete", "7d", "--keep-log", "forever")
    assert said.works().lines == ["q keep complete 7d 0h", "q keep log forever"]
    assert store.queues()[0].retention["complete"] == 7 * 86400
    shown = stayer("queues", "set", "q", "--keep-complete", "default", "--json").works().json
    assert list(shown["retention"]) == ["log"]
    assert stayer("queues", "set", "q", "--limit", "3").works().out == "q limit 3\n"
    assert store.queues()[0].retention


@pytest.mark.parametrize("keep", ["7", "soon", "-1d"])
def test_a_time_that_is_none_is_refused(stayer: Here, store: Store, keep: str) -> None:
    fill(store, 1)
    stayer("queues", "set", "q", "--keep-failed", keep).refuses("--keep-failed")


@pytest.mark.parametrize("option", [["--expire", "1h"], ["--start-before", "+1h"]], ids=str)
def test_a_task_may_expire(stayer: Here, option: list[str]) -> None:
    record = stayer("add", *option, "--json").works().json
    assert record["start_before"] is not None


def test_one_way_to_expire_is_enough(stayer: Here) -> None:
    both = ("--expire", "1h", "--start-before", "+1h")
    stayer("add", *both).refuses("either --start-before or --expire")


def test_a_schedule_has_no_task_to_be_near_to(stayer: Here) -> None:
    assert "--near" not in stayer("cron", "add", "--help").works().out
    done = stayer("cron", "add", "n", "* * * * *", "--near", "x", "--", "true")
    assert (done.code, "--near" in done.err, "runs after" in done.err) == (2, True, False)


def test_without_a_command_it_lists_them(stayer: Here) -> None:
    stayer("cron", "add", "nightly", "@daily", "--", "true").works()
    assert stayer("cron").works().out == stayer("cron", "ls").works().out
