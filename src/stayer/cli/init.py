"""`init`: make the store."""

from __future__ import annotations

import os

from stayer.cli.command import Given, command
from stayer.cli.output import print_line


@command()
def init(given: Given) -> None:
    """Create the store, if it does not exist.

    `add`, `run`, `worker` and `up` do this by themselves; here it says where it is.
    """
    store = given.unopened_store()
    new = store.path is not None and not os.path.exists(store.path)
    store = given.store(make=True)
    print_line(f"{store.url} {'is made' if new else 'is ready'}")
