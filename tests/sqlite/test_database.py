"""What is SQLite's own: the lock, the pool, the schema's versions, plans, errors."""

from __future__ import annotations

import fcntl
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stayer.core.errors import BadConfig, StoreUnreachable, StoreUnusable
from stayer.core.model import Filter
from stayer.core.submit.checks import new_task
from stayer.core.worker_model import EVERYTHING, Worker
from stayer.store import Store
from stayer.stores import open_store
from stayer.stores.sql.sqlite import database, lock, schema, wake
from stayer.stores.sql.sqlite.dialect import statements


def submit(store: Store, id: str) -> bool:
    return store.submit([new_task(queue="q", id=id)])[0].fresh


class TestTheWriterLock:
    def test_gives_turns_in_the_order_of_arrival(self, tmp_path: Path) -> None:
        path = str(tmp_path / "lock")
        served: list[int] = []
        first = lock.WriterLock(path)

        def stand_in_line(number: int, mine: lock.WriterLock) -> None:
            with mine.held(60):
                served.append(number)

        with first.held(60):
            line = []
            for number in range(5):
                thread = threading.Thread(
                    target=stand_in_line, args=(number, lock.WriterLock(path))
                )
                thread.start()
                line.append(thread)
                wait_until_blocked(path, number + 1)
        for thread in line:
            thread.join()
        assert served == [0, 1, 2, 3, 4]

    def test_falls_with_its_process(self, store: Store, path: Path) -> None:
        with holding(path) as holder:
            holder.kill()
            holder.wait()
            assert submit(store, "a")

    def test_held_by_a_stopped_process_is_an_error_that_names_it(
        self, store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(database, "BUSY", 0.2)
        with holding(path) as holder:
            os.kill(holder.pid, signal.SIGSTOP)
            with pytest.raises(StoreUnreachable, match=f"process {holder.pid}"):
                submit(store, "a")
        assert submit(store, "a")

    def test_is_not_taken_by_somebody_who_was_interrupted(self, tmp_path: Path) -> None:
        path = str(tmp_path / "lock")
        first, second, third = (lock.WriterLock(path) for _ in range(3))

        def interrupt(number: int, frame: object) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            with first.held(60):
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                with pytest.raises(KeyboardInterrupt), second.held(60):
                    pass
        finally:
            signal.signal(signal.SIGALRM, before)
        with third.held(60):
            pass

    def test_of_sqlite_itself_is_waited_for(
        self, store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(database, "BUSY", 0.2)
        foreign = sqlite3.connect(path, isolation_level=None)
        foreign.execute("BEGIN IMMEDIATE")
        other = open_store(store.url)
        with pytest.raises(StoreUnreachable, match="locked"):
            submit(other, "a")
        foreign.execute("ROLLBACK")
        foreign.close()
        assert submit(other, "a")
        other.close()


@contextmanager
def holding(path: Path) -> Iterator[subprocess.Popen[str]]:
    script = (
        f"import fcntl, os, time; fd = os.open({str(path) + '-lock'!r}, os.O_RDWR | os.O_CREAT)\n"
        "fcntl.flock(fd, fcntl.LOCK_EX); print('held', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder
        holder.kill()


def wait_until_blocked(path: str, number: int) -> None:
    inode = os.stat(path).st_ino
    pattern = re.compile(rf"-> FLOCK .*:{inode} ")
    while len(pattern.findall(Path("/proc/locks").read_text())) < number:
        pass


class TestTheSchema:
    def test_is_made_once_by_many_processes_at_once(self, path: Path) -> None:
        script = (
            "import sys; from stayer.stores import open_store\n"
            f"store = open_store('sqlite:///{path}'); sys.stdin.readline(); store.setup()"
        )
        makers = [
            subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
            for _ in range(6)
        ]
        for maker in makers:
            maker.communicate(b"go\n")
        assert [maker.returncode for maker in makers] == [0] * 6
        store = open_store(f"sqlite:///{path}")
        assert submit(store, "a")
        store.close()

    def test_of_a_newer_version_is_left_alone(self, store: Store, path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE stayer_meta SET value = ?", (str(schema.VERSION + 1),))
        connection.close()
        before = path.read_bytes()
        with pytest.raises(StoreUnusable, match="newer Stayer"):
            open_store(store.url).setup()
        assert path.read_bytes() == before

    def test_lives_beside_the_tables_of_others(self, path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE tasks (mine TEXT)")
            connection.execute("PRAGMA user_version = 42")
        connection.close()
        store = open_store(f"sqlite:///{path}")
        store.setup()
        store.setup()
        assert submit(store, "a")
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (42,)
        connection.close()
        store.close()

    def test_that_failed_half_way_leaves_nothing(
        self, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broken = tmp_path / "broken.sql"
        broken.write_text("CREATE TABLE stayer_meta (key PRIMARY KEY, value);\nCREATE TABLE (;\n")
        monkeypatch.setattr(schema, "_HERE", tmp_path)
        monkeypatch.setattr(schema, "_STEPS", {1: "broken.sql"})
        store = open_store(f"sqlite:///{path}")
        with pytest.raises(StoreUnusable):
            store.setup()
        monkeypatch.undo()
        store.setup()
        assert submit(store, "a")
        store.close()


class TestPlans:
    """The cost of the hot statements must not grow with the table: they go by index, unsorted."""

    HOT = (
        "get",
        "reserve.lanes",
        "reserve.next",
        "reserve.next.json",
        "reserve.attempts",
        "reserve",
        "fast.reserve",
        "fast.reserve_stretch",
        "reserve.read",
        "reserve.before",
        "reserve.standing",
        "reserve.behind",
        "reserve.queue",
        "reserve.worker",
        "promote.due",
        "promote.next",
        "holdings",
        "beat",
        "beat.orders",
        "report.task",
        "history",
        "history.add",
        "history.long",
        "history.last",
        "history.middle",
        "history.head",
        "history.moved",
        "history.forget",
        "history.forget_logs",
        "history.forget_usage",
        "commit.done",
        "commit.done_stretch",
        "commit.done_which",
        "commit.seqs",
        "attempts.usage",
        "watch",
        "last_event",
        "event.old",
        "purge.old",
    )

    @pytest.mark.parametrize("name", HOT)
    def test_of_hot_statements_neither_scan_nor_sort(
        self, store: Store, path: Path, name: str
    ) -> None:
        statement = statements()[name]
        numbered = {int(found) for found in re.findall(r"\?(\d+)", statement)}
        count = max(numbered) if numbered else statement.count("?")
        connection = sqlite3.connect(path)
        plan = [
            row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", [None] * count)
        ]
        connection.close()
        assert plan
        growing = {"stayer_tasks", "stayer_events", "stayer_history", "stayer_usage", "t"}
        if name == "commit.done":
            assert any(step.endswith("stayer_tasks_1 (id=?)") for step in plan), plan
        for step in plan:
            assert "TEMP B-TREE" not in step, plan
            assert not (step.startswith("SCAN") and step.split()[1] in growing), plan


class TestConnections:
    def test_are_not_shared_with_a_forked_child(self, store: Store) -> None:
        assert submit(store, "parent")
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            fresh = submit(store, "child")
            os.write(writer, b"fresh" if fresh else b"stale")
            os._exit(0)
        os.close(writer)
        assert os.read(reader, 5) == b"fresh"
        os.close(reader)
        assert os.waitpid(pid, 0)[1] == 0
        assert submit(store, "parent again")
        assert [task and task.id for task in store.get(["parent", "child"])] == ["parent", "child"]

    def test_serve_many_threads(self, store: Store) -> None:
        def work(number: int) -> None:
            for step in range(20):
                assert submit(store, f"{number}-{step}")
                assert store.get([f"{number}-{step}"])[0] is not None

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.queues(["q"])[0].counts["pending"] == 160

    def test_can_be_closed_and_used_again(self, store: Store) -> None:
        store.close()
        assert submit(store, "a")


class TestBadFiles:
    def test_a_file_that_is_no_database_is_left_alone(self, path: Path) -> None:
        path.write_bytes(b"Dear diary, " * 100)
        with pytest.raises(StoreUnusable, match="not a database"):
            open_store(f"sqlite:///{path}").setup()
        assert path.read_bytes() == b"Dear diary, " * 100

    def test_a_missing_folder_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(StoreUnusable, match="no folder"):
            open_store(f"sqlite:///{tmp_path}/missing/stayer.db").setup()
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_is_no_database(self, tmp_path: Path) -> None:
        with pytest.raises(StoreUnusable, match="is a folder"):
            open_store(f"sqlite:///{tmp_path}").setup()

    def test_a_full_disk_changes_nothing(self, store: Store) -> None:
        assert submit(store, "before")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
        try:
            with pytest.raises(StoreUnusable, match="nothing was changed"):
                store.submit([new_task(queue="q", parameters=os.urandom(900_000))])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, ignored)
        assert [task.id for task in store.find(Filter(), None, 9).tasks] == ["before"]
        assert store.queues(["q"])[0].counts["pending"] == 1
        assert submit(store, "after")

    @pytest.mark.parametrize(
        "url",
        [
            "stayer.db",
            "sqlite://stayer.db",
            "sqlite:///",
            "sqlite:stayer.db",
            "sqlite:///a.db?mode=ro",
            "sqlite:///a.db?synchronous=sometimes",
            "oracle://server/db",
        ],
    )
    def test_a_url_that_makes_no_sense_is_refused(self, url: str) -> None:
        with pytest.raises(BadConfig, match="sqlite"):
            open_store(url)

    def test_a_url_may_hold_any_path(self, tmp_path: Path) -> None:
        folder = tmp_path / "100% mine?"
        folder.mkdir()
        quoted = str(folder).replace("%", "%25").replace("?", "%3F")
        store = open_store(f"sqlite:///{quoted}/stayer.db")
        store.setup()
        assert (folder / "stayer.db").exists()
        store.close()


class TestWithoutInotify:
    @pytest.fixture(autouse=True)
    def _no_inotify(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(wake, "bell_for", lambda path: wake.Polling())

    def test_a_waiter_still_wakes(self, store: Store) -> None:
        waiter = store.waiter(None, ["q"])
        writer = threading.Timer(0.01, submit, (store, "a"))
        writer.start()
        assert waiter.wait(60)
        writer.join()
        waiter.close()

    def test_a_ring_still_wakes(self, store: Store) -> None:
        waiter = store.waiter(None, ["q"])
        ringer = threading.Timer(0.01, waiter.ring)
        ringer.start()
        assert waiter.wait(None)
        ringer.join()
        waiter.close()


def test_a_waiter_hears_through_a_link(store: Store, path: Path, tmp_path: Path) -> None:
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(path)
    bell = wake.Inotify(str(link))
    assert submit(store, "a")
    assert bell.wait(60)
    bell.close()


def test_a_queue_whose_rows_were_replaced_by_hand_can_be_dropped(store: Store, path: Path) -> None:
    assert submit(store, "a")
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT OR REPLACE INTO stayer_tasks (id, queue) VALUES ('a', 'q')")
    connection.close()
    rounds = 0
    while store.drop_queue("q", 10):
        rounds += 1
        assert rounds < 5
    assert store.queues() == []


def test_a_writer_that_does_not_take_turns_is_still_safe(store: Store, path: Path) -> None:
    """Somebody without the lock file: SQLite's own lock holds."""
    descriptor = os.open(f"{path}-lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO stayer_tasks (id, queue) VALUES ('a', 'q')")
    connection.close()
    os.close(descriptor)
    store.beat(Worker(id="w", node="n", pid=1), 1, "x", ())
    assert len(store.reserve("w", ["q"], 5, EVERYTHING)) == 1
