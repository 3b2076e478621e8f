"""`stayer doctor`, over HTTP."""

from __future__ import annotations

from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import fill
from tests.http.serving import Site


def test_what_a_token_may_not_look_at_is_no_failure(stayer: Here, store: Store, site: Site) -> None:
    fill(store, 1)
    token = site.access.add("of one queue", "operate", ("q",))

    done = stayer("doctor", "--json", STAYER_TOKEN=token).works()

    found = {finding["check"]: finding for finding in done.json}
    assert {finding["status"] for finding in found.values()} == {"ok"}
    assert found["store"]["message"] == "answers, 1 queue"
    for check in ("workers", "notices"):
        assert found[check]["message"].startswith("not looked at: ")
        assert "the token of one queue is for queue q only" in found[check]["message"]


def test_a_token_of_a_worker_says_what_it_is_for(stayer: Here, store: Store, site: Site) -> None:
    fill(store, 1)
    token = site.access.add("node-7", "work", ("q", "r"))

    done = stayer("doctor", "--json", STAYER_TOKEN=token).works()

    found = {finding["check"]: finding["message"] for finding in done.json}
    assert found["token"] == "node-7 takes tasks of q, r"
