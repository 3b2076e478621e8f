"""`sweep`: a task for each combination of parameters, and the table that compares them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import rich_click as click

from stayer.cli.command import Given, Group, argument
from stayer.cli.common_options import limit_option
from stayer.cli.edits import CommandWithWords
from stayer.cli.output import (
    note,
    on_screen,
    plural,
    print_json,
    print_json_array,
    print_line,
    print_lines,
)
from stayer.cli.param_types import complete_flow
from stayer.cli.submit import submission_options, task_fields
from stayer.core.errors import BadInput
from stayer.core.flows import model
from stayer.core.flows.sweep import NOT_FOR_SWEEPS, is_sweep, list_unused, parse_values, plan_sweep
from stayer.core.model import JSON, NewTask
from stayer.core.submit import checks
from stayer.service.control import flows as flow_control
from stayer.service.control import sweeps as sweep_control

DEFAULT_LIMIT = 20


class SweepGroup(Group):
    """A group whose `submit` may be left out: `stayer sweep -p lr=1,2 -- CMD`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if any(word == "--" or word.startswith(("-p", "--param")) for word in args):
            known = args[0] in self.commands or self.get_command(ctx, args[0]) is not None
            args = args if known else ["submit", *args]
        return super().parse_args(ctx, args)


@click.group(cls=SweepGroup)
def sweep() -> None:
    """Run a command or function with each combination of parameters.

    `stayer sweep -p lr=0.1,0.01 -p seed=1..5 -- python train.py --lr {lr} --seed {seed}` submits
    ten tasks under one id: a parameter sweep, grid search or job array. `stayer wait SWEEP` waits
    for all, `stayer sweep show SWEEP` compares them. `stayer cancel SWEEP` and `stayer retry SWEEP`
    work on all of its tasks. `stayer sweep submit --help` lists all options.
    """


@sweep.command(cls=CommandWithWords)
@click.option(
    "-p",
    "--param",
    "grid",
    multiple=True,
    metavar="NAME=VALUES",
    help="A parameter and its values: 0.1,0.01 or 1..5 or 0..100..10 (in steps) or a JSON array. "
    "May be repeated: all combinations.",
)
@click.option(
    "--throttle",
    type=click.IntRange(1),
    metavar="N",
    help="How many of its tasks run at once at most. Default: as many as workers take.",
)
@click.option("--title", metavar="TEXT", help="What lists call it. Default: its command.")
@click.option("--dry-run", is_flag=True, help="Only print what it would submit.")
@click.option("--json", "as_json", is_flag=True, help="Print the sweep, as JSON.")
@submission_options(
    leave_out=[name for name in NOT_FOR_SWEEPS if name != "id"], with_single_parameters=False
)
@click.pass_obj
def submit(
    given: Given,
    /,
    grid: tuple[str, ...],
    throttle: int | None,
    title: str | None,
    dry_run: bool,
    as_json: bool,
    words: tuple[str, ...],
    **options: Any,
) -> int:
    """Submit a task for each combination of parameters, all or none, and print one id.

    `{name}` in the command stands for a value of that parameter. Each task also gets its values in
    its parameters, beside those of --data; with --name they are the arguments of a function.
    Values that are JSON are taken as such: write '"3.10"' for a text that looks like a number.
    """
    fields = task_fields(given, words, options)
    id = fields.pop("id", None)
    values = _grid(grid)
    if not words and "name" not in fields:
        raise BadInput("say what to run: -- COMMAND with {name} for values, or --name FUNCTION")
    new, tasks = plan_sweep(values, checks.new_task(**fields), id=id, name=title, throttle=throttle)
    for name in list_unused(values, words or None):
        note(f"warning: the command does not say {{{name}}}: its tasks differ in parameters only")
    if dry_run:
        print_lines(map(_described, tasks))
        note(f"to submit: {plural(len(tasks))}; nothing was done")
        return 0
    found, fresh = flow_control.submit(given.store(make=True), new, tasks)
    if not fresh:
        note(f"sweep {found.id} is already there ({found.state})")
    if as_json:
        print_json({**model.record(found), "fresh": fresh})
        return 0
    print_line(found.id)
    if fresh and on_screen():
        note(f"{plural(len(tasks))}: `stayer sweep show {found.id}` compares them")
    return 0


def _grid(written: Sequence[str]) -> dict[str, list[JSON]]:
    grid: dict[str, list[JSON]] = {}
    for each in written:
        name, separator, values = each.partition("=")
        if not name or not separator:
            raise BadInput(f"-p {each!r}: write NAME=VALUES, such as lr=0.1,0.01 or seed=1..5")
        if name in grid:
            raise BadInput(f"-p {name} is there twice: give all of its values at once")
        grid[name] = parse_values(values, f"-p {name}")
    return grid


def _described(task: NewTask) -> str:
    from shlex import join

    from stayer.cli.output import json_text
    from stayer.core import codec

    what = join(task.command) if task.command else task.name or ""
    return f"{what}  {json_text(codec.shown_value(task.parameters))}"


@sweep.command()
@argument(
    "id",
    metavar="SWEEP",
    shell_complete=complete_flow,
    help="The id of the sweep, or the beginning of it.",
)
@click.option("--part", metavar="NAME", help="Of a flow with several maps, this one.")
@click.option(
    "--sort",
    metavar="COLUMN",
    help="Sort by a parameter, a figure of the results, or ran; -COLUMN: the largest first.",
)
@click.option("-w", "--watch", is_flag=True, help="Keep running, and draw again on changes.")
@click.option("--json", "as_json", is_flag=True, help="Print the sweep with its runs, as JSON.")
@click.pass_obj
def show(
    given: Given, id: str, part: str | None, sort: str | None, watch: bool, as_json: bool
) -> None:
    """Compare the runs of a sweep: parameters, state, result, duration.

    Results that are objects have a column for each plain value. It works on any map of a flow.
    """
    if watch and (as_json or not on_screen()):
        raise BadInput("-w draws on a terminal: leave it out to write elsewhere, or as JSON")
    store = given.store()
    full = flow_control.resolve(store, id)
    from stayer.cli.sweep_table import picture, sort_runs

    flow, runs = sweep_control.compare(store, full, part)
    if as_json:
        print_json(sweep_control.record(flow, sort_runs(runs, sort)))
        return
    if watch:
        from stayer.cli.live import watch_picture

        def again(height: int | None) -> Any:
            return picture(*sweep_control.compare(store, full, part), sort, store.now(), height)

        watch_picture(store, again)
        return
    from stayer.cli.tables import draw

    draw(picture(flow, runs, sort, store.now(), None))


@sweep.command(name="ls")
@limit_option(DEFAULT_LIMIT)
@click.option("--json", "as_json", is_flag=True, help="Print an array of sweeps, as JSON.")
@click.pass_obj
def ls_(given: Given, limit: int, as_json: bool) -> None:
    """List sweeps, newest first."""
    store = given.store()
    found = list(islice(filter(is_sweep, flow_control.find_all(store)), limit or None))
    if as_json:
        print_json_array(map(model.record, found))
    elif not found:
        note(f"no sweeps in {store.url}: `stayer sweep -p NAME=VALUES -- COMMAND` makes one")
    else:
        from stayer.cli.flow_graph import flows_table
        from stayer.cli.tables import draw

        draw(flows_table(found, store.now()))
