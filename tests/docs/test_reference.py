"""Every public name, setting and key is documented, with the signature that it has."""

from __future__ import annotations

import inspect
import re
import runpy
from collections.abc import Iterator

import pytest

import stayer
from stayer import aio, config
from stayer.client.submit import Options
from stayer.core import codec
from stayer.core.fields import POLICY
from stayer.core.liveness.lost_workers import LostWorker
from stayer.core.model import Attempt, Event, Fault, Progress, Task
from stayer.core.queue_model import QueueInfo
from stayer.core.worker_model import Worker
from tests.docs.pages import DOCS, section, text

PYTHON = "reference/python.md"
SCRIPT = runpy.run_path(str(DOCS / "python_signatures.py"))
CLASSES: dict[type, str] = {kind: part for part, kind in SCRIPT["CLASSES"].items()}
MADE_BY_USERS = (stayer.Client, stayer.App, stayer.Flow)
LOST = LostWorker(
    id="id", node="node", pid=1, version="1", started_at=0, beat_at=0, lost_at=0, by="a server"
)
FIELDS = {*Task.__struct_fields__, *POLICY}
"""Those of the record, which the page leaves to that of JSON."""
FOR_INSIDE = {"heartbeat", "is_cancelled", "note_begin", "forget"}
"""What a listener has for its processors."""


def public(kind: type) -> Iterator[str]:
    """The names that a reader may use."""
    yield from (name for name in dir(kind) if not name.startswith("_"))


def members() -> Iterator[tuple[type, str]]:
    for kind in CLASSES:
        for name in public(kind):
            if name in FIELDS or (kind is stayer.Listener and name in FOR_INSIDE):
                continue
            yield kind, name


@pytest.mark.parametrize("name", stayer.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    assert re.search(rf"\b{name}\b", text(PYTHON))


@pytest.mark.parametrize(
    ("kind", "name"), list(members()), ids=lambda given: getattr(given, "__name__", given)
)
def test_every_method_is_documented_with_its_signature(kind: type, name: str) -> None:
    said = section(PYTHON, CLASSES[kind])
    if (function := SCRIPT["method"](kind, name)) is not None:
        assert f"`{SCRIPT['signature'](name, function)}`" in said
    else:
        assert f"`{name}`" in said


def test_every_option_of_a_task_is_documented_and_no_other() -> None:
    said = section(PYTHON, "### Options of a task")
    named = {
        name
        for line in said.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split(" | ")[0])
    }
    assert named == set(Options.__optional_keys__)


@pytest.mark.parametrize("kind", MADE_BY_USERS)
def test_what_users_make_is_documented_with_its_arguments(kind: type) -> None:
    said = section(PYTHON, CLASSES[kind])
    made = SCRIPT["signature"](kind.__name__, inspect.getattr_static(kind, "__init__"))
    assert f"`{made}`" in said


@pytest.mark.parametrize("name", aio.__all__)
def test_the_awaited_classes_differ_only_as_documented(name: str) -> None:
    said = section(PYTHON, "## stayer.aio")
    plain, awaited = getattr(stayer, name), getattr(aio, name)
    assert f"`{name}`" in said
    more = {*public(awaited)} - {*public(plain)}
    assert all(re.search(rf"\b{extra}\b", said) for extra in more), more
    less = {*public(plain)} - {*public(awaited)} - FOR_INSIDE
    assert less <= {"cancelled", "closed", "lost", "ring", "give_back"}, less


@pytest.mark.parametrize("name", config.SETTINGS)
def test_every_setting_is_documented(name: str) -> None:
    said = section("reference/configuration.md", "## Settings")
    assert f"| `{name}` | `{config.SETTINGS[name].variable}` |" in said


def test_every_setting_of_workers_is_documented() -> None:
    said = section("reference/configuration.md", "### The table `[worker]`")
    assert {*re.findall(r"`(\w+)`", said)} >= {*getattr(config, "WORKER", ())}


def keys(heading: str) -> list[str]:
    """The keys that the page about JSON names below a heading, in order."""
    said = section("reference/json.md", heading).partition("\n### ")[0]
    first = [row.split("|")[1] for row in said.splitlines() if row.startswith("| `")]
    return [key for cell in first for key in re.findall(r"`(\w+)`", cell)]


@pytest.mark.parametrize(
    ("heading", "record"),
    [
        ("## A task", codec.record(Task("id", "queue"))),
        ("## An attempt", codec.attempt_record(Attempt(attempt=1))),
        ("## An event", codec.event_record(Event(number=1, at=0, id="", queue="", event=""))),
        ("## A queue", codec.queue_record(QueueInfo(name="queue"))),
        ("## A worker", codec.worker_record(Worker(id="id", node="node", pid=1))),
        ("## A worker that is down", codec.lost_worker_record(LOST)),
        ("### An error", dict.fromkeys(Fault.__struct_fields__)),
        ("### A progress", dict.fromkeys(Progress.__struct_fields__)),
    ],
)
def test_every_key_of_the_json_is_documented_and_no_other(
    heading: str, record: dict[str, object]
) -> None:
    assert sorted(keys(heading)) == sorted(record)


def test_the_exit_codes_are_those_of_the_command_line() -> None:
    codes = re.compile(r"^\| \d+ \|.*$", re.MULTILINE)
    assert codes.findall(text("reference/json.md")) == codes.findall(text("reference/cli.md"))
