"""`stayer add --jsonl`: many tasks from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stayer.cli.add_lines import CHUNK_TASKS
from stayer.core.codec import PARAMETERS_LIMIT
from stayer.core.model import Filter
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.cli.running import Apart, Here


def lines(*submissions: Any) -> str:
    return "".join(f"{json.dumps(submission)}\n" for submission in submissions)


def everything(store: Store) -> list[str]:
    """All ids, oldest first."""
    return [task.id for task in control.find_all(store, Filter())][::-1]


def test_the_ids_come_in_the_order_of_the_lines(stayer: Here, store: Store, folder: Path) -> None:
    # Given more lines than go to the store at a time
    (folder / "many.jsonl").write_text(
        lines(*({"parameters": n} for n in range(2 * CHUNK_TASKS + 10)))
    )

    # When they are submitted
    done = stayer("add", "-q", "q", "--jsonl", "many.jsonl").works()

    # Then each id is that of its line
    assert done.lines == everything(store)
    found = control.find_all(store, Filter(queues=("q",)))
    assert [task.parameters for task in found][::-1] == list(range(2 * CHUNK_TASKS + 10))


def test_every_field_reaches_the_task(stayer: Here, store: Store) -> None:
    line = {
        "id": "t", "queue": "enc", "command": ["ls", "-l"], "cwd": "/y", "env": {"A": "b"},
        "parameters": {"base64": "AA=="}, "priority": 5, "owner": "bob", "tags": ["x"],
        "held": True, "retries": 3, "delay": "10m",
    }  # fmt: skip

    stayer("add", "--jsonl", "-", input=lines(line)).works()

    task = control.get(store, "t")
    assert (task.queue, task.command, task.cwd) == ("enc", ("ls", "-l"), "/y")
    assert (task.env, task.parameters, task.priority) == ({"A": "b"}, b"\0", 5)
    assert (task.owner, task.tags, task.held) == ("bob", ("x",), True)
    assert (task.policy.retries, task.state) == (3, "scheduled")


def test_commands_run_where_they_were_submitted_or_where_it_is_said(
    stayer: Here, store: Store, folder: Path
) -> None:
    given = {"id": "said", "command": ["ls"], "cwd": "/x/../y"}

    stayer("add", "--jsonl", "-", input=lines(given, {"id": "unsaid", "command": ["ls"]})).works()

    assert [control.get(store, id).cwd for id in ("said", "unsaid")] == ["/y", str(folder)]


def test_options_hold_for_lines_that_do_not_say(stayer: Here, store: Store) -> None:
    said = {"id": "said", "queue": "own", "owner": "own", "retries": 0}

    stayer(
        "add", "-q", "q", "--owner", "o", "--retries", "2", "--jsonl", "-",
        input=lines(said, {"id": "unsaid", "command": ["ls"]}),
    ).works()  # fmt: skip

    own, other = (control.get(store, id) for id in ("said", "unsaid"))
    assert (own.queue, own.owner, own.policy.retries) == ("own", "own", 0)
    assert (other.queue, other.owner, other.policy.retries) == ("q", "o", 2)


def test_blank_lines_a_bom_and_a_missing_end_are_no_matter(stayer: Here, store: Store) -> None:
    stayer("add", "--jsonl", "-", input=b'\xef\xbb\xbf{"id": "a"}\r\n\n  \n{"id": "b"}').works()

    assert everything(store) == ["a", "b"]


def test_json_is_an_array_of_records(stayer: Here) -> None:
    stayer("add", "--id", "old")

    done = stayer("add", "--json", "--jsonl", "-", input=lines({"id": "new"}, {"id": "old"}))

    assert [(task["id"], task["fresh"]) for task in done.json] == [("new", True), ("old", False)]
    assert done.code == 0


def test_an_empty_file_is_no_error(stayer: Here) -> None:
    done = stayer("add", "--jsonl", "-", input="\n")

    assert (done.code, done.out, done.err) == (0, "", "stayer: no tasks in stdin\n")
    assert stayer("add", "--json", "--jsonl", "-", input="").json == []


def test_what_is_there_already_is_counted_and_what_differs_is_named(stayer: Here) -> None:
    stayer("add", "--id", "same", "--data", "1")
    stayer("add", "--id", "other", "--data", "1")

    done = stayer(
        "add", "--jsonl", "-",
        input=lines(*({"id": id, "parameters": n} for id, n in (("same", 1), ("other", 2)))),
    )  # fmt: skip

    assert (done.code, done.lines) == (0, ["same", "other"])
    assert "warning: task other is there already with other parameters" in done.err
    assert "2 of 2 tasks were already there" in done.err
    assert "task same" not in done.err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", ["not JSON"]),
        ("[1]", ["object"]),
        ("null", ["object"]),
        ('{"que": "q"}', ["'que'", "allowed are", "queue"]),
        ('{"queue": 7}', ["queue"]),
        ('{"queue": ""}', ["queue"]),
        ('{"id": "\\u001b"}', [r"\x1b"]),
        ('{"delay": "soon"}', ["delay"]),
        ('{"eta": "1d"}', ["eta"]),
        ('{"eta": 1, "delay": 1}', ["either an eta or a delay"]),
        ('{"delay": 60, "expire": 60}', ["expire 60", "delay of 60", "let it expire later"]),
        ('{"priority": 1e99}', ["priority"]),
        ('{"retries": -1}', ["retries"]),
        ('{"command": []}', ["command is empty"]),
        ('{"command": ["a\\u0000"]}', ["NUL"]),
        ('{"name": "n", "command": ["a"]}', ["either a name or a command"]),
        ('{"env": {"A=": "b"}}', ["variable"]),
        ('{"parameters": "' + "x" * PARAMETERS_LIMIT + '"}', ["limit is 1"]),
        ('{"parameters": {"base64": "?"}}', ["base64"]),
    ],
)
def test_a_bad_line_is_named_and_nothing_of_its_chunk_accepted(
    stayer: Here, store: Store, folder: Path, line: str, words: list[str]
) -> None:
    (folder / "bad.jsonl").write_text(f"{lines({}, {})}\n{line}\n{lines({})}")

    stayer("add", "--jsonl", "bad.jsonl").refuses("bad.jsonl:4", "nothing was accepted", *words)

    assert everything(store) == []


def test_what_was_accepted_before_a_bad_line_is_said(stayer: Here, store: Store) -> None:
    good = lines(*[{}] * (CHUNK_TASKS + 5))

    done = stayer("add", "--jsonl", "-", input=f"{good}oops\n")

    assert done.code == 2
    assert f"stdin:{CHUNK_TASKS + 6}: not JSON" in done.err
    assert "the first 1,000 tasks were accepted, the rest was not" in done.err
    assert done.lines == everything(store)
    assert len(done.lines) == CHUNK_TASKS


def test_json_stays_json_when_a_line_is_bad(stayer: Here) -> None:
    done = stayer("add", "--json", "--jsonl", "-", input=f"{lines(*[{}] * CHUNK_TASKS)}oops\n")

    assert (done.code, len(done.json)) == (2, CHUNK_TASKS)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--id", "x"], "--id"),
        (["--name", "x"], "--name"),
        (["--data", "1"], "--data"),
        (["--hold"], "--hold"),
        (["--priority", "1"], "--priority"),
        (["--tag", "x"], "--tag"),
        (["--delay", "1s"], "--delay"),
        (["--time-limit", "1h"], "--time-limit"),
        (["--when-failed", "run"], "--when-failed"),
        (["--key", "k"], "--key"),
        (["--", "ls"], "a command"),
    ],
)
def test_what_is_for_one_task_is_refused_for_many(
    stayer: Here, arguments: list[str], word: str
) -> None:
    stayer("add", "--jsonl", "-", *arguments, input="{}").refuses(word, "each line")


def test_a_file_that_can_not_be_read_is_refused(stayer: Here) -> None:
    stayer("add", "--jsonl", "missing").refuses("missing", "No such file")
    stayer("add", "--jsonl", ".").refuses("directory")


def test_an_endless_line_is_refused(apart: Apart) -> None:
    with open("/dev/zero", "rb") as endless:
        apart("add", "--jsonl", "-", stdin=endless).refuses("stdin:1", "bytes")
