"""Files that come along with tasks: kept once, for as long as somebody needs them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from stayer.core.errors import BadInput, StoreMoved
from stayer.core.model import Code, Filter, SentFile
from stayer.core.move.records import Seal
from stayer.core.schedules.model import Schedule
from stayer.core.submit.checks import new_task
from stayer.service import sent_files
from stayer.service.control import tasks as control
from stayer.service.upkeep.due_work import Forgetting
from stayer.store import Store
from tests.contract.builders import Clock, new, submit

DATA = bytes(range(256)) * 40
SHA256 = hashlib.sha256(DATA).hexdigest()
FILE = SentFile("in/data.bin", SHA256, len(DATA))
A_DAY = sent_files.KEPT_S + 1.0


def test_a_file_is_kept_by_its_hash_until_it_is_dropped(store: Store, clock: Clock) -> None:
    assert store.get_file(SHA256) is None
    assert not store.put_file(SHA256, None)

    assert store.put_file(SHA256, DATA)
    assert store.put_file(SHA256, None)
    assert store.get_file(SHA256) == DATA
    assert store.put_file("0" * 64, b"")
    assert store.get_file("0" * 64) == b""

    clock.advance(10.0)
    assert store.put_file("0" * 64, None)
    before = clock.now - 5.0
    assert store.old_files(before, 10) == [SHA256]
    assert store.old_files(clock.now + 1, 1) == [SHA256]
    store.drop_files([SHA256, "0" * 64, "f" * 64], before)
    assert (store.get_file(SHA256), store.get_file("0" * 64)) == (None, b"")
    assert store.old_files(clock.now + 1, 10) == ["0" * 64]


def test_tasks_that_files_came_with_are_found(store: Store) -> None:
    submit(store, new("bare"), new("plain", code=Code(("numpy",))))
    submit(store, new("one", code=Code(files=(FILE,))), new("two", "r", code=Code(files=(FILE,))))

    found = store.find(Filter(has_files=True), None, 10).tasks
    assert {task.id for task in found} == {"two", "one"}
    assert found[0].code == Code(files=(FILE,))
    [rest] = store.find(Filter(has_files=True, queues=("r",)), None, 10).tasks
    assert rest.id == "two"


def test_what_no_task_and_no_schedule_names_is_forgotten_after_a_day(
    store: Store, clock: Clock
) -> None:
    files = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("task", "tick", "none")}
    for name, sha256 in files.items():
        store.put_file(sha256, name.encode())
    named = {name: Code(files=(SentFile(name, sha, 4),)) for name, sha in files.items()}
    submit(store, new("t", code=named["task"]))
    store.put_schedule(
        Schedule(name="s", cron="@daily", task=new_task(queue="q", code=named["tick"]))
    )

    clock.advance(A_DAY - 60.0)
    assert sent_files.forget_unused(store) == []
    clock.advance(120.0)
    assert sent_files.forget_unused(store) == [files["none"]]
    assert [store.get_file(sha) for sha in files.values()] == [b"task", b"tick", None]
    assert store.old_files(clock.now, 10) == []  # not looked at again for a day

    assert store.drop_queue("q", 10) == 0
    store.drop_schedule("s")
    clock.advance(A_DAY)
    upkeep = Forgetting({})
    while upkeep.step(store):
        pass
    assert [store.get_file(sha) for sha in files.values()] == [None, None, None]


def test_a_file_that_is_sent_again_while_it_is_looked_for_stays(store: Store, clock: Clock) -> None:
    store.put_file(SHA256, DATA)
    clock.advance(A_DAY)
    before = clock.now - sent_files.KEPT_S
    [old] = store.old_files(before, 10)
    store.put_file(SHA256, None)
    store.drop_files([old], before)
    assert store.get_file(SHA256) == DATA


def test_a_task_with_a_file_that_is_not_there_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="send it first"):
        control.check_startable(store, [new("t", code=Code(files=(FILE,)))])
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    path.chmod(0o755)

    sent = sent_files.send(store, path, "in/data.bin")

    assert sent == SentFile("in/data.bin", SHA256, len(DATA), executable=True)
    control.check_startable(store, [new("t", code=Code(files=(sent,)))])
    assert sent_files.fetch(store, Code(files=(sent,))) == [(sent, DATA)]
    store.put_file("0" * 64, b"another")
    with pytest.raises(sent_files.FileGone, match="changed"):
        sent_files.fetch(store, Code(files=(SentFile("x", "0" * 64, 1),)))


def test_a_store_that_was_moved_takes_no_files(store: Store) -> None:
    store.put_file(SHA256, DATA)
    store.put_seal(Seal(move="m", role="moved", other="elsewhere", other_identity="o", at=1.0))
    with pytest.raises(StoreMoved):
        store.put_file(SHA256, DATA)
    with pytest.raises(StoreMoved):
        store.drop_files([SHA256], 1e10)
