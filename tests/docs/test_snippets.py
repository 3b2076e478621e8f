"""The code and the commands on the pages work."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from stayer import Client, TaskHandle
from stayer.service.explain import reasons
from stayer.stores import open_store
from stayer.stores.sql.postgres.url import parse
from tests.docs.pages import PATIENCE, Block, blocks, text
from tests.docs.reader import Reader

REFERENCE = [block for block in blocks("reference/python.md") if block.language == "python"]


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("block", REFERENCE, ids=range(len(REFERENCE)))
def test_each_example_of_the_python_api_runs_by_itself(reader: Reader, block: Block) -> None:
    reader.follow(Block("python", "example.py", block.code))
    reader.run("python3 example.py")


def test_rows_that_are_inserted_are_tasks(reader: Reader) -> None:
    *given, deletion = blocks("how-to/submit-with-sql.md")
    for block in given:
        reader.follow(block)
    reader.run("python3 insert.py")
    with Client(f"sqlite:///{reader.folder}/tasks.db") as client:
        assert client.get_task("film-1").parameters == {"file": "a.mov"}
        assert [task.id for task in client.get_queue("encode").peek()] == ["film-2", "film-1"]
        reader.follow(deletion)
        assert [task.id for task in client.find()] == ["film-2"]


def test_order_and_task_are_committed_together(reader: Reader) -> None:
    code, *_, listing = blocks("how-to/submit-in-a-transaction.md")
    reader.follow(code)
    assert reader.run("python3 orders.py") == "invoice-1\n"
    reader.follow(listing)


def test_many_short_tasks_are_submitted_at_once(reader: Reader) -> None:
    [code] = [each for each in blocks("how-to/short-tasks-in-threads.md") if each.title]
    reader.follow(code)
    assert reader.run("python3 jobs.py") == "5000\n"


class Consumer:
    """The program of the page about listeners, with a task."""

    def __init__(self, reader: Reader, frames: int) -> None:
        self.code, self.listing = blocks("how-to/take-tasks-in-your-own-process.md")
        reader.follow(self.code)
        self.client = Client(f"sqlite:///{reader.folder}/tasks.db")
        self.client.get_queue("encode").enqueue({"frames": frames}, id="film-1")
        self.task: TaskHandle[object] = self.client.get_task("film-1")
        self.process = reader.start("consumer.py", log=reader.folder / "consumer.log")

    def until_it(self, state: str) -> None:
        until(lambda: self.task.refresh().state == state)

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self.client.close()


def test_a_consumer_works_through_its_queue(reader: Reader) -> None:
    consumer = Consumer(reader, 3)
    try:
        consumer.until_it("complete")
        assert consumer.task.result == {"frames": 3}
    finally:
        consumer.close()


def test_a_consumer_that_is_terminated_gives_its_task_back(reader: Reader) -> None:
    consumer = Consumer(reader, 10**9)
    try:
        consumer.until_it("started")
        assert consumer.terminate() == 0
        assert consumer.task.refresh().state == "pending"
        assert consumer.client.workers() == []
        reader.follow(consumer.listing)
    finally:
        consumer.close()


def test_a_consumer_hears_of_a_cancel(reader: Reader) -> None:
    consumer = Consumer(reader, 10**9)
    try:
        consumer.until_it("started")
        consumer.task.cancel()
        consumer.until_it("cancelled")
    finally:
        consumer.close()


def test_old_tasks_are_forgotten(reader: Reader) -> None:
    reader.run("stayer init && stayer add --id film-1 && stayer cancel film-1")
    reader.run("for n in 1 2 3; do stayer add -q old-experiments --id $n; stayer cancel $n; done")
    for block in blocks("how-to/retention-and-purge.md"):
        if block.language == "console":
            reader.follow(block)
    assert json.loads(reader.run("stayer ls --json")) == []


def test_a_task_that_nobody_takes_is_explained(reader: Reader) -> None:
    reader.run("stayer init")
    first, *_ = blocks("how-to/find-out-why-it-waits.md")
    reader.follow(first)


def test_every_reason_is_documented() -> None:
    """As they are written in the source: each word is the first argument of a Reason."""
    source = inspect.getsource(reasons)
    known = {*re.findall(r'Reason\(\s*"([\w-]+)"', source)}
    table = text("how-to/find-out-why-it-waits.md").partition("| `reason` |")[2]
    assert len(known) > 15
    assert known == {*re.findall(r"`([\w-]+)`", table.partition("\n\n")[0])}


def test_the_configuration_file_is_one(reader: Reader) -> None:
    [block] = [found for found in blocks("reference/configuration.md") if found.language == "toml"]
    (reader.folder / "stayer.toml").write_text(block.code)
    shown = json.loads(reader.run("stayer config --json"))
    file = os.path.join(reader.folder, "stayer.toml")
    assert {name for name in shown if shown[name].get("source") == file} >= {"store", "lease"}


@pytest.mark.parametrize(
    ("page", "program", "printed"),
    [
        ("how-to/limits.md", "limits.py", "20 2 {'example.net': 5} owner\n"),
        ("how-to/unique.md", "sync.py", "True\n"),
    ],
)
def test_limits_and_unique_words_do_what_their_pages_say(
    reader: Reader, page: str, program: str, printed: str
) -> None:
    for block in blocks(page):
        reader.follow(block)
    assert reader.run(f"python3 {program}") == printed


def test_a_password_in_a_file_is_named_as_each_driver_wants_it(tmp_path: Path) -> None:
    found = re.findall(
        r"`((?:postgresql|mysql|redis)://[^`]+)`", text("how-to/rotate-tokens-and-secrets.md")
    )
    postgres, mysql, redis = found
    assert conninfo_to_dict(parse(postgres).conninfo)["passfile"] == "/etc/stayer/pgpass"
    open_store(mysql).close()
    (tmp_path / "password").write_text("secret\n")
    open_store(redis.replace("/etc/stayer", str(tmp_path))).close()
