"""`complete`: declare tasks complete by hand."""

from __future__ import annotations

import rich_click as click

from stayer.cli.act_on_tasks import Manner, acts_on_tasks
from stayer.cli.command import Given, command
from stayer.cli.end_by_hand import STOP_HELP, end_by_hand
from stayer.cli.selection import Selection
from stayer.core import codec
from stayer.service.operator import operator_of


@command()
@acts_on_tasks
@click.option("--result", metavar="JSON", help="Its result. Default: none.")
@click.option("--stop", is_flag=True, help=STOP_HELP)
def complete(
    given: Given, selection: Selection, manner: Manner, result: str | None, stop: bool
) -> int:
    """Declare tasks complete by hand, with a result.

    For work that was done elsewhere, or that ended well though its task did not: what runs after
    it, runs. Name tasks, or give a filter: then it is done to all waiting, scheduled and pending
    tasks that match, unless --state says otherwise. A running task is refused, unless --stop is
    given. The history says that it was done by hand.
    """
    value = None if result is None else codec.parse(result, "--result")
    return end_by_hand(
        given,
        "complete",
        lambda store, id: operator_of(store).complete(id, value),
        selection,
        manner,
        stop=stop,
    )
