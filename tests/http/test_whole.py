"""Queues, workers, figures, health."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stayer.core import errors
from stayer.core.errors import StoreUnreachable
from stayer.core.happenings import Done
from stayer.http.problem import STATUS
from stayer.http.service import STORE_THREADS
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.sql.sqlite import SqliteStore
from tests.contract.builders import (
    PATIENCE,
    Clock,
    apply,
    beat,
    counts,
    fill,
    get,
    new,
    register,
    started,
    submit,
)
from tests.faults.test_store_gone import HOLD
from tests.http.serving import Process, Site


def test_queues_are_listed_paused_limited_and_dropped(site: Site, store: Store) -> None:
    fill(store, 3)
    submit(store, new(queue="other"))

    assert [queue["name"] for queue in site("GET", "/v1/queues").json["queues"]] == ["other", "q"]
    assert site("GET", "/v1/queues?name=q").json["queues"][0]["counts"]["pending"] == 3
    assert site("POST", "/v1/queues/q/pause").json["paused"] is True
    assert site("POST", "/v1/queues/q/resume").json["paused"] is False
    assert site("PATCH", "/v1/queues/q", {"limit": 2, "paused": True}).json["limit"] == 2
    assert site("PATCH", "/v1/queues/q", {"limit": None}).json == {
        **site("GET", "/v1/queues/q").json, "limit": None, "paused": True,
    }  # fmt: skip
    assert len(site("GET", "/v1/queues/other/peek").json["tasks"]) == 1
    site("DELETE", "/v1/queues/q").is_problem(409, "refused", "force=true")
    assert site("DELETE", "/v1/queues/q?force=true").json == {"name": "q", "left": 0}
    assert counts(store) == {}


def test_a_slip_in_the_name_makes_no_queue(site: Site, store: Store) -> None:
    for method, path in (("POST", "/pause"), ("POST", "/resume"), ("DELETE", ""), ("GET", "")):
        site(method, f"/v1/queues/slip{path}").is_problem(404, "unknown-queue", "slip")
    assert store.queues() == []
    assert site("PATCH", "/v1/queues/made", {"limit": 1}).json["name"] == "made"
    for body in ({"limit": 0}, {"limit": "many"}, {"paused": 3}, {"limits": 3}):
        site("PATCH", "/v1/queues/made", body).is_problem(400, "bad-input")
    site("PATCH", "/v1/queues/%20", {"limit": 1}).is_problem(400, "bad-input")


def test_workers_are_listed_and_stale_ones_dropped(site: Site, store: Store, url: str) -> None:
    clock = Clock()
    past = open_store(url, clock=clock)
    register(past, "old")
    task = started(past, "old")
    register(store, "w")

    shown = {worker["id"]: worker["state"] for worker in site("GET", "/v1/workers").json["workers"]}
    assert shown == {"old": "STALE", "w": "IDLE"}
    site("DELETE", "/v1/workers/w").is_problem(409, "refused")
    site("DELETE", "/v1/workers/none").is_problem(404, "unknown-worker")
    assert site("DELETE", "/v1/workers/old").json == {"id": "old", "returned": 1}
    assert get(store, task.id).state == "pending"
    left = site("GET", "/v1/workers").json
    assert [worker["id"] for worker in left["workers"]] == ["w"]
    assert [(lost["id"], lost["by"], lost["tasks"]) for lost in left["down"]] == [
        ("old", "an operator", [task.id])
    ]
    past.close()


def test_somebody_who_watches_is_made_known(site: Site, store: Store, worker: str) -> None:
    assert not beat(store, worker, 2).watched
    assert site("POST", "/v1/workers/attend", {"workers": [worker]}, role="read").status == 204
    assert beat(store, worker, 3).watched


def test_the_sums_are_right(site: Site, store: Store, worker: str) -> None:
    apply(store, started(store), Done())
    fill(store, 3)
    stats = site("GET", "/v1/stats").json
    assert (stats["tasks"]["pending"], stats["tasks"]["complete"]) == (3, 1)
    assert (stats["workers"]["IDLE"], stats["slots"], stats["running"]) == (1, 1, 0)
    assert stats["rates"]["per_minute"]["complete"] == pytest.approx(1 / 5)
    clock = site("GET", "/v1/clock").json
    assert clock["last_event"] == stats["last_event"] == store.last_event()
    assert clock["store"] == store.identity()


def test_the_figures_are_those_of_the_store(site: Site, store: Store, worker: str) -> None:
    submit(store, new(queue='a"b\\c'))
    site("GET", "/v1/tasks/none")
    text = site("GET", "/metrics").body.decode()
    lines = text.splitlines()
    assert 'stayer_tasks{queue="a\\"b\\\\c",state="pending"} 1' in lines
    assert 'stayer_workers{state="IDLE"} 1' in lines
    assert "stayer_store_up 1" in lines
    asked = 'stayer_http_requests_total{method="GET",route="/v1/tasks/{id}",status="404"} 1'
    assert asked in lines
    assert any(line.startswith("stayer_http_request_seconds_bucket") for line in lines)
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    for line in lines:
        if not line.startswith("#"):
            float(line.rpartition(" ")[2])


def test_every_error_has_a_status() -> None:
    for name in vars(errors).values():
        if isinstance(name, type) and issubclass(name, errors.StayerError):
            assert any(known in STATUS for known in name.__mro__)


def test_a_defect_is_a_problem_too(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: object) -> None:
        raise ZeroDivisionError("secret of the house")

    monkeypatch.setattr(SqliteStore, "workers", broken)
    reply = site("GET", "/v1/workers")
    reply.is_problem(500, "defect", "log")
    assert b"secret" not in reply.body
    assert "secret of the house" in caplog.text


def test_a_store_that_does_not_answer_is_503_until_it_does(
    tmp_path: Path, process: tuple[Process, Site]
) -> None:
    _, site = process
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "stayer.db")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        reply = site("POST", "/v1/tasks", {"id": "t"})
        assert site("GET", "/healthz").status == 200
        holder.communicate()

    reply.is_problem(503, "store-unreachable")
    assert int(reply.headers["retry-after"]) > 0
    assert site("POST", "/v1/tasks", {"id": "t"}).status == 201


def test_not_ready_is_said_and_counted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: object) -> int:
        raise StoreUnreachable("the store is away")

    assert site("GET", "/readyz", role=None).json == {"status": "ok"}
    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "last_event", away)
        site("GET", "/readyz").is_problem(503, "store-unreachable", "away")
        site("GET", "/v1/events").is_problem(503, "store-unreachable", "away")
        assert "stayer_store_up 0" in site("GET", "/metrics").body.decode()
        assert site("GET", "/healthz").status == 200
    assert site("GET", "/readyz").status == 200
    assert "stayer_store_up 1" in site("GET", "/metrics").body.decode()


def test_a_slow_store_keeps_neither_health_nor_streams_waiting(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:

    go_on, stuck = threading.Event(), threading.Semaphore(0)

    def slow(self: object) -> list[object]:
        stuck.release()
        go_on.wait(PATIENCE)
        return []

    monkeypatch.setattr(SqliteStore, "workers", slow)
    with site.stream("/v1/events") as stream:
        stream.until_id()
        asking = [  # two tokens, each of which gets half of the threads
            threading.Thread(target=site, args=("GET", "/v1/workers"), kwargs={"role": role})
            for role in ("operate", "read") * (STORE_THREADS // 2 + 2)
        ]
        for thread in asking:
            thread.start()
        for _ in range(STORE_THREADS):
            assert stuck.acquire(timeout=PATIENCE)
        try:
            assert site("GET", "/healthz").status == 200
            assert site("GET", "/readyz").status == 200
        finally:
            go_on.set()
        for thread in asking:
            thread.join(PATIENCE)
