"""`compare`: tasks side by side."""

from __future__ import annotations

from stayer.cli.comparison_table import lines_table, portions
from stayer.core.happenings import Done
from stayer.core.insight.comparison import Comparison, Row
from stayer.core.insight.statistics import Recorder
from stayer.core.model import Report
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.builders import apply, beat, new, started, submit


def run(store: Store, number: int, id: str, loss: float) -> None:
    task = started(store, id=id, parameters={"lr": loss, "seed": 7}, tags=("night",))
    recorder = Recorder()
    recorder.add("loss", loss, 1.0)
    beat(store, "w", number, Report(id=id, attempt=1, statistics=recorder.result()))
    apply(store, task, Done({"accuracy": 1 - loss}))


def test_only_what_differs_is_shown_unless_all_is_wanted(
    stayer: Here, store: Store, worker: str
) -> None:
    run(store, 2, "one", 0.5)
    run(store, 3, "two", 0.25)
    lines = [line.split() for line in stayer("compare", "one", "two").works().out.splitlines()]
    assert lines[0] == ["one", "two"]
    for row in (
        ["parameters.lr", "0.5", "0.25"],
        ["metrics.loss.last", "0.5", "0.25"],
        ["result.accuracy", "0.5", "0.75"],
    ):
        assert row in lines
    assert "parameters.seed" not in {line[0] for line in lines}
    everything = stayer("compare", "one", "two", "--all").works().out
    assert ["parameters.seed", "7", "7"] in [line.split() for line in everything.splitlines()]
    shown = stayer("compare", "--tag", "night", "--json").json
    assert sorted(shown["ids"]) == ["one", "two"]
    assert all(row["differs"] for row in shown["rows"])


def test_a_sweep_stands_for_its_tasks(stayer: Here, store: Store) -> None:
    stayer("sweep", "--id", "s", "-q", "q", "-p", "lr=1,2,3", "--", "train", "{lr}").works()
    shown = stayer("compare", "s", "--json").json
    assert sorted(shown["ids"]) == ["s.sweep.0", "s.sweep.1", "s.sweep.2"]
    [row] = [row for row in shown["rows"] if row["name"] == "parameters.lr"]
    assert sorted(row["values"]) == [1, 2, 3]


def test_columns_that_do_not_fit_come_below() -> None:
    ids = tuple(f"task-with-a-long-name-{n}" for n in range(9))
    found = Comparison(ids, (Row("parameters.n", tuple(range(9))),))
    assert list(portions(found, 80)) == [[0, 1], [2, 3], [4, 5], [6, 7], [8]]
    assert list(portions(found, 10)) == [[n] for n in range(9)]
    assert list(portions(found, 1000)) == [list(range(9))]


def test_it_says_what_is_missing(stayer: Here, store: Store) -> None:
    submit(store, new("a"), new("b"))
    stayer("compare").refuses("--tag TAG")
    stayer("compare", "a", "--tag", "x").refuses("not both")
    stayer("compare", "nobody").refuses("nobody")
    stayer("compare", "--tag", "x").refuses("no task to compare")
    stayer("compare", "a", "b").works("they do not differ")


def test_many_tasks_are_shown_one_a_line(stayer: Here, store: Store) -> None:
    sweep = ("sweep", "--id", "s", "-q", "q", "-p", "lr=0.1,0.2", "-p", "seed=1..10", "--")
    stayer(*sweep, "python", "train.py", "--lr", "{lr}", "--seed", "{seed}").works()
    lines = stayer("compare", "s").works().lines
    assert lines[0].split() == ["lr", "seed", "command"]
    assert lines[1].split()[:3] == ["s.sweep.0", "0.1", "1"]
    assert lines[20].split()[:3] == ["s.sweep.19", "0.2", "10"]
    assert len(lines) == 21


def test_headings_name_one_row_each() -> None:
    rows = [
        Row("parameters.lr", (0.1, 0.2)), Row("metrics.loss.last", (1, 2)),
        Row("parameters.loss", ("mse", "l1")), Row("result.loss", (3, 4)),
        Row("command", ("a b", "a c")),
    ]  # fmt: skip
    table = lines_table(Comparison(("one", "two"), tuple(rows)), 100)
    assert table is not None
    headings = [str(column.header) for column in table.columns]
    assert headings == ["", "lr", "loss.last", "parameters.loss", "result.loss", "command"]
    assert lines_table(Comparison(("one", "two"), tuple(rows)), 30) is None
