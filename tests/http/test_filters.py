"""Verbs on many tasks over HTTP."""

from __future__ import annotations

import pytest

from stayer.core.happenings import Done
from stayer.store import Store
from tests.contract.builders import apply, get, new, register, started, submit
from tests.http.serving import Site


@pytest.fixture(autouse=True)
def tasks(store: Store) -> None:
    register(store)
    apply(store, started(store, id="done", tags=("t",)), Done())
    started(store, id="runs", tags=("t",))
    submit(store, new("waits", tags=("t",)), new("other"))


@pytest.mark.parametrize(
    ("method", "path", "body", "ids"),
    [
        ("POST", "/v1/tasks/pause", None, ["runs"]),
        ("POST", "/v1/tasks/resume", None, ["runs"]),
        ("POST", "/v1/tasks/signal", {"signal": "USR1"}, ["runs"]),
        ("POST", "/v1/tasks/delete", None, ["done"]),
        ("PATCH", "/v1/tasks", {"priority": 3}, ["waits", "runs"]),
    ],
)
def test_those_that_match_and_fit_the_verb(
    site: Site, method: str, path: str, body: object, ids: list[str]
) -> None:
    reply = site(method, f"{path}?tag=t", body)
    assert reply.status == 200, reply
    assert [task["id"] for task in reply.json["tasks"]] == ids
    site(method, path, body).is_problem(400, "bad-input", "say which tasks")
    site(method, f"{path}?tag=t", body, role="submit").is_problem(403, "forbidden")


def test_a_token_for_some_queues_names_one(site: Site, store: Store) -> None:
    token = site.access.add("films", "operate", ("films",))
    submit(store, new("film", queue="films"))

    def ask(query: str) -> int:
        path = f"/v1/tasks?{query}"
        return site(
            "PATCH", path, {"priority": 3}, role=None, Authorization=f"Bearer {token}"
        ).status

    assert (ask("queue=films"), ask("queue=q"), ask("tag=t")) == (200, 403, 403)
    assert (get(store, "film").priority, get(store, "waits").priority) == (3, 0)


def test_running_is_a_state(site: Site) -> None:
    assert [task["id"] for task in site("GET", "/v1/tasks?state=running").json["tasks"]] == ["runs"]
