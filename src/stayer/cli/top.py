"""`top`: what runs now, drawn again and again."""

from __future__ import annotations

from collections.abc import Sequence

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.output import on_screen, print_json
from stayer.cli.param_types import complete_queue
from stayer.cli.queue_names import check_queues
from stayer.core import codec
from stayer.core.model import RUNNING, Filter
from stayer.service.control import tasks as control
from stayer.store import Store, known_workers


@command()
@click.option(
    "-q",
    "--queue",
    "names",
    multiple=True,
    metavar="QUEUE",
    help="Of this queue. May be repeated: of any of them.",
    shell_complete=complete_queue,
)
@click.option("--once", is_flag=True, help="Draw once, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print tasks, queues and workers, as JSON.")
def top(given: Given, names: tuple[str, ...], once: bool, as_json: bool) -> None:
    """Watch what runs, and the queues and workers.

    It draws again whenever something happens, and each second, until you press q; once if stdout is
    not a terminal. UNSAVED is how long a task has run since its last checkpoint, REPORT how long
    ago it last reported progress. If the worker of a task is silent, RAN and UNSAVED end at the
    last sign of life. If the store can't be reached, it says since when, and goes on when it is
    back.
    """
    store = given.store()
    check_queues(store, names)
    if as_json:
        _print_as_json(store, names)
        return
    from stayer.cli.live import draw_top, watch_top

    if once or not on_screen():
        draw_top(store, names)
    else:
        watch_top(store, names)


def _print_as_json(store: Store, names: Sequence[str]) -> None:
    running = control.find_all(store, Filter(queues=tuple(names), states=RUNNING))
    print_json(
        {
            "tasks": [codec.record(task) for task in running],
            "queues": [codec.queue_record(queue) for queue in store.queues(names)],
            "workers": [codec.worker_record(worker) for worker in known_workers(store)],
        }
    )
