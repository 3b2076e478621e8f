"""`init`: make the store."""

from __future__ import annotations

import os

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.common_options import json_option
from stayer.cli.output import print_line, print_outcome, write_bytes
from stayer.store import known_workers


@command()
@click.option(
    "--sql",
    is_flag=True,
    help="Print the SQL that makes the tables, for whoever may run it, and do nothing.",
)
@json_option
def init(given: Given, sql: bool, as_json: bool) -> None:
    """Create the store, if it does not exist.

    `add`, `run`, `worker` and `up` do this by themselves; here it says where it is.
    """
    store = given.unopened_store()
    if sql:
        write_bytes(store.ddl().encode())
        return
    new = store.path is not None and not os.path.exists(store.path)
    store = given.store(make=True)
    text = f"{store.url} {'is made' if new else 'is ready'}"
    print_outcome(text, {"store": store.url, "new": new}, as_json)
    if not as_json and not known_workers(store):
        print_line("next: `stayer up` runs a worker here, `stayer add -- COMMAND` submits a task")
