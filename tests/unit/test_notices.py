"""Hooks as people write them, and when a notice is tried again."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from stayer.core.errors import BadInput
from stayer.core.model import Fault, Task
from stayer.core.notify import notices
from stayer.core.notify.hooks import key, parse_secrets, read_hook
from stayer.core.notify.notices import (
    Notice,
    list_targets,
    meaning,
    notice_record_of,
    parse,
    parse_all,
    sentence,
    wait,
)
from stayer.core.submit import checks


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("mail", "ended:mail"),
        (" mail ", "ended:mail"),
        ("failed:mail", "failed:mail"),
        ("failed,expired,failed:mail", "failed,expired:mail"),
        ("ended:mail", "ended:mail"),
        ("https://a.example", "ended:https://a.example"),
        ("https://a.example:8443/x?y=1#z", "ended:https://a.example:8443/x?y=1#z"),
        ("failed:http://[::1]:80/x", "failed:http://[::1]:80/x"),
        ("complete: https://a.example/@x:y", "complete:https://a.example/@x:y"),
    ],
)
def test_a_hook_is_kept_with_its_words(written: str, kept: str) -> None:
    assert parse(written) == kept
    assert parse(kept) == kept


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("", "whom"),
        ("failed", "whom"),
        ("failed:", "name"),
        ("finished:mail", "finished"),
        ("failed,gone:mail", "failed,gone"),
        ("two words", "name"),
        ("-mail", "name"),
        ("ftp://a.example/", "http"),
        ("https://", "http"),
        ("https:///x", "http"),
        ("https://user:pw@a.example/", "password"),
        ("https://a.example/a b", "spaces"),
        ("https://a.example/\n", None),
        ("https://a.example/\nX: y", "plain"),
        ("https://ä.example/", "plain"),
        ("https://a.example/" + "x" * 2100, "2000"),
        (7, "whom"),
        (None, "whom"),
    ],
)
def test_what_is_no_hook_is_refused(written: Any, words: str | None) -> None:
    if words is None:
        assert "\n" not in parse(written)
        return
    with pytest.raises(BadInput) as refused:
        parse(written)
    assert words in str(refused.value)
    assert "pw" not in str(refused.value)


def test_there_is_a_list_of_them_of_some_length() -> None:
    assert parse_all(["mail", "ended:mail", "chat"]) == ("ended:mail", "ended:chat")
    for bad in ("mail", 3, {"mail": 1}):
        with pytest.raises(BadInput, match="list"):
            parse_all(bad)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="too many"):
        parse_all([f"h{number}" for number in range(11)])


def test_a_submission_says_them_and_is_written_back() -> None:
    new = checks.new_task(queue="q", notify=["mail", "failed:chat"])
    assert new.notify == ("ended:mail", "failed:chat")
    assert checks.submission_json(new)["notify"] == ["ended:mail", "failed:chat"]


def test_only_what_is_asked_for_is_told() -> None:
    hooks = ("ended:a", "failed:b", "oom:c", "complete:d", "started,retrying:e")
    assert list_targets(hooks, meaning("started", "failed", "oom")) == ["a", "b", "c"]
    assert list_targets(hooks, meaning("started", "complete", "done")) == ["a", "d"]
    assert list_targets(hooks, meaning("started", "pending", "error")) == ["e"]
    assert list_targets(hooks, meaning("reserved", "started", None)) == ["e"]
    assert list_targets(hooks, meaning("started", "pending", "interrupted")) == []
    assert list_targets(hooks, meaning("started", "scheduled", "snoozed")) == []
    assert list_targets(hooks, meaning("started", "started", None)) == []


def test_waits_grow_up_to_a_limit_and_are_spread() -> None:
    waits = [wait("id", tries) for tries in range(1, 30)]
    assert 8 <= waits[0] <= 12
    assert all(one < other for one, other in pairwise(waits[:7]))
    assert max(waits) <= 1.2 * 4 * 3600
    assert sum(waits[:20]) < 3 * 86400  # the tries end about when the age does
    assert len({wait(f"id {number}", 3) for number in range(50)}) == 50
    assert wait("id", 10**6) > 0


def test_a_line_for_people_says_what_matters() -> None:
    task = Task(
        id="t",
        queue="q",
        command=("make", "all"),
        error=Fault("ValueError", "no " * 200),
        attempt=3,
    )
    notice = Notice(
        id="n",
        task="t",
        queue="q",
        event="failed",
        to="x",
        attempt=3,
        at=0.0,
        record=notice_record_of(task),
    )
    said = sentence(notice)
    assert said.startswith("t (make all) failed: ValueError: no no")
    assert said.endswith("[queue q, attempt 3]")
    assert len(said) < 300


def test_a_traceback_keeps_its_end() -> None:
    fault = Fault("E", "m", traceback="x" * 50_000 + "the end")
    error = notice_record_of(Task(id="t", queue="q", error=fault))["error"]
    assert isinstance(error, dict)
    assert str(error["traceback"]).endswith("the end")
    assert len(str(error)) < 5_000


def test_secrets_are_long_enough_and_not_shown() -> None:
    good = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    assert len(key(good)) == 24
    assert parse_secrets(f"# old\n{good}\n\n") == (good,)
    for bad in ("", "hunter2", "whsec_aGk=", "whsec_§", good.removeprefix("whsec_")):
        with pytest.raises(BadInput) as refused:
            key(bad)
        assert not bad or bad not in str(refused.value)
    with pytest.raises(BadInput):
        parse_secrets("\n")


def test_a_command_has_more_time_than_a_url() -> None:
    assert read_hook("a", {"command": ["x"]}).time_limit == 60
    assert read_hook("a", {"url": "https://a.example"}).time_limit == 15
    assert {notices.hook_name("mail"), notices.hook_name("https://a.example")} == {"mail", ""}
