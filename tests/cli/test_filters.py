"""Filters on every verb: the same tasks, asked before, or only named."""

from __future__ import annotations

import pytest

from stayer.core.happenings import Done
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import apply, get, new, started, submit


@pytest.fixture(autouse=True)
def tasks(store: Store, worker: str) -> None:
    """Two of each condition with the tag `t`, and one of each without."""
    for name in ("a", "b", "other"):
        tags = () if name == "other" else ("t",)
        apply(store, started(store, id=f"done-{name}", tags=tags), Done())
        started(store, id=f"runs-{name}", tags=tags)
    for name in ("a", "b", "other"):
        tags = () if name == "other" else ("t",)
        submit(store, new(f"waits-{name}", tags=tags))


def orders(store: Store, id: str) -> list[str]:
    return [order.verb for order in get(store, id).orders]


@pytest.mark.parametrize("verb", ["pause", "resume", "signal"])
def test_what_runs_is_meant(stayer: Here, store: Store, verb: str) -> None:
    words = ["USR1"] if verb == "signal" else []

    done = stayer(verb, "--tag", "t", "-y", *words).works()

    assert done.lines[0].startswith("2 tasks ")
    assert orders(store, "runs-a") == orders(store, "runs-b") == [verb]
    assert orders(store, "runs-other") == orders(store, "waits-a") == []


def test_a_queue_alone_is_paused_as_a_whole_and_with_a_tag_its_tasks_are(
    stayer: Here, store: Store
) -> None:
    assert stayer("pause", "-q", "q", "--tag", "t", "-y").works().lines == [
        "2 tasks asked to pause"
    ]
    assert not store.queues(["q"])[0].paused
    assert stayer("pause", "-q", "q").works().lines == ["q paused"]
    assert store.queues(["q"])[0].paused
    assert stayer("resume", "-q", "q").works().lines == ["q resumed"]


def test_delete_forgets_what_has_ended_and_matches(stayer: Here, store: Store) -> None:
    assert stayer("delete", "--tag", "t", "-y").works().lines == ["2 tasks deleted"]
    assert store.get(["done-a", "done-b"]) == [None, None]
    assert get(store, "done-other").state == "complete"
    assert get(store, "waits-a").state == "pending"


def test_set_changes_what_has_not_ended_and_matches(stayer: Here, store: Store) -> None:
    done = stayer("set", "--tag", "t", "-y", "--priority", "7", "--time-limit", "1h").works()

    assert done.lines == ["4 tasks priority 7, time limit 1h 00m"]
    assert {get(store, f"{name}-a").priority for name in ("runs", "waits")} == {7}
    assert get(store, "done-a").priority == get(store, "waits-other").priority == 0


@pytest.mark.parametrize(
    "words", [("delete",), ("set", "--priority", "1"), ("pause",), ("resume",), ("signal", "USR1")]
)
def test_a_dry_run_names_them_and_without_a_terminal_nothing_is_done(
    stayer: Here, store: Store, words: tuple[str, ...]
) -> None:
    state = "done" if words[0] == "delete" else "runs"
    done = stayer(*words, "--tag", "t", "--state", "complete" if state == "done" else "running",
                  "--dry-run")  # fmt: skip

    assert sorted(done.lines) == [f"{state}-a", f"{state}-b"]
    assert f"to {words[0]}: 2 tasks; nothing was done" in done.err
    stayer(*words, "--tag", "t").refuses("say --yes to do it")
    assert orders(store, "runs-a") == []
    assert get(store, "done-a").state == "complete"


def test_a_signal_needs_a_name(stayer: Here, store: Store) -> None:
    stayer("signal").refuses("say which signal")
    stayer("signal", "runs-a").refuses("give the ids of tasks, or a filter")
    stayer("signal", "runs-a", "nope").refuses("is not a signal")
    assert stayer("signal", "runs-a", "runs-b", "usr1").works().lines == [
        "runs-a SIGUSR1 is on its way", "runs-b SIGUSR1 is on its way",
    ]  # fmt: skip


def test_running_is_a_state(stayer: Here, store: Store) -> None:
    found = stayer("ls", "--state", "running", "--ids").works().lines
    assert sorted(found) == ["runs-a", "runs-b", "runs-other"]


def test_words_are_searched_for(stayer: Here) -> None:
    assert stayer("ls", "--search", "WAITS -a", "--ids").works().lines == ["waits-a"]
    assert stayer("cancel", "--search", "waits -b", "-y").works().lines == ["1 task cancelled"]
    assert stayer("ls", "--search", "waits", "--state", "cancelled", "--ids").works().lines == [
        "waits-b"
    ]


def test_fields_of_ones_own_and_parameters_say_what_is_meant(stayer: Here, store: Store) -> None:
    submit(store, new("one", parameters={"src": "s3://a", "n": [1]}, meta={"team": "vision"}))
    submit(store, new("two", parameters={"src": "s3://b", "n": [1]}, meta={"team": "speech"}))

    assert stayer("ls", "--ids", "--meta", "team=vision").works().lines == ["one"]
    assert stayer("ls", "--ids", "--where", "n[0]=1").works().lines == ["two", "one"]
    shown = stayer("ls", "--where", "n[0]=1", "-o", "id,meta.team,parameters.n[0],meta").works()
    assert [line.split() for line in shown.lines] == [
        ["ID", "team", "n[0]", "META"],
        ["two", "speech", "1", "team=speech"],
        ["one", "vision", "1", "team=vision"],
    ]
    set_one = stayer("set", "-y", "--meta", "team=vision", "--set-meta", "n=3").works()
    assert set_one.lines == ["1 task meta n=3"]
    assert get(store, "one").meta == {"team": "vision", "n": 3}
    assert stayer("cancel", "-y", "--where", "src=s3://a").works().lines == ["1 task cancelled"]
    assert "team=vision n=3" in stayer("show", "one").works().out
    stayer("set", "done-a", "--set-meta", "seen=true").works()
    assert get(store, "done-a").meta == {"seen": True}


def test_a_filter_on_json_that_can_not_be_read_changes_nothing(stayer: Here, store: Store) -> None:
    stayer("cancel", "-y", "--where", "src").refuses("write NAME=VALUE")
    stayer("ls", "-o", "meta.").refuses("is no path")
    stayer("ls", "-o", "owner.name").refuses("nothing inside owner")
    assert get(store, "waits-a").state == "pending"
