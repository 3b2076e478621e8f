"""Tokens for some queues only."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from stayer.core.errors import Refused, StoreUnreachable
from stayer.core.happenings import Done, Fail
from stayer.core.model import Fault, Policy
from stayer.core.submit.checks import new_task
from stayer.http.routes import ROUTES
from stayer.http.token_records import Role
from stayer.service.control import tasks as control
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import apply, get, new, register, submit, take_one, taken
from tests.http.serving import Reply, Site


class Confined:
    """Asks with a token for the queue `mine`."""

    def __init__(self, site: Site, role: Role) -> None:
        self._site = site
        self._token = site.access.add(f"only mine, {role}", role, ("mine",))

    def __call__(self, method: str, path: str, body: object = None, **headers: str) -> Reply:
        return self._site(
            method, path, body, role=None, Authorization=f"Bearer {self._token}", **headers
        )


@pytest.fixture
def mine(site: Site, store: Store) -> Confined:
    submit(store, new("a", "mine"), new("b", "theirs"))
    return Confined(site, "operate")


def test_it_sees_its_own_queue_alone(mine: Confined) -> None:
    assert [task["id"] for task in mine("GET", "/v1/tasks").json["tasks"]] == ["a"]
    assert [queue["name"] for queue in mine("GET", "/v1/queues").json["queues"]] == ["mine"]
    assert mine("GET", "/v1/tasks/a").status == 200
    assert mine("GET", "/v1/tasks/a/explain").status == 200
    mine("GET", "/v1/tasks/b").is_problem(404, "unknown-task")
    mine("GET", "/v1/tasks/nobody").is_problem(404, "unknown-task")
    mine("GET", "/v1/tasks?queue=theirs").is_problem(403, "forbidden", "queue mine only")
    mine("GET", "/v1/tasks?queue=mine&queue=theirs").is_problem(403, "forbidden")
    mine("GET", "/v1/queues/theirs").is_problem(403, "forbidden")
    assert mine("GET", "/v1/tasks?id=b").json["tasks"] == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/tasks"),
        ("GET", "/v1/tasks?brief=true"),
        ("GET", "/v1/tasks/c"),
        ("GET", "/v1/queues/mine/peek"),
        ("POST", "/v1/tasks/c/hold"),
        ("POST", "/v1/tasks/hold?queue=mine"),
        ("POST", "/v1/tasks/c/cancel"),
        ("GET", "/v1/tasks/c/explain"),
        ("GET", "/v1/tasks/c/log?follow=true"),
    ],
)
def test_no_route_tells_it_what_is_near_a_task_of_its_queue(
    site: Site, mine: Confined, store: Store, method: str, path: str
) -> None:
    """Somebody else has submitted it, with one of theirs to run after."""
    register(store, "w", queues=("theirs",))
    submit(store, new("secret", "theirs", priority=5))
    apply(store, take_one(store, "w", "theirs"), Done())
    submit(store, new("c", "mine", after=("secret",), policy=Policy(near="secret")))
    if "log" in path:
        control.cancel(store, "c")
    assert get(store, "c").policy.near == "secret"
    stream = {"Accept": "text/event-stream"} if "log" in path else {}
    answer = mine(method, path, {} if method == "POST" else None, **stream)
    assert answer.status == 200
    assert b"secret" not in answer.body
    assert b'"c"' in answer.body
    assert site("GET", "/v1/tasks/c").json["near"] == "secret"


def test_it_changes_its_own_queue_alone(mine: Confined, store: Store) -> None:
    assert mine("POST", "/v1/tasks/a/hold").status == 200
    mine("POST", "/v1/tasks/b/hold").is_problem(404, "unknown-task")
    mine("POST", "/v1/queues/theirs/pause").is_problem(403, "forbidden")
    mine("POST", "/v1/tasks/cancel?queue=theirs").is_problem(403, "forbidden")
    mine("POST", "/v1/tasks/cancel").is_problem(403, "forbidden", "say queue")
    assert (get(store, "a").held, get(store, "b").held) == (True, False)
    assert mine("POST", "/v1/tasks/cancel?queue=mine").status == 200
    assert (get(store, "a").state, get(store, "b").state) == ("cancelled", "pending")


def test_it_submits_to_its_own_queue_alone(mine: Confined, store: Store) -> None:
    assert mine("POST", "/v1/tasks", {"id": "mine:c"}).json["queue"] == "mine"
    mine("POST", "/v1/tasks", {"id": "d", "queue": "theirs"}).is_problem(403, "forbidden")
    mine("POST", "/v1/tasks", [{"id": "mine:e"}, {"queue": "theirs"}]).is_problem(403, "forbidden")
    after = mine("POST", "/v1/tasks", {"id": "mine:f", "after": ["b"]})
    after.is_problem(403, "forbidden", "after")
    assert store.get(["d", "mine:e", "mine:f"]) == [None] * 3


@pytest.mark.parametrize(
    "id", ["nightly-2026-12-01", "mine", "mine-1", "mine.x", "theirs:1", "mine:theirs:1", ":x", "b",
     "abcdefghijklmno2"],
)  # fmt: skip
def test_it_takes_no_id_that_others_might_choose(mine: Confined, store: Store, id: str) -> None:
    """Nor learns whether there is one."""
    answer = mine("POST", "/v1/tasks", {"id": id})
    answer.is_problem(403, "forbidden", "mine:")
    assert b"theirs only" not in answer.body
    assert [task for task in store.get([id]) if task and task.queue == "mine"] == []
    many = mine("POST", "/v1/tasks", [{}, {"id": id}])
    many.is_problem(403, "forbidden")


def test_it_chooses_ids_below_its_queue_or_leaves_them_out(mine: Confined, site: Site) -> None:
    assert mine("POST", "/v1/tasks", {"id": "mine:nightly-2026-12-01"}).status == 201
    assert mine("POST", "/v1/tasks", {"id": "mine:nightly-2026-12-01"}).status == 200
    drawn = mine("POST", "/v1/tasks", {})
    assert (drawn.status, drawn.json["id"][:5]) == (201, "mine:")
    many = mine("POST", "/v1/tasks", [{}, {}]).json["tasks"]
    assert [task["id"][:5] for task in many] == ["mine:", "mine:"]
    secret = site.access.add("a client", "submit", ("mine", "a:b"))
    shown: Any = {"role": None, "Authorization": f"Bearer {secret}"}
    assert site("POST", "/v1/tasks", {"id": "a:b:1", "queue": "a:b"}, **shown).status == 201
    site("POST", "/v1/tasks", {"id": "a:b:1", "queue": "mine"}, **shown).is_problem(
        403, "forbidden"
    )
    with closing(open_store(site.url, token=secret)) as remote:
        own = new_task(queue="mine")  # a client draws ids itself
        for fresh in (True, False):  # and submits again what may not have come
            [answer] = remote.submit([own])
            assert (answer.task.id, answer.fresh) == (f"mine:{own.id}", fresh)
        some = [new_task(queue="mine"), new_task(queue="a:b"), new_task(queue="mine", id="mine:2")]
        ids = [answer.task.id for answer in remote.submit(some)]
        assert ids == [f"mine:{some[0].id}", f"a:b:{some[1].id}", "mine:2"]
        with pytest.raises(Refused, match="queues mine, a:b only"):
            remote.submit([new_task(queue="theirs")])


def test_what_a_client_may_have_submitted_is_named_as_it_is_there(
    site: Site, mine: Confined, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = site.access.add("a client", "submit", ("mine",))
    with closing(open_store(site.url, token=secret)) as remote:
        remote.submit([new_task(queue="mine")])

        def lost(*_: object, **__: object) -> None:
            raise StoreUnreachable("the answer was lost")

        monkeypatch.setattr(remote, "_ask", lost)
        task = new_task(queue="mine")
        with pytest.raises(StoreUnreachable) as found:
            remote.submit([task])
    assert found.value.drawn == (f"mine:{task.id}",)


def test_a_token_that_may_choose_any_id_learns_nothing_of_others(
    site: Site, mine: Confined
) -> None:
    secret = site.access.add("trusted", "submit", ("mine",), any_id=True)
    shown: Any = {"role": None, "Authorization": f"Bearer {secret}"}
    assert site("POST", "/v1/tasks", {"id": "nightly"}, **shown).status == 201
    answer = site("POST", "/v1/tasks", {"id": "b"}, **shown)
    answer.is_problem(403, "forbidden", "taken")
    assert b"theirs" not in answer.body


def test_the_owner_is_who_submits(mine: Confined, site: Site) -> None:
    made = mine("POST", "/v1/tasks", {"owner": "somebody else"})
    assert made.json["owner"] == "only mine, operate"
    assert site("POST", "/v1/tasks", {"owner": "ann"}).json["owner"] == "ann"


def test_the_reasons_name_no_task_of_others(mine: Confined, site: Site) -> None:
    for id in ("up-theirs-1", "up-theirs-2"):
        site("POST", "/v1/tasks", {"id": id, "queue": "theirs"})
    site("POST", "/v1/tasks", {"id": "waits", "queue": "mine", "after": ["up-theirs-1"]})
    both = ["up-theirs-1", "up-theirs-2"]
    site("POST", "/v1/tasks", {"id": "waits-2", "queue": "mine", "after": both})
    assert b"up-theirs-1" in site("GET", "/v1/tasks/waits/explain").body
    for id, words in (
        ("waits", "for another task to end"),
        ("waits-2", "for 2 other tasks to end"),
    ):
        explained = mine("GET", f"/v1/tasks/{id}/explain")
        assert explained.json["reasons"][0] == {"reason": "waiting", "text": words}
        assert b"theirs" not in explained.body


def test_each_of_many_is_answered_for(site: Site, mine: Confined, store: Store) -> None:
    """One id that others have must not hide that the rest was accepted."""
    control.cancel(store, "b")
    submit(store, new("gone", "theirs"))
    control.cancel(store, "gone")
    assert store.purge(["gone"], ["cancelled"], float("inf"), 10) == ["gone"]

    secret = site.access.add("trusted", "submit", ("mine",), any_id=True)
    asked = [{"id": "c"}, {"id": "b"}, {"id": "gone"}, {"id": "a"}]
    answer = site("POST", "/v1/tasks", asked, role=None, Authorization=f"Bearer {secret}")

    assert answer.status == 201
    fresh, taken, gone, known = answer.json["tasks"]
    assert (fresh["id"], fresh["fresh"], known["id"], known["fresh"]) == ("c", True, "a", False)
    for refused, id in ((taken, "b"), (gone, "gone")):
        assert refused.keys() == {"id", "fresh", "refused"}
        assert (refused["id"], refused["fresh"]) == (id, False)
        assert "taken in a queue of others: choose another" in refused["refused"]
    assert b"theirs" not in answer.body
    assert (get(store, "c").queue, get(store, "b").queue) == ("mine", "theirs")


def test_a_client_is_told_what_was_refused_and_what_was_not(
    site: Site, mine: Confined, store: Store
) -> None:
    secret = site.access.add("a client", "submit", ("mine",), any_id=True)
    with closing(open_store(site.url, token=secret)) as remote:
        with pytest.raises(Refused, match=r"'b' is taken.*; the other 1 of its request"):
            remote.submit([new("c", "mine"), new("b", "mine")])
        with pytest.raises(Refused, match=r"'b' is taken[^;]*$"):
            remote.submit([new("b", "mine")])
    assert get(store, "c").state == "pending"


def test_it_sees_the_failures_of_its_own_queue_alone(mine: Confined, store: Store) -> None:
    register(store, queues=("mine", "theirs"))
    for id, queue in (("x", "mine"), ("y", "theirs")):
        control.cancel(store, "a" if queue == "mine" else "b")
        apply(store, taken(store, queue=queue, id=id), Fail(Fault("Boom")))
    seen = mine("GET", "/v1/failures").json
    assert (seen["tasks"], seen["failures"][0]["example"]) == (1, "x")
    mine("GET", "/v1/failures?queue=theirs").is_problem(403, "forbidden")


def test_it_hears_of_its_own_queue_alone(mine: Confined, store: Store) -> None:
    heard = mine("GET", "/v1/events?since=0", Accept="application/json").json["events"]
    assert {event["id"] for event in heard} == {"a"}
    mine("GET", "/v1/events?queue=theirs", Accept="application/json").is_problem(403, "forbidden")


ALLOWED = {"/v1/tasks", "/v1/failures", "/v1/queues", "/v1/events", "/v1/clock", "/v1/session"}


@pytest.mark.parametrize(
    "route",
    [
        route
        for route in ROUTES
        if route.role not in (None, "work")
        and not route.path.startswith(("/v1/tasks/", "/v1/queues/"))
        and (route.method, route.path) != ("PUT", "/v1/files/{sha256}")
        and (route.path not in ALLOWED or (route.method, route.path) == ("DELETE", "/v1/session"))
    ],
    ids=lambda route: f"{route.method} {route.path}",
)
def test_what_is_for_all_queues_is_not_for_it(mine: Confined, route) -> None:
    path = route.path.replace("{id}", "a").replace("{name}", "mine")
    mine(route.method, path).is_problem(403, "forbidden", "queue mine only")


def test_other_tasks_are_not_reached_through_its_own(mine: Confined) -> None:
    mine("GET", "/v1/tasks/a/upstreams").is_problem(403, "forbidden")
    mine("POST", "/v1/tasks/purge", {"before": "1s"}).is_problem(403, "forbidden")


def test_it_opens_no_page(site: Site) -> None:
    secret = site.access.add("narrow", "operate", ("mine",))
    site("POST", "/v1/session", {"token": secret}, role=None).is_problem(403, "forbidden", "page")
