"""`stayer add`: one task."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stayer.core.codec import PARAMETERS_LIMIT
from stayer.core.happenings import Done
from stayer.core.model import Filter
from stayer.service.control import tasks as control
from stayer.store import Store
from tests.cli.running import Apart, Here
from tests.contract.builders import apply, get, started


def everything(store: Store) -> list[str]:
    return [task.id for task in control.find_all(store, Filter())]


def test_it_prints_the_id_of_the_task(stayer: Here, store: Store) -> None:
    done = stayer("add", "-q", "q").works()

    assert everything(store) == done.lines


def test_every_option_reaches_the_task(stayer: Here, store: Store) -> None:
    stayer(
        "add", "-q", "mail", "--id", "t", "--name", "send", "--data", '{"to": "ann"}',
        "--priority", "-3", "--tag", "a", "--tag", "b", "--owner", "bob", "--hold",
        "--retries", "4",
    ).works()  # fmt: skip

    task = control.get(store, "t")
    assert (task.queue, task.name, task.parameters) == ("mail", "send", {"to": "ann"})
    assert (task.priority, task.tags, task.owner) == (-3, ("a", "b"), "bob")
    assert (task.held, task.policy.retries) == (True, 4)


def test_queue_owner_and_retries_come_from_the_configuration(
    stayer: Here, store: Store, folder: Path
) -> None:
    (folder / "stayer.toml").write_text('queue = "night"\nretries = 2\n')

    stayer("add", "--id", "t").works()

    task = control.get(store, "t")
    assert (task.queue, task.owner, task.policy.retries) == ("night", "ann", 2)


def test_a_command_keeps_its_words_and_where_it_was_submitted(
    stayer: Here, store: Store, folder: Path
) -> None:
    stayer("add", "--id", "t", "-q", "q", "--", "ffmpeg", "-i", "a b", "--id", "").works()

    task = control.get(store, "t")
    assert task.command == ("ffmpeg", "-i", "a b", "--id", "")
    assert task.cwd == str(folder)


def test_options_behind_the_command_are_the_commands_own(stayer: Here, store: Store) -> None:
    stayer("add", "--id", "t", "tar", "-x", "--store", "nowhere").works()

    assert control.get(store, "t").command == ("tar", "-x", "--store", "nowhere")


def test_a_relative_cwd_becomes_absolute(stayer: Here, store: Store, folder: Path) -> None:
    stayer("add", "--id", "t", "--cwd", "below", "--", "ls").works()

    assert control.get(store, "t").cwd == str(folder / "below")


def test_a_directory_that_is_gone_is_said(apart: Apart, folder: Path) -> None:
    # Left and removed by the shell that starts the command.
    leave = ("sh", "-c", f'rmdir {folder} && exec "$@"', "sh")

    apart("add", "--", "ls", before=leave).refuses("directory is gone", "--cwd")


def test_variables_are_taken_by_name_or_by_value(stayer: Here, store: Store) -> None:
    stayer(
        "add", "--id", "t", "--env", "SEEN", "--env", "A=b=c", "--env", "EMPTY=", "--", "ls",
        SEEN="1",
    ).works()  # fmt: skip

    assert control.get(store, "t").env == {"SEEN": "1", "A": "b=c", "EMPTY": ""}


def test_delay_and_eta_make_it_scheduled(stayer: Here, store: Store) -> None:
    stayer("add", "--id", "d", "--delay", "10m").works()
    stayer("add", "--id", "e", "--eta", "2099-01-01T00:00:00Z").works()
    stayer("add", "--id", "r", "--eta", "+10m").works()
    stayer("add", "--id", "p", "--eta", "2001-01-01").works()

    delayed, due, relative, past = (control.get(store, id) for id in "derp")
    assert delayed.eta == pytest.approx(delayed.created + 600)
    assert relative.eta == pytest.approx(relative.created + 600, abs=60)
    assert due.eta == 4070908800
    assert [task.state for task in (delayed, due, relative, past)] == [
        "scheduled", "scheduled", "scheduled", "pending",
    ]  # fmt: skip


def test_data_comes_from_stdin_or_a_file(stayer: Here, store: Store, folder: Path) -> None:
    (folder / "data.json").write_text("[1, 2]")

    stayer("add", "--id", "in", "--data", "-", input='{"a": null}').works()
    stayer("add", "--id", "file", "--data", "@data.json").works()
    stayer("add", "--id", "bytes", "--data", '{"base64": "AP8="}').works()

    assert control.get(store, "in").parameters == {"a": None}
    assert control.get(store, "file").parameters == [1, 2]
    assert control.get(store, "bytes").parameters == b"\x00\xff"


def test_json_is_the_record_and_whether_it_is_fresh(stayer: Here) -> None:
    first = stayer("add", "--id", "t", "--json").works()
    again = stayer("add", "--id", "t", "--json")

    assert (first.json["id"], first.json["fresh"]) == ("t", True)
    assert again.json == {**first.json, "fresh": False}


def test_the_same_id_again_is_no_error(stayer: Here, store: Store) -> None:
    stayer("add", "--id", "t", "--data", "1").works()

    again = stayer("add", "--id", "t", "--data", "1")

    assert (again.code, again.out) == (0, "t\n")
    assert again.err == "stayer: task t is already there (pending)\n"
    assert everything(store) == ["t"]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (("-q", "other", "--data", "1"), "in queue default, not other"),
        (("--data", "2"), "with other parameters"),
        ((), "with other parameters"),
    ],
)
def test_the_same_id_for_another_task_is_a_warning(
    stayer: Here, store: Store, other: tuple[str, ...], said: str
) -> None:
    stayer("add", "--id", "t", "--data", "1").works()

    again = stayer("add", "--id", "t", *other)

    assert (again.code, again.out) == (0, "t\n")
    assert f"warning: task t is there already {said}" in again.err
    assert control.get(store, "t").parameters == 1


def test_the_id_of_a_deleted_task_is_refused(stayer: Here, store: Store, worker: str) -> None:
    apply(store, started(store, id="t", parameters={"a": 1}), Done())
    control.delete(store, "t")

    for words in (["add"], ["add", "--json"]):
        again = stayer(*words, "-q", "q", "--id", "t", "--data", "2")
        again.refuses("task t has been deleted (complete)", "not accepted again before 2")
    stayer("run", "--detach", "-q", "q", "--id", "t", "true").refuses("choose another")
    assert everything(store) == []


def test_the_ids_of_deleted_tasks_are_left_out_of_many(
    stayer: Here, store: Store, worker: str
) -> None:
    apply(store, started(store, id="t"), Done())
    control.delete(store, "t")

    added = stayer("add", "--jsonl", "-", input='{"id": "t"}\n{"id": "u"}\n')

    assert (added.code, added.out) == (2, "u\n")
    assert "task t has been deleted (complete)" in added.err
    assert "1 task was not accepted" in added.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--data", "{x"], ["--data", "not JSON", "column 2"]),
        (["--data", ""], ["--data", "empty"]),
        (["--data", "NaN"], ["--data"]),
        (["--data", "[" * 100_000], ["--data"]),
        (["--data", "[" * 500 + "]" * 500], ["nested"]),
        (["--data", '{"base64": "?"}'], ["base64"]),
        (["--data", "@missing.json"], ["missing.json", "can't be read"]),
        (["--data", "@."], ["can't be read"]),
        (["--data", json.dumps("x" * PARAMETERS_LIMIT)], ["limit is 1"]),
        (["--id", ""], ["id"]),
        (["--id", "x" * 257], ["257 characters"]),
        (["--id", "a\x1b[31m"], [r"\x1b[31m"]),
        (["--id", " a"], ["spaces"]),
        (["--id", "a\nb"], [r"a\nb"]),
        (["--id", "-Itouch x"], ["'-Itouch x'", "option"]),
        (["--id", ".."], ["'..'"]),
        (["-q", "a\tb"], ["queue"]),
        (["-q", ""], ["queue"]),
        (["--owner", ""], ["owner"]),
        (["--tag", ""], ["tag"]),
        (["--name", "f", "--", "ls"], ["either a name or a command"]),
        (["--cwd", "/"], ["cwd goes with a command"]),
        (["--", ""], ["command is empty"]),
        (["--delay", "10x"], ["--delay", "not a duration"]),
        (["--delay", "-1s"], ["--delay"]),
        (["--delay", "300y"], ["--delay"]),
        (["--delay", "99999999999"], ["--delay", "100 years"]),
        (["--eta", "soon"], ["--eta", "not a moment"]),
        (["--eta", "2026-02-30"], ["--eta", "not a moment"]),
        (["--eta", "9999-12-31"], ["--eta", "next 100 years"]),
        (["--eta", "1969-12-31T00:00Z"], ["--eta", "1970"]),
        (["--eta", "now", "--delay", "1s"], ["either --eta or --delay"]),
        (["--priority", "high"], ["--priority"]),
        (["--priority", str(2**31)], ["priority"]),
        (["--retries", "-1"], ["retries"]),
        (["--time-limit", "0"], ["time_limit 0.0", "leave it out"]),
        (["--silence-limit", "0s"], ["silence_limit 0.0", "leave it out"]),
        (["--memory-limit", "0"], ["memory_limit 0", "leave it out"]),
        (["--env", "=x", "--", "ls"], ["NAME=VALUE"]),
        (["--env", "STAYER_STORE=x", "--", "ls"], ["STAYER_STORE", "worker"]),
        (["--env", "UNSET_HERE", "--", "ls"], ["UNSET_HERE", "not set"]),
        (["--wrong"], ["--wrong", "stayer add --help"]),
        (["-q"], ["-q"]),
    ],
)
def test_bad_input_is_one_line_and_adds_nothing(
    stayer: Here, store: Store, arguments: list[str], words: list[str]
) -> None:
    stayer("add", *arguments).refuses(*words)

    assert everything(store) == []


def test_endless_input_is_refused(apart: Apart) -> None:
    with open("/dev/zero", "rb") as endless:
        apart("add", "--data", "-", stdin=endless).refuses("over 16 MB")


def test_a_closed_stdin_is_refused(apart: Apart) -> None:
    without = ("sh", "-c", 'exec "$@" <&-', "sh")

    apart("add", "--data", "-", before=without).refuses("stdin is closed")


def test_words_that_are_not_utf8_are_refused(apart: Apart) -> None:
    word = os.fsdecode(b"caf\xe9")

    apart("add", "--", "ls", word).refuses("not UTF-8")
    apart("add", "--env", "A", "--", "ls", environment={"A": word}).refuses("A", "not UTF-8")


def test_a_unique_word_is_taken_once(stayer: Here, store: Store) -> None:
    stayer("add", "-q", "q", "--id", "a", "--unique", "u", "--key", "k").works()

    again = stayer("add", "-q", "q", "--id", "b", "--unique", "u")
    shown = stayer("add", "-q", "q", "--unique", "u", "--json")

    assert (again.code, again.lines, everything(store)) == (0, ["a"], ["a"])
    assert "not added: task a (pending) has the same unique word 'u'" in again.err
    assert (shown.json["id"], shown.json["fresh"], shown.json["key"]) == ("a", False, "k")


def test_how_long_a_word_is_kept_reaches_the_task(stayer: Here, store: Store) -> None:
    stayer("add", "-q", "q", "--id", "a", "--unique", "u", "--unique-while", "waiting").works()
    stayer("add", "-q", "q", "--id", "b", "--unique", "v", "--unique-for", "10m").works()
    a, b = control.get(store, "a"), control.get(store, "b")
    assert (a.unique, a.unique_while, b.unique, b.unique_for) == ("u", "waiting", "v", 600.0)
    page = stayer("show", "a").works().out + stayer("show", "b").works().out
    assert "u while it waits" in page
    assert "v until 10m 00s after its end" in page
    assert stayer("ls").works().lines[0].split()[4:6] == ["UNIQUE", "PROGRESS"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--unique-for", "1h"], ["unique_for", "unique"]),
        (["--unique", "u", "--unique-while", "waiting", "--unique-for", "1h"], ["leave one out"]),
        (["--unique", ""], ["unique"]),
        (["--key", " "], ["key"]),
    ],
)
def test_what_can_not_be_unique_is_refused(
    stayer: Here, store: Store, options: list[str], words: list[str]
) -> None:
    stayer("add", "-q", "q", *options).refuses(*words)
    assert everything(store) == []


def test_a_command_that_was_announced_must_come(stayer: Here, store: Store) -> None:
    stayer("add", "-q", "q", "--").refuses("no command after --")
    assert everything(store) == []
    stayer("add", "-q", "q", "--", "echo", "--").works()


@pytest.mark.parametrize("line", ["echo hi", "ls|wc", "echo $HOME"])
def test_a_line_for_a_shell_is_hinted_at(stayer: Here, store: Store, line: str) -> None:
    added = stayer("add", "-q", "q", line)

    assert added.code == 0
    assert "taken as the name of a program" in added.err
    assert "sh -c" in added.err
    stayer("add", "-q", "q", "--", "sh", "-c", line).works()


def test_a_task_may_be_near_one_that_it_runs_after(stayer: Here, store: Store) -> None:
    stayer("add", "--id", "a").works()
    stayer("add", "--id", "b", "--after", "a", "--near", "a", "--near-wait", "2m").works()
    policy = get(store, "b").policy
    assert (policy.near, policy.near_wait) == ("a", 120.0)
    stayer("add", "--near", "a").refuses("near 'a': give the id of a task that it runs after")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--expire", "0s"), "never get the chance to start"),
        (("--start-before", "2020-01-01"), "is over"),
        (("--eta", "2037-01-02", "--start-before", "2037-01-01"), "is not after its eta"),
    ],
)
def test_a_task_that_could_never_start_is_refused(
    stayer: Here, store: Store, options: tuple[str, ...], words: str
) -> None:
    stayer("add", *options).refuses(words)
    assert not list(control.find_all(store, Filter()))


def test_a_line_with_a_task_that_could_never_start_is_refused(stayer: Here, store: Store) -> None:
    line = '{"start_before": "2020-01-01T00:00:00Z"}'
    stayer("add", "--jsonl", "-", input=line).refuses("is over", "nothing was accepted")
    assert not list(control.find_all(store, Filter()))


def test_a_hook_that_is_not_known_or_not_called_is_said_at_once(stayer: Here, folder: Path) -> None:
    (folder / "stayer.toml").write_text('[hooks.phone]\ncommand = ["true"]\n')
    stayer("add", "--notify", "phone", "--notify", "https://example.org/x", "--", "true").works()
    slip = stayer("add", "--notify", "failed:phnoe", "--", "true")
    assert "no hook is called 'phnoe' in stayer.toml: there are phone" in slip.err
    for url in ("http://127.0.0.1:9/x", "http://localhost/", "http://[::1]/", "http://10.1.2.3/"):
        assert "workers don't call it" in stayer("add", "--notify", url, "--", "true").err
    (folder / "stayer.toml").write_text('[notices]\nhosts = ["127.0.0.0/8"]\n')
    stayer("add", "--notify", "http://127.0.0.1:9/x", "--", "true").works()
