"""What the page for those who come from four other queues says of ours is true, cell by cell."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import redis

import stayer
from stayer import config
from stayer.core.model import STATES
from stayer.core.worker_model import WorkerState
from stayer.stores import open_store
from stayer.worker.signals import HANDLED_SIGNALS
from tests.cli.running import Here
from tests.client.own_store import install
from tests.docs.named import look_up_command, look_up_python, look_up_route, rows, spans
from tests.faults.fleet import until
from tests.servers.finding import redis_binary
from tests.servers.redis import serving

PAGE = "how-to/coming-from.md"

CELLS = [cell for _, cell in rows(PAGE)]
NAMED = sorted({span for cell in CELLS for span in spans(cell)})
WORDS = {
    *STATES,
    *get_args(WorkerState),
    *(number.name.removeprefix("SIG") for number in HANDLED_SIGNALS),
    "KILL",
    "run", "kill",  # methods of the class that --run names: see how-to/python-tasks.md
    "run_at",  # not ours
}  # fmt: skip
STAYS = {"worker", "serve", "run", "drain", "report", "stack"}
"""Commands that run on, or need a running task: these are parsed, the others run."""

SETTINGS = 'retries = 0\n[worker]\napp = "jobs"\n'
"""What `stayer worker` runs if nothing else is said."""

KINDS = {
    "command": re.compile(r"stayer [a-z].*"),
    "route": re.compile(r"(?:GET|POST|DELETE|PATCH|PUT) /.*"),
    "sql": re.compile(r"(?:INSERT|DELETE) (?:INTO|FROM) .*"),
    "redis": re.compile(r"[A-Z]+ stayer:.*"),
    "url": re.compile(r"(?:redis|sqlite|mysql|postgresql)://.*"),
    "setting": re.compile(r"(?:\[[\w.]+\] )?[a-z_]+ = .*"),
    "variable": re.compile(r"STAYER_\w+"),
    "python": re.compile(r"[A-Z][a-z]\w*(?:\.\w+)?(?:\(.*\))?"),
    "word": re.compile(r"\w+"),
}


def kind_of(span: str) -> str:
    return next((kind for kind, form in KINDS.items() if form.fullmatch(span)), "")


def of_kind(kind: str) -> list[str]:
    found = [span for span in NAMED if kind_of(span) == kind]
    assert found, kind
    return found


def fill(client: stayer.Client) -> None:
    """Make the tasks that the page speaks of, and some that make its lists non-empty."""
    queue = client.get_queue("encode")
    for id in ("film-2", "film-3"):
        queue.enqueue(id=id)
        with client.get_listener("encode") as listener:
            task = listener.listen()
            assert task is not None
            processor = client.get_processor(task)
            processor.start()
            processor.fail("broken") if id == "film-2" else processor.complete()
    queue.enqueue({"file": "a.mov"}, id="film-1", unique="shop-42")
    queue.enqueue(id="film-7")
    queue.enqueue(id="film-late", delay="1d")
    client.get_task(queue.enqueue(id="film-gone")).cancel()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store with these tasks, to be copied."""
    path = tmp_path_factory.mktemp("filled") / "tasks.db"
    with stayer.Client(f"sqlite:///{path}") as client:
        fill(client)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path.read_bytes()


@pytest.fixture
def path(filled: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(install(tmp_path))  # somebody's own store
    found = tmp_path / "tasks.db"
    found.touch(0o600)
    found.write_bytes(filled)
    return found


@pytest.fixture
def command(path: Path) -> Here:
    """Our command, in a folder with the files that the page names."""
    (path.parent / "stayer.toml").write_text(SETTINGS)
    (path.parent / "production.toml").write_text(SETTINGS)
    (path.parent / "parameters.json").write_text("{}")
    (path.parent / "jobs.jsonl").write_text('{"queue": "encode"}\n')
    (path.parent / "film.mov").write_text("film")
    home = path.parent / "home"
    home.mkdir()
    return Here({"STAYER_STORE": f"sqlite:///{path}", "HOME": str(home), "USER": "ann"})


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[redis.Redis, stayer.Client, str]]:
    """A Redis with these tasks, one of which is taken; who has it."""
    with serving(redis_binary()) as running:
        url = running.url().partition("?")[0]  # with the usual prefix
        with stayer.Client(url) as client:
            yield from holding(client, url)


def holding(client: stayer.Client, url: str) -> Iterator[tuple[redis.Redis, stayer.Client, str]]:
    fill(client)
    with client.get_listener("encode") as listener, redis.Redis.from_url(url) as plain:
        taken = listener.listen()
        assert taken is not None
        assert taken.id == "film-1"
        yield plain, client, client.workers()[0].id


def test_every_row_says_something_that_is_tried_or_that_it_is_not_there() -> None:
    for cell in CELLS:
        assert spans(cell) or re.match(r"Not (there|needed)|Stayer$|it completes", cell), cell


def test_everything_that_is_named_is_of_a_kind_that_is_tried() -> None:
    assert [span for span in NAMED if not kind_of(span)] == []
    assert {*of_kind("word")} <= WORDS


def test_flags_that_are_said_to_be_missing_are_missing() -> None:
    worker, _ = look_up_command(["worker"])
    options = {option for each in worker.params for option in each.opts}
    missing = {
        flag
        for there, cell in rows(PAGE)
        if cell.startswith("Not there") and "ARGS" not in there
        for flag in re.findall(r"`(--[a-z-]+)", there)
    }
    assert missing
    assert not missing & options


@pytest.mark.parametrize("named", of_kind("command"))
def test_a_command_works(named: str, command: Here) -> None:
    words = shlex.split(named)[1:]
    found, rest = look_up_command(words)
    if words[:2] == ["workers", "set"] or words == ["drain", "WORKER"]:
        store = command.environment["STAYER_STORE"]
        with stayer.Client(store) as client, client.get_listener(["upload", "more"]) as ear:
            ear.listen(timeout=0)
            worker = client.workers()[0].id
            command(*(worker if word == "WORKER" else word for word in words)).works()
    elif words[0] in STAYS or "WORKER" in words or "https://" in " ".join(words):
        found.make_context(words[0], rest)
    else:
        done = command(*words)
        assert done.code == 0, done


def test_python_has_what_is_named() -> None:
    for named in of_kind("python"):
        look_up_python(named)


def is_tried_here(named: str) -> bool:
    """Tell whether it is a call that needs neither a server nor a function that never ends."""
    if named in ("Listener.listen(function)", "Queue.drop(force=True)"):
        return named.startswith("Queue")
    return named.endswith(")") and not re.match(r"Client\(.(mysql|redis)", named)


@pytest.mark.parametrize("named", [each for each in of_kind("python") if is_tried_here(each)])
def test_a_call_works(named: str, path: Path) -> None:
    with (
        stayer.Client(f"sqlite:///{path}") as client,
        client.get_listener("encode") as listener,
    ):
        names = names_for(named, client, listener)
        eval(compile(named, named, "eval"), names)


def names_for(named: str, client: stayer.Client, listener: stayer.Listener) -> dict[str, Any]:
    """Return what the names of a call stand for: an object for each class that it names."""
    what = named.partition("(")[0]
    if what == "Client":
        return {"Client": stayer.Client}
    names: dict[str, Any] = {
        "Client": client,
        "Queue": client.get_queue("encode"),
        "TaskHandle": client.get_task("film-3" if what == "TaskHandle.wait" else "film-1"),
        "Listener": listener,
        "Context": stayer.Context.for_test({"file": "a.mov"}),
        "App": stayer.App(),
        "Flow": stayer.Flow("films"),
        "function": len,
        "hook": lambda *given: None,
    }
    if what == "Client.set_worker":
        client.get_task("film-1").hold()
        listener.listen(timeout=0)
        names["id"] = client.workers()[0].id
    if what.startswith("Flow"):
        names["Flow"].add(name="encode", part="film-1")
    if what.startswith("Processor") or what in ("Listener.give_back", "Client.get_processor"):
        names["task"] = task = listener.listen()
        assert task is not None
        names["Processor"] = processor = client.get_processor(task)
        if what.startswith("Processor") and what != "Processor.start":
            processor.start()
        if what == "Processor.stopped":
            client.get_task(task.id).cancel()
    return names


def test_attributes_are_those_of_what_there_is(path: Path) -> None:
    with (
        stayer.Client(f"sqlite:///{path}") as client,
        client.get_listener("encode") as listener,
    ):
        task = listener.listen()
        assert task is not None
        owners: dict[str, Any] = {
            "Task": task,
            "TaskHandle": client.get_queue("encode").submit(),
            "Worker": client.workers()[0],
            "QueueInfo": client.queues()[0],
            "Processor": client.get_processor(task),
            "Context": stayer.Context.for_test(),
        }
        for named in of_kind("python"):
            name, dot, attribute = named.partition(".")
            if dot and not named.endswith(")"):
                getattr(owners[name], attribute)


WORKERS = [
    each for each in of_kind("command")
    if each.startswith("stayer worker") and not each.startswith("stayer workers")
    and "mysql" not in each
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("named", WORKERS)
def test_a_worker_starts_and_stops(named: str, path: Path, command: Here) -> None:
    folder = path.parent
    (folder / "encode.py").write_text(
        "class Encode:\n    def run(self):\n        pass\nRun = Encode\n"
    )
    (folder / "jobs.py").write_text("import stayer\napp = stayer.App()\n")
    (folder / "encode").write_text("#!/bin/sh\n")
    (folder / "encode").chmod(0o755)
    words = shlex.split(named.replace("FILE:CLASS", "encode.py:Encode"))[1:]
    url = f"sqlite:///{path}"
    known = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "STAYER_STORE": url}
    running = subprocess.Popen([sys.executable, "-m", "stayer", *words], cwd=folder, env=known)
    try:
        with stayer.Client(url) as client:
            until(lambda: client.workers() or running.poll(), f"for {named}")
            [worker] = client.workers()
            os.kill(worker.pid, signal.SIGTERM)
            assert running.wait(60) == 0
            until(lambda: not client.workers(), "for it to leave")
    finally:
        running.kill()
        running.wait()


def test_the_server_has_the_routes_that_are_named() -> None:
    for named in of_kind("route"):
        look_up_route(named)


def test_sql_does_what_it_says(path: Path) -> None:
    for named in of_kind("sql"):
        with sqlite3.connect(path) as connection:
            assert connection.execute(named).rowcount == 1, named
        connection.close()
    with stayer.Client(f"sqlite:///{path}") as client:
        assert client.get_task("film-8").parameters == {"any": "data"}
        assert not [*client.find(ids=["film-1"])]


def test_urls_can_be_opened() -> None:
    for named in of_kind("url"):
        if named.startswith("sqlite"):
            config.SETTINGS["store"].parse(named)
        else:
            open_store(named).close()


def test_settings_are_read(tmp_path: Path) -> None:
    for named in of_kind("setting"):
        file = tmp_path / "stayer.toml"
        file.write_text(named.replace("] ", "]\n", 1) + "\n")
        assert str(file) in config.load({"config": str(file)}, {}).sources.values() or (
            named.startswith("[queues")
        )
    for variable in of_kind("variable"):
        known = {setting.variable for setting in config.SETTINGS.values()}
        assert variable in {*known, "STAYER_CONFIG"}


def test_keys_of_redis_hold_what_they_say(
    server: tuple[redis.Redis, stayer.Client, str],
) -> None:
    plain, client, worker = server
    named = [shlex.split(each.replace("WORKER", worker)) for each in of_kind("redis")]
    subscriptions = [words for words in named if words[0] == "SUBSCRIBE"]
    pushes = [words for words in named if words[0] == "LPUSH"]
    for words in named:
        if words[0] not in ("SUBSCRIBE", "PUBLISH", "LPUSH"):
            assert plain.execute_command(*words), words
    [[_, channel]] = subscriptions
    with plain.pubsub() as ear:
        ear.subscribe(channel)
        assert ear.get_message(timeout=60)["type"] == "subscribe"
        before = len([*client.find()])
        for words in pushes:
            plain.execute_command(*words)
        for words in named:
            if words[0] == "PUBLISH":
                plain.execute_command(*words)
        with client.get_listener("encode") as listener:
            while plain.llen("stayer:incoming"):
                listener.listen(timeout=1)
        assert ear.get_message(timeout=60)["type"] == "message"
    assert plain.lrange("stayer:refused", 0, -1) == []
    assert len([*client.find()]) == before + len(pushes) - 1
    assert client.get_task("film-1").cancel_wanted
