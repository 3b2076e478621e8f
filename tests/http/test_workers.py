"""Workers over HTTP: draining, changing and stopping one from afar."""

from __future__ import annotations

from stayer.service.control import workers as worker_control
from stayer.service.operator import operator_of
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import beat
from tests.http.serving import Site


def test_a_worker_is_drained_over_http(site: Site, store: Store, worker: str) -> None:
    answer = site("POST", f"/v1/workers/{worker}/drain")
    assert (answer.status, answer.json["id"]) == (200, worker)
    assert beat(store, worker, 2).drain
    site("POST", "/v1/workers/nobody/drain").is_problem(404, "unknown-worker", "nobody")
    site("POST", f"/v1/workers/{worker}/drain", role="submit").is_problem(403, "forbidden")


def test_a_client_drains_through_a_server(site: Site, store: Store, worker: str) -> None:
    remote = open_store(site.url, token=site.tokens["operate"])
    try:
        assert worker_control.drain(remote, worker).id == worker
    finally:
        remote.close()
    assert beat(store, worker, 2).drain


def test_queues_and_slots_are_changed_over_http(site: Site, store: Store, worker: str) -> None:
    path = f"/v1/workers/{worker}"
    answer = site("PATCH", path, body={"add_queues": ["b"], "slots": 3})
    assert (answer.status, answer.json["order"]["slots"]) == (200, 3)
    order = beat(store, worker, 2).order
    assert order is not None
    assert (order.queues, order.slots) == (("q", "b"), 3)
    remote = open_store(site.url, token=site.tokens["operate"])
    try:
        changed = operator_of(remote).set_worker(worker, remove_queues=["b"])
        assert changed.order is not None
        assert (changed.order.queues, changed.order.slots) == (("q",), 3)
    finally:
        remote.close()
    for number in range(2):
        many = [f"{number}-{each}" for each in range(600)]
        answer = site("PATCH", path, body={"add_queues": many})
    answer.is_problem(400, "bad-input", "at most 1,000 fit")
    site("PATCH", path, body={}).is_problem(400, "bad-input", "say what to change")
    site("PATCH", path, body={"slots": 1}, role="submit").is_problem(403, "forbidden")
    site("PATCH", "/v1/workers/nobody", body={"slots": 1}).is_problem(404, "unknown-worker")


def test_a_worker_is_stopped_over_http(site: Site, store: Store, worker: str) -> None:
    before = store.now()
    answer = site("POST", f"/v1/workers/{worker}/stop", body={"grace": 5})
    assert (answer.status, answer.json["order"]["grace"]) == (200, 5)
    order = beat(store, worker, 2).order
    assert order is not None
    assert order.ends_at is not None
    assert order.ends_at >= before + 5 + 120
    answer = site("PATCH", f"/v1/workers/{worker}", body={"slots": 2})
    answer.is_problem(409, "refused", "told to stop")
