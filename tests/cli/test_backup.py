"""`stayer backup` and `stayer restore`."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import pytest

from stayer.core.errors import LeaseLost, StoreMoved
from stayer.core.happenings import Done, Start
from stayer.core.lifecycle import decide
from stayer.core.model import Filter
from stayer.store import Store
from stayer.stores import open_store
from tests.cli.running import Here
from tests.contract.builders import (
    apply,
    beat,
    check_counts,
    fill,
    get,
    new,
    register,
    submit,
    take,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "copy.db"


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/restored.db"


def test_what_is_new_is_in_the_backup_though_the_log_has_it(
    stayer: Here, store: Store, file: Path, target: str
) -> None:
    """The file of the store itself may be empty: what is new is in the log beside it."""
    submit(store, new("a"), new("b", "other", priority=7))
    said = stayer("backup", str(file)).works()
    assert f"{file}: 2 tasks (0 of them running)" in said.out
    assert os.stat(file).st_mode & 0o777 == 0o600
    assert sorted(path.name for path in file.parent.glob("copy*")) == ["copy.db"]

    submit(store, new("later"))
    done = stayer("restore", str(file), "--to", target).works(note="copied 2 tasks")
    assert "2 tasks restored" in done.out
    restored = open_store(target)
    assert [task.id for task in restored.find(Filter(), None, 9).tasks] == ["b", "a"]
    assert get(restored, "b").priority == 7
    restored.close()


def test_it_is_whole_while_others_write_all_the_time(
    stayer: Here, store: Store, url: str, file: Path, target: str
) -> None:
    fill(store, 10)
    is_over = threading.Event()

    def write() -> None:
        other = open_store(url)
        while not is_over.is_set():
            fill(other, 20)
        other.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            stayer("backup", "--replace", str(file)).works()
    finally:
        is_over.set()
        writer.join()
    stayer("restore", str(file), "--to", target).works(note="copied")
    restored = open_store(target)
    check_counts(restored)
    [queue] = restored.queues()
    assert queue.counts["pending"] % 20 == 10, "of each batch all or nothing"
    restored.close()


def test_no_worker_goes_on_with_a_restored_store_as_if_nothing_had_been(
    stayer: Here, store: Store, file: Path, target: str
) -> None:
    register(store, "w")
    fill(store, 2)
    [held] = take(store)
    running = apply(store, held, Start())
    stayer("backup", str(file)).works()
    [after] = take(store)  # started after the backup: it waits in there

    done = stayer("restore", str(file), "--to", target).works(
        note="1 task that was running is back"
    )
    restored = open_store(target)
    assert restored.workers() == []
    for id in (running.id, after.id):
        assert get(restored, id).state == "pending"
    # The old worker, pointed at the new store, is refused: it holds nothing there.
    with pytest.raises(LeaseLost):
        beat(restored, "w", 2)
    with pytest.raises(LeaseLost):
        take(restored)
    # A new one gets nothing before somebody has said that the old ones are gone.
    register(restored, "new")
    assert take(restored, "new", limit=5) == []
    assert "all queues are paused" in done.err
    stayer("resume", "--store", target, "-q", "q").works()
    assert sorted(task.attempt for task in take(restored, "new", limit=5)) == [1, 2]
    assert restored.commit([decide(running, Done())]) == [None], "it is another's now"
    restored.close()


def test_queues_go_on_at_once_if_that_is_said(
    stayer: Here, store: Store, file: Path, target: str
) -> None:
    fill(store, 1)
    store.set_queue("held-up", paused=True)
    stayer("backup", str(file)).works()
    stayer("restore", str(file), "--to", target, "--resume").works(note="copied")
    restored = open_store(target)
    assert {queue.name: queue.paused for queue in restored.queues()} == {
        "held-up": True,
        "q": False,
    }
    restored.close()


def test_a_store_restored_with_other_tools_is_readied_in_place(
    stayer: Here, store: Store, url: str
) -> None:
    register(store, "w")
    fill(store, 2)
    [held] = take(store)
    said = stayer("restore", "--to", url, "--json").works().json
    assert (said["workers"], said["returned"], said["paused"]) == (1, 1, ["q"])
    assert get(store, held.id).state == "pending"
    assert store.workers() == []
    assert stayer("restore", "--to", url, "--json").works().json["paused"] == []
    assert stayer("restore", "--to", url).works().lines[0].endswith("is ready: it has 2 tasks")


def test_nobody_works_on_a_backup_by_mistake(stayer: Here, store: Store, file: Path) -> None:
    fill(store, 1)
    stayer("backup", str(file)).works()
    copy = open_store(f"sqlite:///{file}")
    with pytest.raises(
        StoreMoved, match=r"this store is a backup of .*stayer restore FILE --to URL"
    ):
        fill(copy, 1)
    copy.close()
    said = stayer("move", "--from", f"sqlite:///{file}", "--to", f"sqlite:///{file}.x")
    assert "this store is a backup" in said.err


def test_what_can_not_be_is_said(
    stayer: Here, store: Store, url: str, file: Path, target: str, tmp_path: Path
) -> None:
    fill(store, 1)
    stayer("backup", str(file)).works()
    assert "is there already" in stayer("backup", str(file)).err
    assert "there is no folder" in stayer("backup", f"{tmp_path}/none/x.db").err
    assert "there is no file" in stayer("restore", "nowhere.db", "--to", target).err
    (tmp_path / "encode.sh").write_text("echo\n" * 200)
    refused = stayer("restore", f"{tmp_path}/encode.sh", "--to", target)
    assert refused.code == 2
    assert f"{tmp_path}/encode.sh can't be read as a backup: file is not" in refused.err
    assert not Path(target.removeprefix("sqlite:///")).exists()
    assert "is no backup" in stayer("restore", url.removeprefix("sqlite:///"), "--to", target).err
    stayer("restore", str(file), "--to", target).works(note="copied")
    assert "is not empty" in stayer("restore", str(file), "--to", target).err


def test_the_store_is_readable_by_plain_sqlite(stayer: Here, store: Store, file: Path) -> None:
    fill(store, 3)
    stayer("backup", str(file)).works()
    with sqlite3.connect(file) as plain:
        assert plain.execute("SELECT count(*) FROM stayer_tasks").fetchone() == (3,)


@pytest.mark.parametrize(
    ("url", "tool"),
    [
        ("postgresql://h/db", "pg_dump"),
        ("mysql://h/db", "mysqldump --single-transaction"),
        ("mariadb://h/db", "mariadb-dump"),
        ("redis://h/0", "redis-cli --rdb"),
        ("rediss+cluster://h", "redis-cli --rdb"),
    ],
)
def test_servers_are_backed_up_with_their_own_tools(url: str, tool: str) -> None:
    from stayer.service.backup import own_tool

    assert tool in (own_tool(url) or "")
    assert own_tool("http://host:8787") is own_tool("memory:") is None


def test_tables_of_another_name_are_found_again(
    stayer: Here, url: str, file: Path, target: str
) -> None:
    source = open_store(f"{url}?prefix=jobs_")
    source.setup()
    fill(source, 2)
    stayer("backup", "--store", source.url, str(file)).works()
    source.close()
    stayer("restore", str(file), "--to", target).works(note="copied 2 tasks")
