"""`workers`: who takes tasks, and dropping one that is gone."""

from __future__ import annotations

import rich_click as click

from stayer.cli.command import Given, Group, argument
from stayer.cli.common_options import json_option
from stayer.cli.output import note, plural, print_json_array, print_outcome
from stayer.cli.param_types import complete_worker
from stayer.cli.tries import Tries
from stayer.core import codec
from stayer.service.operator import operator_of
from stayer.store import known_lost_workers, known_workers


@click.group(cls=Group, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print an array of workers, as JSON.")
@click.pass_context
def workers(context: click.Context, as_json: bool) -> None:
    """List workers; remove a stale one.

    A worker that was given up as dead is listed as DOWN for a day, with the reason.
    """
    if context.invoked_subcommand is not None:
        return
    given: Given = context.obj
    store = given.store()
    found = known_workers(store)
    down = known_lost_workers(store, found)
    if as_json:
        print_json_array([
            *map(codec.worker_record, found), *map(codec.lost_worker_record, down)
        ])  # fmt: skip
        return
    if not found:
        note(f"no workers in {store.url}")
    if found or down:
        from stayer.cli.tables import draw, lost_workers_table, workers_table

        if found:
            draw(workers_table(found, store.now()))
        if down:
            if found:
                click.echo()
            draw(lost_workers_table(down, store.now()))


@workers.command(name="rm")
@argument(
    "ids",
    nargs=-1,
    required=True,
    metavar="ID...",
    shell_complete=complete_worker,
    help="Ids of workers.",
)
@json_option
@click.pass_obj
def rm_(given: Given, ids: tuple[str, ...], as_json: bool) -> int:
    """Give up stale workers, and return their tasks to the queue.

    Other workers do this by themselves after a while. A worker that is not stale is refused.
    """
    store, tries = given.store(), Tries()
    for id in dict.fromkeys(ids):
        with tries.each():
            number = operator_of(store).drop_worker(id)
            print_outcome(
                f"{id} removed, {plural(number)} returned", {"worker": id, "tasks": number}, as_json
            )
    return tries.worst
