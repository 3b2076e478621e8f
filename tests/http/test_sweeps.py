"""Sweeps over HTTP, and by the client of a server."""

from __future__ import annotations

import pytest

from stayer.client import Client
from stayer.core.happenings import Done
from stayer.store import Store
from tests.contract.builders import apply, get, register, take
from tests.http.serving import Site


def test_a_sweep_is_submitted_and_compared(site: Site, store: Store) -> None:
    register(store)
    body = {
        "parameters": {"lr": [0.1, 0.01], "seed": [1, 2]},
        "task": {"queue": "q", "command": ["train", "{lr}"], "parameters": {"n": 1}},
        "throttle": 4, "id": "s", "name": "night run",
    }  # fmt: skip

    first, again = (site("POST", "/v1/sweeps", body, role="submit") for _ in range(2))

    assert (first.status, first.json["fresh"], again.status) == (201, True, 200)
    assert (first.json["name"], first.headers["location"]) == ("night run", "/v1/sweeps/s")
    assert get(store, "s.sweep.3").parameters == {"n": 1, "lr": 0.01, "seed": 2}
    for task in take(store, limit=9):
        apply(store, task, Done({"loss": 1}))
    shown = site("GET", "/v1/sweeps/s", role="read").json
    assert (shown["state"], shown["parameters"], shown["figures"]) == (
        "complete", ["lr", "seed"], ["loss"],
    )  # fmt: skip
    assert [run["place"] for run in shown["runs"]] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"parameters": {}}, "at least one parameter"),
        ({"parameters": {"a": []}}, "parameter a"),
        ({"parameters": {"a": [1]}, "task": {"id": "x"}}, "task.id"),
        ({"parameters": {"a": [1]}, "task": {"nope": 1}}, "nope"),
        ({"parameters": {"a": [1]}, "task": {"cwd": "/"}}, "task: cwd"),
        ({"parameters": {"a": [1]}, "throttle": 0}, "throttle"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused(site: Site, body: object, word: str) -> None:
    site("POST", "/v1/sweeps", body).is_problem(400, "bad-input", word)


def test_only_maps_can_be_compared(site: Site) -> None:
    flow = {"id": "f", "name": "f", "tasks": {"a": {}, "m": {"map": [{"x": 1}, {"x": 2}]}}}
    site("POST", "/v1/flows", flow)
    assert len(site("GET", "/v1/sweeps/f").json["runs"]) == 2
    site("GET", "/v1/sweeps/f?part=a").is_problem(409, "refused", "its maps are m")
    site("GET", "/v1/sweeps/nope").is_problem(404, "unknown-flow")


def test_a_client_submits_a_sweep(
    site: Site, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAYER_TOKEN", site.tokens["operate"])
    register(store)
    with Client(site.url) as client:
        sweep = client.sweep({"n": range(3)}, queue="q", name="square", parameters={"base": 2})
        for task in take(store, limit=9):
            apply(store, task, Done(int(task.id[-1]) ** 2))
        runs = sweep.wait("1m").compare()
        assert [(run.parameters["n"], run.result) for run in runs] == [(0, 0), (1, 1), (2, 4)]
        assert runs[0].parameters == {"base": 2, "n": 0}
