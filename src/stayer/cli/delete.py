"""`delete`: forget finished tasks, by their ids."""

from __future__ import annotations

from stayer.cli.command import Given, command
from stayer.cli.output import print_line
from stayer.cli.selection import ids_argument, resolve
from stayer.cli.tries import Tries
from stayer.service.control import tasks as control


@command()
@ids_argument(required=True)
def delete(given: Given, ids: tuple[str, ...]) -> int:
    """Forget finished tasks.

    With their results, logs and checkpoints. Their ids stay refused for 30 days.
    """
    store, tries = given.store(), Tries()
    for id in resolve(store, ids, tries, to_change=True):
        with tries.each():
            control.delete(store, id)
            print_line(f"{id} deleted")
    return tries.worst
