"""`init`: make the store."""

from __future__ import annotations

import os

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.output import say, write_bytes
from stayer.core.errors import BadInput


@command()
@click.option(
    "--sql",
    is_flag=True,
    help="Print the SQL that makes the tables, for whoever has the right to run it, and do nothing.",
)
def init(given: Given, sql: bool) -> None:
    """Create the store, if it does not exist.

    `add`, `run`, `worker` and `up` do this by themselves; here it says where it is.
    """
    store = given.unopened_store()
    if sql:
        from stayer.stores.sql.store import SqlStore

        if not isinstance(store, SqlStore):
            raise BadInput(f"{store.url} is no SQL database: it has no tables to make")
        write_bytes(store.ddl().encode())
        return
    new = store.path is not None and not os.path.exists(store.path)
    store = given.store(make=True)
    say(f"{store.url} {'is made' if new else 'is ready'}")
