"""`signal`: send a signal to a task."""

from __future__ import annotations

from stayer.cli.command import Given, argument, command
from stayer.cli.common_options import task_id_argument
from stayer.cli.output import print_line
from stayer.service.control import tasks as control
from stayer.service.operator import operator_of


@command()
@task_id_argument
@argument("name", metavar="SIGNAL", help="Such as USR1, TERM or 15.")
def signal(given: Given, id: str, name: str) -> None:
    """Send a signal to the process of a running task.

    Only its main process gets it. If that ends by it, the task has failed, and runs again if it has
    retries left: to stop a task, cancel it.
    """
    store = given.store()
    task = operator_of(store).signal(control.resolve(store, id, to_change=True), name)
    order = task.orders[-1]
    print_line(f"{task.id} {order.arguments['signal']} is on its way")
