"""`stayer workers`."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import get, register, started


def make_stale(folder: Path, worker: str) -> None:
    """Let the worker's lease be over, without waiting for it."""
    with sqlite3.connect(folder / "stayer.db") as database:
        database.execute("UPDATE stayer_workers SET lease_end = 1 WHERE id = ?", [worker])
    database.close()


def test_the_table_says_who_does_what(stayer: Here, store: Store, tmp_path: Path) -> None:
    register(store, "idle", slots=4)
    register(store, "busy", queues=("q", "p"))
    register(store, "gone")
    started(store, "busy")
    make_stale(tmp_path, "gone")

    rows = {line.split()[0]: line.split() for line in stayer("workers").works().lines}

    assert rows["ID"][:4] == ["ID", "STATE", "NODE", "PID"]
    assert rows["idle"][1:5] == ["IDLE", "node-of-idle", "4242", "0/4"]
    assert rows["busy"][1:7] == ["PROCESSING", "node-of-busy", "4242", "1/1", "q,", "p"]
    assert rows["gone"][1] == "STALE"


def test_json_is_an_array_of_workers(stayer: Here, store: Store) -> None:
    assert stayer("workers", "--json").works().json == []
    register(store, "w")

    [worker] = stayer("workers", "--json").works().json

    assert list(worker) == [
        "id", "node", "pid", "queues", "slots", "version", "draining", "lease", "keeps",
        "handles", "number", "started_at", "beat_at", "running", "state", "order",
    ]  # fmt: skip
    assert (worker["id"], worker["queues"], worker["state"]) == ("w", ["q"], "IDLE")


def test_a_store_without_workers_says_so(stayer: Here) -> None:
    stayer("init").works()
    done = stayer("workers")

    assert (done.code, done.out) == (0, "")
    assert "no workers" in done.err


def test_dropping_a_stale_worker_returns_its_tasks(
    stayer: Here, store: Store, tmp_path: Path
) -> None:
    register(store, "gone")
    task = started(store, "gone")
    make_stale(tmp_path, "gone")

    done = stayer("workers", "rm", "gone", "gone").works()

    assert done.out == "gone removed, 1 task returned\n"
    assert get(store, task.id).state == "pending"
    assert store.workers() == []


def test_a_worker_that_was_declared_lost_is_down_and_one_that_left_is_not(
    stayer: Here, store: Store
) -> None:
    for name in ("lost", "left", "alive"):
        register(store, name)
    task = started(store, "lost")
    store.drop_worker("left", 1)
    store.declare_lost("alive", {"lost": 1})

    shown = stayer("workers").works().out
    alive, down = stayer("workers", "--json").works().json

    rows = {line.split()[0]: line for line in shown.splitlines() if line}
    assert {*rows} == {"ID", "alive", "lost"}
    assert rows["lost"].split()[1:3] == ["DOWN", "node-of-lost"]
    assert "declared lost by worker alive" in rows["lost"]
    assert (alive["id"], alive["state"]) == ("alive", "IDLE")
    assert (down["id"], down["state"], down["tasks"]) == ("lost", "DOWN", [task.id])
    assert down["why"].startswith("no heartbeat for ")


def test_a_worker_that_lives_is_not_dropped(stayer: Here, store: Store) -> None:
    register(store, "alive")
    task = started(store, "alive")

    stayer("workers", "rm", "alive").refuses("alive")

    assert get(store, task.id).state == "started"


def test_an_unknown_worker_is_one_line(stayer: Here, store: Store, tmp_path: Path) -> None:
    register(store, "gone")
    make_stale(tmp_path, "gone")

    done = stayer("workers", "rm", "nope", "gone")

    assert (done.code, done.lines) == (2, ["gone removed, 0 tasks returned"])
    assert "nope" in done.err
    stayer("workers", "rm").refuses("workers rm --help")
