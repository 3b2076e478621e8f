"""Flows over HTTP, and through a store that is a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from stayer import Flow
from stayer.client.submit import Defaults, build
from stayer.core.errors import BadInput, Refused, UnknownFlow
from stayer.core.flows import model
from stayer.core.flows.model import NewFlow
from stayer.core.happenings import Done, Fail
from stayer.core.model import Fault, Filter, NewTask
from stayer.http import flows as http_flows
from stayer.service.control import flows as flow_control
from stayer.service.control import tasks as control
from stayer.service.explain import why_waiting
from stayer.service.operator import operator_of
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import apply, get, ids, new, take
from tests.http.serving import Site

FLOW: dict[str, Any] = {
    "name": "films",
    "id": "f",
    "tasks": {
        "list": {"queue": "q"},
        "encode": {"queue": "q", "map": ["a", "b", "c"], "at_once": 2, "after": ["list"]},
        "end": {"queue": "q", "after": ["encode"]},
    },
}


@pytest.fixture
def remote(site: Site) -> Iterator[Store]:
    with closing(open_store(site.url, token=site.tokens["operate"])) as store:
        yield store


def run(store: Store, failing: str = "") -> None:
    while found := take(store):
        bad = failing and failing in found[0].id
        apply(store, found[0], Fail(Fault("Boom")) if bad else Done())


def test_a_flow_is_submitted_once(site: Site, store: Store) -> None:
    answer = site("POST", "/v1/flows", FLOW)
    assert answer.status == 201
    assert answer.headers["location"] == "/v1/flows/f"
    shown = answer.json
    assert (shown["fresh"], shown["state"], shown["counts"]["waiting"]) == (True, "pending", 4)
    assert [part["after"] for part in shown["parts"]] == [[], ["list"], ["encode"]]
    assert site("POST", "/v1/flows", FLOW).status == 200
    assert site("GET", "/v1/flows").json == {
        "flows": [{key: value for key, value in shown.items() if key != "fresh"}],
        "next": None,
    }


def test_a_page_of_flows_ends_early_where_they_are_large(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_flows, "PAGE_SIZE", 1000)
    for number in range(5):
        site("POST", "/v1/flows", {**FLOW, "id": f"f{number}"})

    first = site("GET", "/v1/flows").json
    rest = site("GET", f"/v1/flows?cursor={first['next']}").json

    assert [flow["id"] for flow in first["flows"]] == ["f4", "f3"]
    assert [flow["id"] for flow in rest["flows"]] == ["f2", "f1"]


def test_what_is_wrong_is_said(site: Site) -> None:
    answer = site("POST", "/v1/flows", {"name": "n", "tasks": {"a": {"after": ["b"]}}})
    assert answer.status == 400
    assert "body: tasks: a: no part of the flow is called 'b'" in answer.json["detail"]
    assert site("GET", "/v1/flows/nobody").status == 404
    taken = {**FLOW, "id": "g", "tasks": {"x": {"after_tasks": ["nobody"]}}}
    assert "'nobody'" in site("POST", "/v1/flows", taken).json["detail"]
    laid_out = {"id": "f", "name": "n", "parts": [], "laid_out": [{"id": "x", "part": "y"}]}
    assert "not made of the flow's" in site("POST", "/v1/flows", laid_out).json["detail"]


PART = {"name": "p", "queue": "q"}


@pytest.mark.parametrize(
    ("id", "changes", "said"),
    [
        ("f.p.99999999999", {}, "maps with so many"),
        ("f.p", {"owner": "x" * 10_000}, "owner"),
        ("f.p", {"parts": [{**PART, "kind": "x" * 10_000}]}, "kind"),
        ("f.p", {"parts": [{**PART, "tasks": 10**30}]}, "no such number"),
        ("f.p", {"parts": [{**PART, "after": ["x" * 10_000]}]}, "no part"),
        ("f.p", {"parts": [PART, PART]}, "the same name"),
        ("f.p", {"parts": [PART, *({**PART, "name": f"n{n}"} for n in range(20_000))]}, "too many"),
    ],
)
def test_a_flow_that_was_laid_out_elsewhere_has_the_same_limits(
    site: Site, id: str, changes: dict[str, Any], said: str
) -> None:
    flow = {"id": "f", "name": "n", "parts": [PART], "laid_out": [{"id": id, "part": "p"}]}

    answer = site("POST", "/v1/flows", {**flow, **changes})

    assert (answer.status, said in answer.json["detail"]) == (400, True), answer.json


def test_its_verbs(site: Site, store: Store, worker: str) -> None:
    site("POST", "/v1/flows", FLOW)
    run(store, failing="encode.1")
    assert site("GET", "/v1/flows/f").json["state"] == "failed"
    assert site("POST", "/v1/flows/f/retry").json == {"id": "f", "tasks": 2}
    assert site("POST", "/v1/flows/f/cancel", {"grace": "1s"}).json == {"id": "f", "tasks": 2}
    tasks = site("GET", "/v1/tasks?flow=f&state=cancelled").json["tasks"]
    assert sorted(task["id"] for task in tasks) == ["f.encode.1", "f.end"]
    assert {(task["flow"], task["upstreams"] > 0) for task in tasks} == {("f", True)}


def test_what_a_task_waits_for(site: Site, store: Store) -> None:
    site("POST", "/v1/flows", FLOW)
    assert site("GET", "/v1/tasks/f.encode.2/upstreams?limit=1").json == {
        "after": ["f.list"],
        "behind": ["f.encode.0"],
        "waits": ["f.list"],
        "waiting_for": 2,
    }


def test_a_remote_store_does_the_same(remote: Store, store: Store, worker: str) -> None:
    def made(queue: str, parameters: Any, **options: Any) -> NewTask:
        return build(queue, parameters, Defaults(), **options)

    flow = Flow("films", id="f", queue="q")
    first = flow.add(name="list", parameters=b"bytes")
    items = flow.map(["ffmpeg", "{}"], ["a", "b"], at_once=1, after=[first], retries=0)
    flow.map(["check"], items, near=items, near_wait="5m")
    planned, tasks = flow.laid_out(made)

    found, fresh = flow_control.submit(remote, planned, tasks)

    there = store.flow("f")
    assert there is not None
    assert (model.record(found), fresh) == (model.record(there), True)
    assert not remote.submit_flow(planned, tasks)
    for task in tasks:
        kept = get(store, task.id)
        assert (kept.part, kept.policy, kept.command) == (task.part, task.policy, task.command)
        assert kept.parameters == task.parameters
        [of] = remote.upstreams([task.id])
        assert (of.after, of.behind) == (task.after, task.behind)
        assert [of] == store.upstreams([task.id])
    assert [flow.id for flow in remote.flows(None, 9).flows] == ["f"]
    assert remote.flow("nobody") is None
    assert len(ids(list(control.find_all(remote, Filter(flow="f"))))) == 5
    assert why_waiting(operator_of(remote).explain("f.check.0")) == "for f.ffmpeg.0 to end"

    run(store, failing="ffmpeg.1")
    assert operator_of(remote).retry_flow("f") == 2
    assert operator_of(remote).cancel_flow("f") == 2
    assert operator_of(remote).retry("f.check.1").state == "pending"
    with pytest.raises(UnknownFlow):
        operator_of(remote).retry_flow("nobody")


def test_tasks_that_run_after_others_are_not_cut(remote: Store, store: Store) -> None:
    remote.submit([new("a"), new("b", after=("a",))])
    assert get(store, "b").state == "waiting"
    with pytest.raises(BadInput, match="submit them as a flow"):
        remote.submit([new("c", after=("a",)), *(new() for _ in range(1000))])
    assert store.get(["c"]) == [None]


def test_a_flow_whose_ids_are_in_use_is_refused(remote: Store, site: Site) -> None:
    remote.submit([new("f.list")])
    answer = site("POST", "/v1/flows", FLOW)
    assert answer.status == 409
    assert "in use" in answer.json["detail"]
    with pytest.raises(Refused):
        flow_control.submit(
            remote,
            NewFlow(id="f", name="f"),
            [new("f.list", flow="f", part="list")],
        )


def test_ids_with_slashes_are_names_like_any_other(site: Site) -> None:
    site("POST", "/v1/flows", {**FLOW, "id": "a/b c"})
    assert site("GET", "/v1/flows/a%2Fb%20c").json["id"] == "a/b c"
    assert site("POST", "/v1/flows/a%2Fb%20c/cancel").json["tasks"] == 5
