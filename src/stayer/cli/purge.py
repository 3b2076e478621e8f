"""`purge`: forget the tasks that ended long ago."""

from __future__ import annotations

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.common_options import json_option
from stayer.cli.output import plural, print_outcome
from stayer.cli.param_types import LONG_AGO
from stayer.core.model import FINISHED, Filter, State
from stayer.service.control import tasks as control


@command()
@click.option(
    "--older",
    type=LONG_AGO,
    required=True,
    metavar="DURATION",
    help="Those that ended longer ago than 7d, 12h …",
)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(FINISHED),
    metavar="STATE",
    help=f"Only those in this state: {', '.join(FINISHED)}. May be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Say how many it would be, and change nothing.")
@json_option
def purge(
    given: Given, older: float, states: tuple[State, ...], dry_run: bool, as_json: bool
) -> None:
    """Delete finished tasks that ended long ago.

    With their results, logs and checkpoints. Their ids stay refused for 30 days.
    """
    store = given.store()
    before = store.now() - older
    states = states or FINISHED
    if dry_run:
        found = control.find_all(store, Filter(states=states))
        number = sum(1 for task in found if task.updated < before)
        print_outcome(f"{plural(number)} would be forgotten", {"tasks": number}, as_json)
        return
    number = sum(len(ids) for ids in control.purge(store, before, states))
    print_outcome(f"{plural(number)} forgotten", {"tasks": number}, as_json)
