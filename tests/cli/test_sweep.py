"""`stayer sweep`: a task for each combination, and the table that compares them."""

from __future__ import annotations

import pytest

from stayer.core.happenings import Done, Fail, Start
from stayer.core.model import Fault
from stayer.service.control import flows
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import apply, get, new, submit, take


@pytest.fixture
def ended(stayer: Here, store: Store, worker: str) -> str:
    """A sweep of four, of which one failed."""
    stayer(
        "sweep", "-p", "lr=0.1,0.01", "-p", "seed=1..2", "-q", "q", "--id", "s", "--tag", "night",
        "--", "train", "--lr", "{lr}", "{seed}",
    ).works()  # fmt: skip
    for task in take(store, limit=9):
        running = apply(store, task, Start(1))
        if task.id == "s.sweep.1":
            apply(store, running, Fail(Fault("ExitCode", "no room (exit code 1)"), final=True))
        else:
            apply(store, running, Done({"loss": int(task.id[-1]), "steps": [1]}))
    return "s"


def test_one_id_for_all_combinations(stayer: Here, store: Store) -> None:
    done = stayer(
        "sweep", "-p", "lr=0.1,0.01", "-p", "seed=1..5", "--throttle", "3", "--retries", "1",
        "--data", '{"epochs": 3}', "--", "train", "--lr", "{lr}", "--seed", "{seed}",
    ).works()  # fmt: skip

    [id] = done.lines
    assert flows.get(store, id).totals["pending"] == 10
    assert store.queues()[0].key_limits == {f"sweep {id}": 3}
    task = get(store, f"{id}.sweep.9")
    assert task.command == ("train", "--lr", "0.01", "--seed", "5")
    assert task.parameters == {"epochs": 3, "lr": 0.01, "seed": 5}
    assert (task.policy.retries, task.key) == (1, f"sweep {id}")


def test_a_function_gets_the_values_as_parameters(stayer: Here, store: Store) -> None:
    [id] = stayer("sweep", "-p", "lr=1,2", "--name", "train", "--json").works().json["id"].split()
    task = get(store, f"{id}.sweep.1")
    assert (task.name, task.parameters, task.cwd) == ("train", {"lr": 2}, None)


def test_the_table_compares_parameters_results_and_durations(stayer: Here, ended: str) -> None:
    lines = stayer("sweep", "show", ended).works().lines

    assert lines[0].startswith("s  train --lr {lr} {seed}  failed  4 tasks: 3 complete, 1 failed")
    assert lines[2].split() == ["#", "lr", "seed", "STATE", "loss", "RAN", "ERROR"]
    assert lines[3].split()[:5] == ["0", "0.1", "1", "complete", "0"]
    assert lines[4].split()[:4] == ["1", "0.1", "2", "failed"]
    assert lines[4].endswith("no room (exit code 1)")


def test_runs_are_sorted_by_what_they_found(stayer: Here, ended: str) -> None:
    def order(by: str) -> list[str]:
        shown = stayer("sweep", "show", ended, "--sort", by, "--json").works().json
        return [run["id"][-1] for run in shown["runs"]]

    assert order("-loss") == ["3", "2", "0", "1"]
    assert order("lr") == ["2", "3", "0", "1"]
    stayer("sweep", "show", ended, "--sort", "nope").refuses("no such column", "loss")


def test_the_table_as_json(stayer: Here, ended: str) -> None:
    shown = stayer("sweep", "show", ended, "--json").works().json

    assert (shown["state"], shown["parameters"], shown["figures"]) == (
        "failed", ["lr", "seed"], ["loss"],
    )  # fmt: skip
    assert shown["runs"][3]["parameters"] == {"lr": 0.01, "seed": 2}
    assert shown["runs"][3]["result"] == {"loss": 3, "steps": [1]}


def test_wait_knows_sweeps_and_tags(stayer: Here, store: Store, ended: str) -> None:
    for arguments in (["s"], ["--tag", "night"], ["--flow", "s"]):
        done = stayer("wait", *arguments)
        assert (done.code, len(done.lines)) == (1, 4), arguments
    done = stayer("wait", "--tag", "night", "--state", "complete").works()
    assert len(done.lines) == 3
    stayer("wait", "--tag", "nobody").refuses("no task matches")
    stayer("wait").refuses("give the ids of tasks, or a filter")
    stayer("wait", "s", "--tag", "night").refuses("not both")
    stayer("wait", "nope").refuses("no task 'nope'")


def test_what_a_sweep_would_submit_can_be_seen_before(stayer: Here, store: Store) -> None:
    done = stayer("sweep", "-p", "x=1,2", "--dry-run", "--", "echo", "{x} {y}")
    assert done.lines == ["echo '1 {y}'  {\"x\":1}", "echo '2 {y}'  {\"x\":2}"]
    assert "2 tasks; nothing was done" in done.err
    assert not store.queues()


def test_a_sweep_that_makes_no_sense_is_refused(stayer: Here) -> None:
    stayer("sweep", "-p", "lr", "--", "x").refuses("write NAME=VALUES")
    stayer("sweep", "-p", "lr=1", "-p", "lr=2", "--", "x").refuses("twice")
    stayer("sweep", "-p", "lr=1").refuses("say what to run")
    stayer("sweep", "--", "x").refuses("at least one parameter")
    stayer("sweep", "show", "nope").refuses("no flow 'nope'")


def test_what_a_command_does_not_use_is_told(stayer: Here) -> None:
    stayer("sweep", "-p", "x=1,2", "--", "echo").works(note="does not say {x}")


def test_sweeps_are_listed_apart_from_other_flows(stayer: Here, ended: str, store: Store) -> None:
    submit(store, new("other"))
    assert [each["id"] for each in stayer("sweep", "ls", "--json").works().json] == ["s"]
    assert stayer("sweep", "ls").works().lines[1].startswith("s ")


@pytest.mark.parametrize("verb", ["clone", "retry"])
def test_a_command_that_names_its_parameters_changes_with_them(
    stayer: Here, store: Store, ended: str, verb: str
) -> None:
    done = stayer(verb, "s.sweep.1", "-p", "lr=0.05").works()
    task = get(store, "s.sweep.1" if verb == "retry" else done.lines[0])
    assert task.command == ("train", "--lr", "0.05", "2")
    assert task.parameters == {"lr": 0.05, "seed": 2}


def test_the_command_of_a_sweep_that_is_not_known_gets_no_other_parameters(
    stayer: Here, store: Store
) -> None:
    submit(store, new("s.sweep.1", flow="s", part="sweep", command=("train", "2")))
    stayer("clone", "s.sweep.1", "-p", "seed=3").refuses("give the whole command too")


def test_its_id_is_understood_by_show_and_cancel(stayer: Here, store: Store, ended: str) -> None:
    assert "no room" in stayer("show", "s").works().out
    assert len(stayer("show", "s", "--json").works().json["runs"]) == 4
    stayer("sweep", "-p", "n=1..3", "--id", "t", "--", "run", "{n}").works()
    assert stayer("cancel", "t").works().lines == [f"t.sweep.{n} cancelled" for n in (2, 1, 0)]
    assert stayer("retry", "s").works().lines == ["s.sweep.1 pending"]
    stayer("show", "nothing").refuses("no task 'nothing'")


def test_the_beginning_of_the_id_of_a_sweep_is_enough(stayer: Here, store: Store) -> None:
    sweep = stayer("sweep", "-p", "n=1,2", "--", "train", "{n}").works().lines[0]
    assert stayer("show", f"{sweep[:6]}.sweep.1", "--json").works().json["command"] == [
        "train",
        "2",
    ]
    stayer("show", f"{sweep[:6]}.sweep.7").refuses("no task")


def test_a_verb_with_nothing_to_do_in_a_sweep_says_so(stayer: Here, store: Store) -> None:
    stayer("sweep", "--id", "s", "-q", "q", "-p", "n=1,2", "--", "echo", "{n}").works()
    assert stayer("cancel", "s").works().lines == ["s.sweep.1 cancelled", "s.sweep.0 cancelled"]
    stayer("cancel", "s").works("no task of s to cancel")
    stayer("retry", "s").works()
