"""`backup`: copy the store to a file."""

from __future__ import annotations

import rich_click as click

from stayer.cli.command import Given, argument, command
from stayer.cli.common_options import json_option
from stayer.cli.output import print_outcome
from stayer.core.model import JSON
from stayer.core.units import format_size
from stayer.service import backup as backups


@command()
@argument("file", help="Where to write it.")
@click.option("--replace", is_flag=True, help="Write it also if there is such a file.")
@json_option
def backup(given: Given, file: str, replace: bool, as_json: bool) -> None:
    """Copy the store to a file while workers run.

    The file is a SQLite database with all that the store had at one moment: tasks, logs,
    checkpoints, queues, schedules. It appears when it is whole. Copying `tasks.db` with `cp` is no
    backup: what is new is in a second file beside it. PostgreSQL, MySQL and Redis have tools of
    their own for this, which the error names.
    """
    store = given.store()
    saved = backups.backup(store, file, replace=replace)
    text = f"{file}: {saved.tasks:,} tasks ({saved.running:,} of them running), "
    text += format_size(saved.bytes)
    found: dict[str, JSON] = {
        "file": file, "store": store.url, "tasks": saved.tasks, "running": saved.running,
        "bytes": saved.bytes,
    }  # fmt: skip
    print_outcome(text, found, as_json)
