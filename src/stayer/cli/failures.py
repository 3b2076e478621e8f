"""`failures`: what failed, by fault."""

from __future__ import annotations

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.output import note, plural, print_json
from stayer.cli.param_types import complete_queue
from stayer.cli.queue_names import check_queues
from stayer.core.insight import failures as faults

DEFAULT_LIMIT = 20


@command()
@click.option(
    "-q", "--queue", "queues", multiple=True, metavar="QUEUE", shell_complete=complete_queue,
    help="In this queue. May be repeated: in any of them.",
)  # fmt: skip
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=DEFAULT_LIMIT, metavar="N",
    help=f"How many faults at most. Default: {DEFAULT_LIMIT}.",
)  # fmt: skip
@click.option(
    "--json", "as_json", is_flag=True, help="Print the faults, and how many there are, as JSON."
)
def failures(given: Given, queues: tuple[str, ...], limit: int, as_json: bool) -> None:
    """List what failed, grouped by fault.

    Failures belong to one fault if the same kind of task ended in the same way, with the same type
    of error, raised at the same place, and with the same message except for numbers, ids, paths and
    quoted words. FIRST and LAST are about tasks that still exist; EXAMPLE is the last one. `stayer
    retry --fingerprint` runs all tasks of a fault again, `stayer ls --fingerprint` lists them.
    """
    store = given.store()
    check_queues(store, queues)
    found = store.failures(queues, limit)
    if as_json:
        print_json(faults.record(found))
    elif not found.failures:
        note(f"nothing has failed in {store.url}")
    else:
        from stayer.cli.tables import draw, failures_table

        draw(failures_table(found.failures, store.now()))
        if found.faults > len(found.failures):
            note(f"{found.faults:,} faults in {plural(found.tasks)}: -n {10 * limit} shows more")
