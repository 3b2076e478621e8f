"""`fail`: declare tasks failed by hand."""

from __future__ import annotations

import rich_click as click

from stayer.cli.act_on_tasks import Manner, acts_on_tasks
from stayer.cli.command import Given, command
from stayer.cli.end_by_hand import STOP_HELP, end_by_hand
from stayer.cli.selection import Selection
from stayer.service.operator import operator_of


@command()
@acts_on_tasks
@click.option("--error", metavar="TEXT", default="", help="What went wrong.")
@click.option("--stop", is_flag=True, help=STOP_HELP)
def fail(given: Given, selection: Selection, manner: Manner, error: str, stop: bool) -> int:
    """Declare tasks failed by hand, with an error.

    Unlike a cancelled task it counts as a failure, for hooks and alerts too. It is not retried by
    itself. Name tasks, or give a filter: then it is done to all waiting,
    scheduled and pending tasks that match, unless --state says otherwise. A running task is
    refused, unless --stop is given. The history says that it was done by hand.
    """
    return end_by_hand(
        given,
        "fail",
        lambda store, id: operator_of(store).fail(id, error),
        selection,
        manner,
        stop=stop,
    )
