"""`compare`: tasks side by side."""

from __future__ import annotations

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.output import note, print_json
from stayer.cli.selection import Selection, filter_options, ids_argument
from stayer.core.errors import BadInput
from stayer.core.insight import comparison
from stayer.service.control import compare as control_compare


@command()
@filter_options
@ids_argument(
    to_change=False,
    help="Ids of tasks, flows or sweeps. The beginning of an id is enough.",
)
@click.option("-a", "--all", "show_all", is_flag=True, help="Show what is the same, too.")
@click.option("--json", "as_json", is_flag=True, help="Print ids and rows, as JSON.")
def compare(given: Given, selection: Selection, show_all: bool, as_json: bool) -> None:
    """Compare tasks: parameters, metrics, steps, durations, results.

    Name tasks, flows or sweeps, or give a filter. Up to four tasks are shown side by side, more
    than four one a line. Only what differs is shown, unless you say --all. Metrics have their last,
    least and greatest value.
    """
    store = given.store()
    if selection.ids and selection.has_filter:
        raise BadInput("give either ids or a filter such as --tag TAG, not both")
    if not selection.ids and not selection.has_filter:
        raise BadInput("give the ids of tasks, flows or sweeps, or a filter such as --tag TAG")
    if selection.ids:
        tasks = control_compare.tasks_meant(store, selection.ids)
    else:
        tasks = control_compare.find_to_compare(store, selection.to_filter(store))
    found = control_compare.compare(store, tasks, all=show_all)
    if as_json:
        print_json(comparison.record(found))
        return
    if not found.rows:
        note("they do not differ: --all shows what they have in common")
        return
    from stayer.cli.comparison_table import picture
    from stayer.cli.tables import draw

    draw(picture(found))
