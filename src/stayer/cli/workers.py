"""`workers`: who takes tasks, and dropping one that is gone."""

from __future__ import annotations

import rich_click as click

from stayer.cli.command import Given, Group, argument
from stayer.cli.output import note, plural, print_json_array, print_line
from stayer.cli.param_types import complete_worker
from stayer.cli.tries import Tries
from stayer.core import codec
from stayer.service.operator import operator_of
from stayer.store import known_workers


@click.group(cls=Group, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print an array of workers, as JSON.")
@click.pass_context
def workers(context: click.Context, as_json: bool) -> None:
    """List workers; drop a stale one."""
    if context.invoked_subcommand is not None:
        return
    given: Given = context.obj
    store = given.store()
    found = known_workers(store)
    if as_json:
        print_json_array(map(codec.worker_record, found))
    elif not found:
        note(f"no workers in {store.url}")
    else:
        from stayer.cli.tables import draw, workers_table

        draw(workers_table(found, store.now()))


@workers.command()
@argument(
    "ids",
    nargs=-1,
    required=True,
    metavar="ID...",
    shell_complete=complete_worker,
    help="Ids of workers.",
)
@click.pass_obj
def drop(given: Given, ids: tuple[str, ...]) -> int:
    """Give up stale workers, and return their tasks to the queue.

    Other workers do this by themselves after a while. A worker that is not stale is refused.
    """
    store, tries = given.store(), Tries()
    for id in dict.fromkeys(ids):
        with tries.each():
            print_line(f"{id} dropped, {plural(operator_of(store).drop_worker(id))} returned")
    return tries.worst
