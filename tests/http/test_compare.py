"""Comparing tasks over HTTP, and by the client of a server."""

from __future__ import annotations

import pytest

from stayer.client import Client
from stayer.service.control import compare
from stayer.store import Store
from tests.contract.builders import new, submit
from tests.http.serving import Site


def test_tasks_are_compared(site: Site, store: Store) -> None:
    submit(store, *(new(f"t{n}", parameters={"lr": n, "seed": 1}, tags=("x",)) for n in range(2)))
    shown = site("GET", "/v1/compare?id=t0&id=t1", role="read").json
    assert shown["ids"] == ["t0", "t1"]
    assert shown["rows"] == [{"name": "parameters.lr", "values": [0, 1], "differs": True}]
    more = site("GET", "/v1/compare?tag=x&all=true").json
    assert {row["name"] for row in more["rows"]} >= {"parameters.seed", "state"}
    assert site("GET", "/v1/compare").status == 400
    assert site("GET", "/v1/compare?all=true").status == 400
    assert site("GET", "/v1/compare?id=nobody").status == 404


def test_python_compares_in_any_store(store: Store) -> None:
    submit(store, *(new(f"t{n}", parameters={"lr": n}) for n in range(2)))
    client = Client(store.url)
    [row] = client.compare(["t0", client.get_task("t1")]).rows
    assert (row.name, row.values) == ("parameters.lr", (0, 1))


def test_what_would_fill_the_memory_is_not_compared(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "COMPARED", 1000)
    submit(store, *(new(f"t{n}", parameters={"text": "x" * 400}, tags=("x",)) for n in range(3)))
    flow = {"id": "f", "name": "f", "tasks": {"m": {"map": [{"text": "x" * 400}] * 3}}}
    assert site("POST", "/v1/flows", flow).status == 201
    for path in ("/v1/compare?id=t0&id=t1&id=t2", "/v1/compare?tag=x", "/v1/compare?id=f",
                 "/v1/sweeps/f"):  # fmt: skip
        site("GET", path).is_problem(400, "bad-input", "over 1,000 bytes")
    assert site("GET", "/v1/compare?id=t0&id=t1").status == 200


def test_other_parts_of_a_flow_may_be_larger_than_what_is_compared(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "COMPARED", 1000)
    parts = {"data": {"parameters": {"text": "x" * 2000}}, "m": {"map": [{"n": 1}, {"n": 2}]}}
    assert site("POST", "/v1/flows", {"id": "f", "name": "f", "tasks": parts}).status == 201
    shown = site("GET", "/v1/sweeps/f").json
    assert [run["parameters"] for run in shown["runs"]] == [{"n": 1}, {"n": 2}]
