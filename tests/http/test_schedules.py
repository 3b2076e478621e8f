"""Schedules over HTTP."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from msgspec.structs import replace

from stayer.core.errors import Refused
from stayer.core.model import Value
from stayer.core.schedules import parse
from stayer.core.schedules.model import Firing, Schedule
from stayer.service.control import schedules
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import fill, get, new
from tests.http.serving import Site

NIGHTLY: dict[str, Any] = {
    "name": "nightly",
    "cron": "30 2 * * *",
    "zone": "Europe/Berlin",
    "jitter": "5m",
    "task": {"queue": "q", "command": ["make"], "retries": 2},
}


def test_a_schedule_is_made_once(site: Site, store: Store) -> None:
    first = site("POST", "/v1/schedules", NIGHTLY)
    again = site("POST", "/v1/schedules", NIGHTLY)
    assert (first.status, again.status) == (201, 200)
    made = schedules.get(store, "nightly")
    assert {**parse.record(made), "last_state": None} == first.json == again.json
    assert (made.jitter, made.task.owner) == (300.0, "the operate token")
    other = {**NIGHTLY, "cron": "45 2 * * *"}
    site("POST", "/v1/schedules", other).is_problem(409, "refused", "another schedule")
    assert site("POST", "/v1/schedules?replace=true", other).status == 200
    assert schedules.get(store, "nightly").cron == "45 2 * * *"


def test_they_are_listed_with_the_state_of_their_last_task(site: Site, store: Store) -> None:
    site("POST", "/v1/schedules", NIGHTLY)
    made = schedules.get(store, "nightly")
    store.fire(
        Firing(name="nightly", updated=made.updated, seen=made.last, last=made.last, next=made.next,
               tasks=(new("first"),))
    )  # fmt: skip
    [listed] = site("GET", "/v1/schedules", role="read").json["schedules"]
    assert (listed["last_task"], listed["last_state"]) == ("first", "pending")
    assert site("GET", "/v1/schedules?name=other").json == {"schedules": []}
    shown = site("GET", "/v1/schedules/nightly", role="read").json
    assert shown["following"][0] == shown["next"]
    assert len(shown["following"]) == 5


def test_it_is_changed(site: Site, store: Store) -> None:
    site("POST", "/v1/schedules", NIGHTLY)
    changed = site("PATCH", "/v1/schedules/nightly", {"zone": "UTC", "overlap": "cancel"})
    assert (changed.status, changed.json["zone"], changed.json["overlap"]) == (200, "UTC", "cancel")
    site("PATCH", "/v1/schedules/nightly", {"task": {"name": "f"}, "jitter": "1h"})
    made = schedules.get(store, "nightly")
    assert (made.task.name, made.task.command, made.jitter) == ("f", None, 3600.0)
    site("PATCH", "/v1/schedules/nightly", {"cron": "nonsense"}).is_problem(400, "bad-input")


def test_it_is_paused_resumed_run_and_removed(site: Site, store: Store) -> None:
    site("POST", "/v1/schedules", NIGHTLY)
    assert site("POST", "/v1/schedules/nightly/pause").json["paused"] is True
    assert site("POST", "/v1/schedules/nightly/resume").json["paused"] is False
    ran = site("POST", "/v1/schedules/nightly/run")
    assert (ran.status, get(store, ran.json["id"]).command) == (201, ("make",))
    assert site("DELETE", "/v1/schedules/nightly").status == 204
    assert store.schedules() == []
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/run"), ("POST", "/pause")):
        reply = site(method, f"/v1/schedules/nightly{path}")
        reply.is_problem(404, "unknown-schedule", "no schedule")


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"cron": "* * * * *"}, "name"),
        ({"name": "s", "cron": "* * *"}, "five fields"),
        ({"name": "s", "cron": "@daily", "zone": "Mars"}, "time zone"),
        ({"name": "s", "cron": "@daily", "overlap": "no"}, "overlap"),
        ({"name": "s", "cron": "@daily", "task": {"id": "x"}}, "id is for one task"),
        ({"name": "s", "cron": "@daily", "task": {"eta": 2e9}}, "eta is for one task"),
        ({"name": "s", "cron": "@daily", "task": {"quue": "x"}}, "quue"),
        ({"name": "s", "cron": "@daily", "colour": "x"}, "colour"),
        ({"name": "s", "cron": "@daily", "jitter": "soon"}, "soon"),
    ],
)
def test_what_makes_no_sense_is_refused(site: Site, body: dict[str, Any], word: str) -> None:
    site("POST", "/v1/schedules", body).is_problem(400, "bad-input", word)


def test_a_queue_is_told_how_long_to_keep(site: Site, store: Store) -> None:
    fill(store, 1)
    kept = site("PATCH", "/v1/queues/q", {"retention": {"complete": 60, "log": 5}})
    assert kept.json["retention"] == {"complete": 60.0, "log": 5.0}
    site("PATCH", "/v1/queues/q", {"retention": {"complete": None}})
    assert store.queues(["q"])[0].retention == {"log": 5.0}
    site("PATCH", "/v1/queues/q", {"retention": {"failed": -1}}).is_problem(400, "bad-input")


def test_a_task_may_expire(site: Site, store: Store) -> None:
    site("POST", "/v1/tasks", {"id": "a", "expire": "10m"})
    site("POST", "/v1/tasks", {"id": "b", "start_before": "2126-01-01T00:00:00Z"})
    task = get(store, "a")
    assert task.start_before == pytest.approx(task.created + 600)
    assert get(store, "b").start_before == 4922899200.0
    both = {"expire": 1, "start_before": 2e9}
    site("POST", "/v1/tasks", both).is_problem(400, "bad-input", "either")


@pytest.mark.parametrize("value", [None, {"a": [1]}, b"\xff raw"], ids=repr)
def test_the_remote_store_speaks_of_schedules(site: Site, store: Store, value: Value) -> None:
    with closing(open_store(site.url, token=site.tokens["operate"])) as remote:
        wanted = Schedule(
            name="a/b c", cron="*/5 * * * *", overlap="queue", origin="/x",
            task=replace(new("-", parameters=value, expire=5.0, tags=("t",), owner="ann"), id=""),
        )  # fmt: skip
        put = remote.put_schedule(wanted)
        [there] = store.schedules()
        assert there.task == put.task == wanted.task
        assert (there.origin, there.overlap, put.last_task) == ("/x", "queue", None)
        assert remote.schedules(["a/b c"]) == remote.schedules() == [put]
        assert put.next == there.next
        paused = remote.put_schedule(replace(put, paused=True), put.updated)
        assert paused.paused
        with pytest.raises(Refused, match="meanwhile"):
            remote.put_schedule(put, put.updated - 1)
        assert remote.drop_schedule("a/b c")
        assert not remote.drop_schedule("a/b c")
        assert remote.due_schedules(1) == [], "the server sees to them"
