"""Backups with the tools of a database, as the page says: made while somebody works, restored
elsewhere, and readied.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from stayer.core.happenings import Done, Start
from stayer.service.backup import settle
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import apply, check_counts, fill, get, register, take
from tests.servers import mariadb, postgres, redis
from tests.servers.finding import missing, postgres_binaries, redis_binary

pytestmark = pytest.mark.long


def run(*command: str, **more: object) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr


def while_somebody_works(url: str, save: Callable[[], None]) -> str:
    """Copy a store in which a task runs and others are submitted; the id of the one that runs."""
    store = open_store(url)
    store.setup()
    register(store)
    fill(store, 3)
    [held] = take(store)
    running = apply(store, held, Start())
    is_over = threading.Event()

    def work() -> None:
        other = open_store(url)
        while not is_over.is_set():
            fill(other, 10, "other")
        other.close()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        save()
    finally:
        is_over.set()
        worker.join()
        store.close()
    return running.id


def check_restored(url: str, running: str) -> None:
    store: Store = open_store(url)
    store.setup()
    settled = settle(store)
    assert (settled.workers, settled.returned) == (1, 1)
    assert get(store, running).state == "pending"
    check_counts(store)
    queues = {queue.name: queue.counts for queue in store.queues()}
    assert sum(queues["q"].values()) == 3
    assert sum(queues.get("other", {}).values()) % 10 == 0, "of each batch all or nothing"
    store.set_queue("q", paused=False)
    register(store, "new")
    tasks = take(store, "new", limit=5)
    assert len(tasks) == 3
    for task in tasks:
        assert apply(store, apply(store, task, Start()), Done()).state == "complete"
    fill(store, 1, "fresh")
    store.close()


def test_postgresql(tmp_path: Path) -> None:
    binaries = Path(postgres_binaries())
    with postgres.serving(str(binaries)) as server:
        server.psql("CREATE DATABASE jobs; CREATE DATABASE empty")
        file = tmp_path / "jobs.dump"

        def save() -> None:
            where = server.conninfo.replace("///postgres?", "///jobs?")
            run(str(binaries / "pg_dump"), "--format=custom", f"--file={file}", where)

        running = while_somebody_works(server.url("public", database="jobs"), save)
        into = server.conninfo.replace("///postgres?", "///empty?")
        run(str(binaries / "pg_restore"), "--dbname", into, str(file))
        check_restored(server.url("public", database="empty"), running)


def test_mariadb(tmp_path: Path) -> None:
    dump = shutil.which("mariadb-dump") or missing("mariadb-dump", "install mariadb-client")
    with mariadb.serving() as server:
        server.sql("CREATE DATABASE jobs")
        server.sql("CREATE DATABASE empty")
        file = tmp_path / "jobs.sql"
        way = ["--no-defaults", f"--socket={server.socket}", "--user=root"]

        def save() -> None:
            with open(file, "wb") as output:
                subprocess.run(
                    [dump, *way, "--single-transaction", "--routines", "jobs"],
                    stdout=output,
                    check=True,
                )

        running = while_somebody_works(server.url("jobs"), save)
        with open(file, "rb") as kept:
            client = dump.replace("mariadb-dump", "mariadb")
            subprocess.run([client, *way, "empty"], stdin=kept, check=True)
        check_restored(server.url("empty"), running)


def test_redis(tmp_path: Path) -> None:
    client = shutil.which("redis-cli") or missing("redis-cli", "install redis-tools")
    file = tmp_path / "copy.rdb"
    with redis.serving(redis_binary()) as server:
        url = server.url("jobs")

        def save() -> None:
            run(client, "-s", str(server.socket), "--rdb", str(file))

        running = while_somebody_works(url, save)
        server.stop(signal.SIGKILL)
        shutil.copy(file, Path(server.socket).with_name("dump.rdb"))
        server.start()
        check_restored(url, running)
