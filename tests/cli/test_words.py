"""The words of the command line: habits of other tools, what lists by itself, JSON everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import rich_click as click

from stayer.cli import HABITS, VERBS
from stayer.cli.command import OPTION_PANELS
from stayer.cli.main import cli
from stayer.core.fields import Panel
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import get, new, register, started, submit

RUNS_ON = {"worker", "up", "serve", "completion", "report", "mcp"}
"""Commands whose output is for nobody to parse: they run on, or have none."""


def commands() -> Iterator[tuple[str, click.Command]]:
    for name in VERBS:
        found = cli.get_command(click.Context(cli), name)
        assert found is not None
        own = getattr(found, "commands", {})
        if not own or getattr(found, "invoke_without_command", False):
            yield name, found
        for sub, each in own.items():
            yield f"{name} {sub}", each


def test_every_command_has_json() -> None:
    lacking = {
        name
        for name, each in commands()
        if not any("--json" in option.opts for option in each.params)
    }
    assert lacking == RUNS_ON


@pytest.mark.parametrize(
    "group", ["cron", "flow", "token", "sweep", "queues", "workers", "notices", "code"]
)
def test_a_group_alone_lists(stayer: Here, store: Store, group: str) -> None:
    assert stayer(group, "--json").works().json == []
    assert stayer(group, "ls", "--json").works().json == []
    alone = stayer(group)
    assert alone.code == 0
    assert alone.err.startswith("stayer: no ")
    assert "Usage" in stayer(group, "--help").works().out


@pytest.mark.parametrize("word", HABITS)
def test_words_of_other_tools_are_understood(stayer: Here, word: str) -> None:
    assert stayer(word, "--help").works().out == stayer(HABITS[word], "--help").works().out


def test_help_and_version_are_words_too(stayer: Here) -> None:
    assert stayer("help").works().out == stayer("--help").works().out
    assert stayer("help", "retry").works().out == stayer("retry", "--help").works().out
    assert stayer("help", "logs").works().out == stayer("log", "--help").works().out
    assert stayer("version").works().out == stayer("--version").works().out


def test_status_shows_a_task_or_all_that_runs(stayer: Here, store: Store) -> None:
    submit(store, new("t"))
    assert stayer("status", "t").works().out.startswith("t  pending")
    assert "0 workers" in stayer("status").works().out


def test_removing_is_rm_and_older_words_still_work(stayer: Here, store: Store) -> None:
    for word in ("rm", "drop", "delete", "remove"):
        submit(store, new(queue="gone", held=True))
        done = stayer("queues", word, "gone", "-y", "--force").works()
        assert done.lines == ["gone removed with 1 task"]
    assert " drop " not in stayer("queues", "--help").works().out


def test_add_with_nothing_shows_its_usage(stayer: Here, store: Store) -> None:
    done = stayer("add")
    assert (done.code, done.out.splitlines()[0].split()[:3]) == (2, ["Usage:", "stayer", "add"])
    assert not store.queues()


def test_the_options_of_a_task_are_shown_in_groups(stayer: Here) -> None:
    text = stayer("add", "--help").works().out
    places = [text.index(f"{panel}:") for panel in get_args(Panel)]
    assert len({*places}) == len(places)
    assert {*OPTION_PANELS} == {*get_args(Panel)}


def test_a_project_is_found_from_its_subfolders(
    stayer: Here, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "stayer.toml").write_text('store = "sqlite:///project.db"\n')
    (folder / "stayer.toml").chmod(0o600)
    below = folder / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    shown = stayer("init", "--json", STAYER_STORE="").works().json
    assert shown["store"] == f"sqlite:///{folder}/project.db"

    (folder / "stayer.toml").chmod(0o666)
    done = stayer("config", STAYER_STORE="")
    assert f"not read: {folder}/stayer.toml: every user may write it" in done.err


def test_what_runs_is_listed_first(stayer: Here, store: Store) -> None:
    register(store)
    started(store, id="runs", command=("python", "train.py", "--lr", "0.1"))
    submit(store, new("newer", name="f", parameters={"lr": 0.1, "seed": 3}), new("newest"))

    lines = stayer("ls").works().lines
    assert [line.split()[0] for line in lines[1:]] == ["runs", "newest", "newer"]
    assert "--lr 0.1" in lines[1]
    assert "lr=0.1 seed=3" in lines[3]
    assert stayer("ls", "--ids").works().lines == ["newest", "newer", "runs"]
    assert [line.split()[0] for line in stayer("ls", "-n", "2").lines[1:]] == ["runs", "newest"]


def test_columns_are_chosen(stayer: Here, store: Store) -> None:
    submit(store, new("t", command=("sh", "x.sh", "a b"), tags=("p", "q"), priority=3))
    lines = stayer("ls", "-o", "id,args,tags,priority,time-limit").works().lines
    assert lines[0].split() == ["ID", "ARGS", "TAGS", "PRIORITY", "TIME_LIMIT"]
    assert lines[1].split() == ["t", "'a", "b'", "p", "q", "3"]
    stayer("ls", "-o", "stat").refuses("no such column", "state")
    stayer("ls", "-o", "id", "--json").refuses("-o is for the table")


def test_a_template_makes_a_line_of_each_task(stayer: Here, store: Store) -> None:
    submit(store, new("a", parameters={"n": [1, {"x": "é\n"}], "long": "y" * 300}))
    submit(store, new("b", command=("sh", "a b"), meta={"team": "vision"}))

    found = stayer("ls", "-o", "{id} {{{state}}};{meta.team}{progress.message}").works()
    assert found.lines == ["b {pending};vision", "a {pending};"]
    assert stayer("show", "a", "-o", "{parameters.n[0]} {parameters.n}").works().lines == [
        '1 [1,{"x":"é\\n"}]'
    ]
    assert stayer("show", "a", "-o", "{parameters.long}").works().lines == ["y" * 300]
    assert stayer(
        "show", "b", "-o", "{command_line}|{error}|{kind}|{started-at}"
    ).works().lines == ["sh 'a b'||sh a b|"]
    for wrong, why in (
        ("{stat}", "no such column"), ("{id", "a brace is open"), ("{}", "name a field"),
        ("{meta.}", "no path"),
    ):  # fmt: skip
        stayer("ls", "-o", wrong).refuses(why)
    stayer("ls", "-o", "{id}", "--json").refuses("-o is for the table")
    stayer("show", "a", "-o", "{id}", "--json").refuses("exclude each other")


def test_json_says_what_was_done(stayer: Here, store: Store) -> None:
    submit(store, new("t", queue="q"))
    assert stayer("run", "--detach", "--json", "--", "true").works().json["state"] == "pending"
    assert stayer("purge", "--older", "1d", "--json").works().json == {"tasks": 0}
    assert stayer("queues", "rm", "q", "-y", "--force", "--json").works().json == {
        "queue": "q", "tasks": 1,
    }  # fmt: skip
    assert get(store, stayer("add", "--json", "--", "true").works().json["id"]).state == "pending"
