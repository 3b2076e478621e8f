"""What queues did, over HTTP; and that a server counts it."""

from __future__ import annotations

from stayer.store import Store
from tests.contract.builders import fill
from tests.faults.fleet import until
from tests.http.serving import Site


def test_a_server_counts_what_nobody_has(site: Site, store: Store) -> None:
    now = store.now()
    until(lambda: store.figures(now - 300, now + 300, 60, None), "for the server to count")


def test_history_is_asked_for(site: Site, store: Store) -> None:
    fill(store, 1)
    store.sample()
    assert site("GET", "/v1/stats").json["history"] is None
    history = site("GET", "/v1/stats?since=1h&step=10m").json["history"]
    assert history["step"] == 600
    assert all(point["queue"] is None for point in history["points"])
    each = site("GET", "/v1/stats?since=1h&each").json["history"]
    assert {point["queue"] for point in each["points"]} == {"q"}
    site("GET", "/v1/stats?since=1h&step=10s").is_problem(400, "bad-input", "whole minutes")
    site("GET", "/v1/stats?since=2000d&step=1m").is_problem(400, "bad-input", "longer steps")
    site("GET", "/v1/stats?since=1h&step=soon").is_problem(400, "bad-input", "step")
