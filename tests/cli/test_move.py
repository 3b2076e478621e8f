"""`stayer move`, and `stayer init --sql`."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from stayer.core.happenings import Done
from stayer.core.model import Filter
from stayer.service import move as moving
from stayer.store import Store
from stayer.stores import open_store
from tests.cli.running import Here
from tests.contract.builders import apply, fill, get, new, register, submit, take


def moved_to(folder: Path, name: str = "new.db") -> str:
    return f"sqlite:///{folder}/{name}"


def test_a_store_is_moved_and_the_next_command_is_named(
    stayer: Here, store: Store, url: str, tmp_path: Path
) -> None:
    submit(store, new("a"), new("b", "other"))
    done = stayer("move", "--to", moved_to(tmp_path)).works(note="compared 2 tasks")
    assert "moved 2 queues, 2 tasks: counted and compared, nothing is missing" in done.out
    assert f"export STAYER_STORE='{moved_to(tmp_path)}'" in done.out
    target = open_store(moved_to(tmp_path))
    assert [task.id for task in target.find(Filter(), None, 9).tasks] == ["b", "a"]
    target.close()

    # The old one can be looked at, says where it has gone, and takes nothing.
    assert "this store was moved to" in stayer("ls").err
    looked = stayer("doctor")
    assert looked.code == 1
    assert f"moved        this store was moved to {moved_to(tmp_path)}" in looked.out
    code = stayer("add", "--", "true")
    assert (code.code, code.out) == (2, "")
    assert f"this store was moved to {moved_to(tmp_path)}: use that one" in code.err
    again = stayer("move", "--from", url, "--to", moved_to(tmp_path)).works(note="moving")
    assert "export STAYER_STORE" in again.out


def test_what_was_moved_is_said_as_json(
    stayer: Here, store: Store, url: str, tmp_path: Path
) -> None:
    submit(store, new("a"), new("b", "other"))
    said = stayer("move", "--json", "--to", moved_to(tmp_path)).works(note="moving").json
    assert (said["from"], said["to"]) == (url, moved_to(tmp_path))
    assert (said["moved"]["tasks"], said["moved"]["queues"]) == (2, 2)


def test_a_path_is_named_as_it_is_understood_everywhere(
    stayer: Here, store: Store, folder: Path
) -> None:
    submit(store, new("a"))
    stayer("move", "--to", "sqlite:///new.db").works(note="copied 1 task")
    seal = store.seal()
    assert seal is not None
    assert seal.other == f"sqlite:///{folder}/new.db"


def test_a_store_that_workers_use_is_not_moved(stayer: Here, store: Store, tmp_path: Path) -> None:
    register(store, "w1")
    refused = stayer("move", "--to", moved_to(tmp_path))
    assert refused.code == 2
    assert "w1 (node-of-w1)" in refused.err
    assert "stayer drain w1" in refused.err
    submit(store, new("a"))


def test_where_to_has_to_be_said(stayer: Here, store: Store) -> None:
    stayer("move").refuses("say where to: stayer move --to URL")
    stayer("move", "--reopen", "--to", "sqlite:///x.db").refuses("leave out --to")


def test_a_store_that_is_not_there_is_not_moved(stayer: Here, tmp_path: Path) -> None:
    stayer("move", "--from", moved_to(tmp_path, "no.db"), "--to", moved_to(tmp_path)).refuses(
        "there is no store at"
    )
    assert not (tmp_path / "new.db").exists()


def test_a_moved_store_is_reopened_only_on_ones_word(
    stayer: Here, store: Store, tmp_path: Path
) -> None:
    submit(store, new("a"))
    stayer("move", "--reopen").refuses("bears no mark of a move")
    stayer("move", "--to", moved_to(tmp_path)).works(note="copied")
    stayer("move", "--reopen").refuses("tasks would run twice", "say --yes")
    assert "is in use again" in stayer("move", "--reopen", "--yes").works().out
    submit(store, new("b"))


def test_rows_by_hand_are_refused_where_a_store_was_moved(
    stayer: Here, store: Store, tmp_path: Path
) -> None:
    submit(store, new("a"))
    stayer("move", "--to", moved_to(tmp_path)).works(note="copied")
    hand = sqlite3.connect(tmp_path / "stayer.db", isolation_level=None)
    for statement in (
        "INSERT INTO stayer_tasks (id, queue) VALUES ('b', 'q')",
        "DELETE FROM stayer_tasks WHERE id = 'a'",
        "UPDATE stayer_queues SET paused = 1",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="stayer: this store was moved to"):
            hand.execute(statement)
    hand.close()


def test_a_store_with_rows_that_can_not_be_read_is_moved(
    stayer: Here, store: Store, tmp_path: Path
) -> None:
    """What is damaged is set aside on the way, though the store is sealed."""
    submit(store, new("a"), new("b"))
    hand = sqlite3.connect(tmp_path / "stayer.db", isolation_level=None)
    hand.execute("UPDATE stayer_tasks SET owner = CAST(x'ff' AS TEXT) WHERE id = 'a'")
    hand.close()
    stayer("move", "--to", moved_to(tmp_path)).works(note="compared 2 tasks")
    target = open_store(moved_to(tmp_path))
    assert (get(target, "a").state, get(target, "b").state) == ("failed", "pending")
    target.close()


def test_kill_at_any_moment_and_run_again_and_nothing_is_lost(
    store: Store, environment: dict[str, str], tmp_path: Path
) -> None:
    register(store, "w")
    for number in range(4):
        fill(store, 500, f"queue-{number}", parameters={"text": "x" * 500})
        for task in take(store, "w", f"queue-{number}", 50):
            apply(store, task, Done("y" * 500))
    [worker] = store.workers()
    store.drop_worker("w", worker.number)
    command = [sys.executable, "-c", SLOW_MOVE, moved_to(tmp_path)]
    chance = random.Random(1)
    kills = 0
    while True:
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stderr is not None
        for _ in range(chance.randrange(3, 12 + 20 * kills)):  # lines that say what has been done
            if not process.stderr.readline():
                break
        process.send_signal(signal.SIGKILL)
        _, err = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, err
        kills += 1
        assert kills < 200
    assert kills > 3
    target = open_store(moved_to(tmp_path))
    assert target.seal() is None
    assert len(target.find(Filter(), None, 9999).tasks) == 2000
    target.put_seal(store.seal())
    for stage in ("queues", "tasks"):
        theirs = moving._digest(target, stage, 0.0, lambda _: None)
        assert moving._digest(store, stage, 0.0, lambda _: None) == theirs
    target.close()


SLOW_MOVE = """
import sys
from stayer.service import move
from stayer.cli.main import cli

move.BATCH = 30_000
copy = move.Progress

def told(*args):
    print(*args, file=sys.stderr, flush=True)
    return copy(*args)

move.Progress = told
cli(["move", "--to", sys.argv[1]])
"""


def test_the_sql_of_a_store_makes_the_same_tables(
    stayer: Here, store: Store, tmp_path: Path
) -> None:
    script = stayer("init", "--sql").works().out
    assert "CREATE TABLE stayer_tasks" in script
    by_hand = sqlite3.connect(tmp_path / "by-hand.db")
    by_hand.executescript(script)
    assert _tables(by_hand) == _tables(sqlite3.connect(tmp_path / "stayer.db"))
    by_hand.close()
    (tmp_path / "by-hand.db").chmod(0o600)
    made = moved_to(tmp_path, "by-hand.db")
    stayer("add", "--", "true", STAYER_STORE=made).works()

    prefixed = stayer("init", "--sql", STAYER_STORE=f"{made}?prefix=jobs_").works().out
    assert "stayer_" not in prefixed
    stayer("init", "--sql", STAYER_STORE="redis://localhost").refuses("is no SQL database")


def _tables(database: sqlite3.Connection) -> dict[tuple[str, str], str]:
    rows = database.execute("SELECT type, name, sql FROM sqlite_master")
    return {(kind, name): (sql or "").strip() for kind, name, sql in rows}
