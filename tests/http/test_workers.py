"""Workers over HTTP: draining one from afar."""

from __future__ import annotations

from stayer.service.control import workers as worker_control
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
