"""`stayer ls`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console

from stayer.cli import task_tables
from stayer.cli.tables import short_ids
from stayer.core import ids
from stayer.core.happenings import Done, Fail
from stayer.core.model import Fault, Progress, Report
from stayer.store import Store
from tests.cli.running import Apart, Here
from tests.cli.terminal import Terminal
from tests.contract.builders import apply, beat, fill, new, register, started, submit

STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def shown(stayer: Here, *arguments: str) -> list[str]:
    """The ids that these options list, newest first."""
    return stayer("ls", "--ids", *arguments).works().lines


def test_the_newest_comes_first(stayer: Here, store: Store) -> None:
    oldest, middle, newest = fill(store, 3)

    assert shown(stayer) == [newest, middle, oldest]


def test_each_filter_narrows_the_list(stayer: Here, store: Store) -> None:
    submit(
        store,
        new("plain", queue="a"),
        new("tagged", queue="b", tags=("x", "y")),
        new("half", queue="b", tags=("x",)),
        new("named", queue="c", name="send"),
        new("command", queue="c", command=("send", "-v")),
        new("owned", queue="d", owner="bob"),
        new("held", queue="d", held=True),
        new("later", queue="d", delay=99),
    )

    assert shown(stayer, "-q", "a", "-q", "b") == ["half", "tagged", "plain"]
    assert shown(stayer, "--tag", "x", "--tag", "y") == ["tagged"]
    assert shown(stayer, "--name", "send") == ["command", "named"]
    assert shown(stayer, "--owner", "bob") == ["owned"]
    assert shown(stayer, "--held") == ["held"]
    assert shown(stayer, "--state", "scheduled") == ["later"]
    assert shown(stayer, "--state", "scheduled", "--state", "pending", "-q", "d", "--held") == [
        "held"
    ]
    assert shown(stayer, "--since", "1h", "-q", "a") == ["plain"]
    assert shown(stayer, "--since", "2001-01-01", "-q", "a") == ["plain"]
    assert shown(stayer, "--since", "1000000000", "-q", "a") == ["plain"]


def test_the_limit_is_kept_and_what_is_left_out_is_said(stayer: Here, store: Store) -> None:
    fill(store, 60)

    by_default = stayer("ls")
    assert len(by_default.lines) == 1 + 50
    assert "there are more: -n 500 shows 500" in by_default.err
    assert len(stayer("ls", "-n", "60").works().lines) == 1 + 60
    assert len(stayer("ls", "-n", "0").works().lines) == 1 + 60
    assert len(shown(stayer, "-n", "7")) == 7
    assert len(stayer("ls", "--json", "-n", "7").json) == 7
    assert len(shown(stayer, "-n", "0")) == 60


def test_json_is_an_array_and_jsonl_a_record_a_line(stayer: Here, store: Store) -> None:
    first, second = fill(store, 2)

    array = stayer("ls", "--json").works().json
    by_line = [json.loads(line) for line in stayer("ls", "--jsonl").works().lines]

    assert array == by_line
    assert [task["id"] for task in array] == [second, first]


def test_an_empty_store_says_so_and_is_still_json(stayer: Here) -> None:
    stayer("init").works()
    empty = stayer("ls")

    assert (empty.code, empty.out) == (0, "")
    assert "no tasks in sqlite:" in empty.err
    assert stayer("ls", "--json").works().json == []
    assert stayer("ls", "--jsonl").works().out == ""
    assert stayer("ls", "--ids").works().out == ""


def test_the_table_says_what_there_is_to_say(stayer: Here, store: Store, worker: str) -> None:
    # Given a task in each interesting condition
    halfway = started(store, id="halfway", command=("train", "--fast"))
    progress = Progress(done=2, total=5, message="epoch 2", remaining=7200)
    beat(store, worker, 2, Report(id="halfway", attempt=halfway.attempt, progress=progress))
    apply(store, started(store, id="broken"), Fail(Fault("ValueError", "no such file")))
    apply(store, started(store, id="fine", name="f"), Done({"loss": 0.25}))
    submit(store, new("later", delay=7260), new("kept", held=True, queue="other"))

    # When they are listed
    rows = {line.split()[0]: line.split() for line in stayer("ls").works().lines}

    # Then each row has its news
    assert rows["ID"][:6] == ["ID", "STATE", "QUEUE", "KIND", "ARGUMENTS", "PROGRESS"]
    assert rows["halfway"][1:8] == ["started", "q", "train", "--fast", "40%", "2h", "00m"]
    assert rows["halfway"][-2:] == ["1", "node-of-w"]
    assert rows["broken"][1:7] == ["failed", "q", "ValueError:", "no", "such", "file"]
    assert rows["fine"][1:5] == ["complete", "q", "f", "loss=0.25"]
    assert rows["later"][1:4] == ["scheduled", "q", "in"]
    assert rows["kept"][1:4] == ["pending", "held", "other"]


def test_generated_ids_are_short_but_name_one_task_only() -> None:
    generated = ids.generate_many(3000)

    short = short_ids([*generated, "mine", "mine-too", "a" * 16 + "x"])

    assert len(set(short.values())) == len(short)
    assert all(id.startswith(short[id]) for id in short)
    assert max(len(short[id]) for id in generated) < 16
    assert short["mine"] == "mine"
    assert short["mine-too"] == "mine-too"
    twins = short_ids(["abcdefghijklmnop", "abcdefghijklmnoq"])
    assert sorted(twins.values()) == ["abcdefghijklmnop", "abcdefghijklmnoq"]


def test_a_short_id_names_its_task_everywhere(stayer: Here, store: Store) -> None:
    id = stayer("add", "--name", "f").lines[0]

    listed = stayer("ls").lines[1].split()[0]

    assert id.startswith(listed)
    assert listed != id
    assert stayer("show", listed, "--json").json["id"] == id
    assert stayer("hold", listed).works().out == f"{id} held\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-q", "nope"], ["'nope'", "there are a, b"]),
        (["-q", "a", "-q", "nope"], ["'nope'", "there are a, b"]),
        (["--state", "done"], ["'done'", "pending", "complete"]),
        (["--since", "soon"], ["--since", "'soon'", "2h or 3d (ago)"]),
        (["--since", "2999-01-01"], ["--since"]),
        (["--since", "+1h"], ["--since", "future"]),
        (["-n", "-1"], ["-n"]),
        (["-n", "many"], ["-n"]),
        (["extra"], ["extra"]),
        (["-w"], ["terminal"]),
        (["-w", "--json"], ["terminal"]),
    ],
)
def test_bad_input_is_one_line(
    stayer: Here, store: Store, arguments: list[str], words: list[str]
) -> None:
    submit(store, new(queue="a"), new(queue="b"))

    stayer("ls", *arguments).refuses(*words)


def test_many_queues_are_not_all_named(stayer: Here, store: Store) -> None:
    submit(store, *(new(queue=f"queue-{number:03}") for number in range(100)))

    stayer("ls", "-q", "nope").refuses("queue-019 …")


def test_a_pipe_that_closes_early_is_quiet(apart: Apart, store: Store) -> None:
    # Given more output than a pipe holds
    fill(store, 300, parameters="x" * 2000)

    # When a reader takes a little and leaves
    process = apart.start("ls", "--jsonl", "-n", "0")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(10)
    process.stdout.close()

    # Then nobody complains
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait() == 141


def test_a_full_disk_behind_stdout_is_one_line(apart: Apart, store: Store) -> None:
    fill(store, 1)

    with open("/dev/full", "w", encoding="utf-8") as full:
        apart("ls", "--json", stdout=full).refuses("can't write the output", code=1)


@pytest.mark.parametrize("arguments", [["ls"], ["ls", "--json"], ["ls", "--ids"], ["queues"]])
def test_a_closed_stdout_is_no_trouble(apart: Apart, store: Store, arguments: list[str]) -> None:
    fill(store, 1)
    without = ("sh", "-c", 'exec "$@" >&-', "sh")

    apart(*arguments, before=without).works()


@pytest.mark.parametrize(("encoding", "said"), [("latin-1", r"\u20ac5"), ("ascii", "5")])
def test_a_locale_that_can_not_say_it_does_no_harm(
    apart: Apart, store: Store, encoding: str, said: str
) -> None:
    submit(store, new("t", queue="€5"))
    narrow: dict[str, Any] = {"environment": {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}}

    assert said in apart("ls", **narrow).works().out
    assert apart("ls", "--json", **narrow).works().json[0]["queue"] == "€5"


def test_a_pipe_is_as_wide_as_the_table(stayer: Here, store: Store) -> None:
    submit(store, new("t", queue="q" * 150, name="n" * 150))

    line = stayer("ls").works().lines[1]

    assert "q" * 150 in line
    assert "n" * 150 in line
    assert line == line.rstrip()


def test_json_needs_no_tables(apart: Apart, store: Store) -> None:
    fill(store, 1)
    probe = (
        "import sys, atexit; from stayer.cli import main;"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
    )

    done = subprocess.run(
        [sys.executable, "-c", probe, "ls", "--json"],
        env={**apart.environment, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = set(done.stderr.split())
    assert len(json.loads(done.stdout)) == 1
    assert not loaded & {"rich.table", "rich.console", "rich.text", "importlib.metadata"}
    assert not loaded & {"stayer.cli.add", "stayer.cli.doctor", "stayer.client", "asyncio"}


def test_a_stale_worker_makes_no_difference_to_its_tasks(stayer: Here, store: Store) -> None:
    register(store, "old", lease=2.0)
    task = started(store, "old")

    assert stayer("ls", "--json").works().json[0]["worker"] == "old"
    assert shown(stayer, "--state", "started") == [task.id]


def test_at_eighty_columns_an_id_is_whole_and_other_columns_give_way(
    apart: Apart, store: Store, worker: str
) -> None:
    id = "nightly-2026-11-15T20:30:00Z"
    made = started(store, id=id, name="train", tags=())
    progress = Progress(done=2, total=5, message="epoch 2", remaining=7200)
    beat(store, worker, 2, Report(id=id, attempt=made.attempt, progress=progress))

    with Terminal(apart, "ls", width=80) as terminal:
        terminal.until("epoch 2")
        assert terminal.end() == 0
    heading, row = STYLE.sub("", terminal.text).splitlines()[:2]
    assert id in row
    assert "NODE" not in heading
    assert len(row.rstrip()) <= 80


def test_an_id_that_does_not_fit_goes_on_in_the_next_line(apart: Apart, store: Store) -> None:
    id = "a" * 30 + "b" * 30 + "c" * 30
    submit(store, new(id))
    with Terminal(apart, "ls", width=80) as terminal:
        terminal.until("c" * 10)
        assert terminal.end() == 0
    text = STYLE.sub("", terminal.text)
    parts = [line.split()[0] for line in text.splitlines()[1:] if line.strip()]
    assert "".join(parts) == id
    assert "pending" in text


def test_kind_and_arguments_share_the_room(
    stayer: Here, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_tables, "console", lambda: Console(width=96))
    script = "for each in one two three four five six; do encode $each; done"
    submit(store, new(id="encode", command=("bash", "-c", script)))
    for seed in (1, 2):
        words = (
            "python",
            "/home/ann/project/a-long-name-for-training.py",
            "--lr",
            "0.05",
            "--seed",
            str(seed),
        )
        submit(store, new(id=f"run-{seed}", command=words))
    lines = stayer("ls").works().lines
    assert "--lr 0.05 --seed 2" in lines[1]
    assert "--lr 0.05 --seed 1" in lines[2]
    assert "bash -c " in lines[3]
    assert "'for each in one" in lines[3]
    assert lines[3].count("for each") == 1
