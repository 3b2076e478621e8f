"""Verbs for tasks that run and for whole queues: what `pause` and `resume` have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import rich_click as click

from stayer.cli.command import Decorated, Given
from stayer.cli.output import print_json_array, print_line
from stayer.cli.param_types import complete_queue
from stayer.cli.selection import ids_argument, resolve
from stayer.cli.tries import Tries
from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.model import QueueInfo, Task
from stayer.service.operator import operator_of
from stayer.store import Operator, Store


def tasks_or_queues(function: Decorated) -> Decorated:
    """Add ids of tasks, -q QUEUE and --json; the function is given `ids`, `names` and `as_json`."""
    options = (
        click.option("--json", "as_json", is_flag=True, help="Print the records, as JSON."),
        click.option(
            "-q",
            "--queue",
            "names",
            multiple=True,
            metavar="QUEUE",
            help="The queue. May be repeated.",
            shell_complete=complete_queue,
        ),
        ids_argument(),
    )
    for decorate in options:
        function = decorate(function)
    return function


def is_about_tasks(ids: Sequence[str], names: Sequence[str]) -> bool:
    """Say whether tasks are meant or queues; raise BadInput if both are, or neither."""
    if ids and names:
        raise BadInput("give either ids of tasks or -q QUEUE, not both")
    if not ids and not names:
        raise BadInput("give the ids of tasks, or a queue with -q QUEUE")
    return bool(ids)


def ask_tasks(
    given: Given,
    ids: Sequence[str],
    act: Callable[[Operator, str], Task],
    outcome: str,
    as_json: bool,
) -> int:
    """Do it to each of these tasks, and print them; return the exit code."""
    store, tries = given.store(), Tries()
    operator = operator_of(store)
    changed = []
    for id in resolve(store, ids, tries, to_change=True):
        with tries.each():
            changed.append(act(operator, id))
    if as_json:
        print_json_array(map(codec.record, changed))
    else:
        for task in changed:
            print_line(f"{task.id} {outcome}")
    return tries.worst


def switch_queues(
    given: Given,
    names: Sequence[str],
    act: Callable[[Store, str], QueueInfo],
    outcome: str,
    as_json: bool,
) -> int:
    """Do it to each of these queues, and print them; return the exit code."""
    store = given.store()
    queues = [act(store, name) for name in dict.fromkeys(names)]
    if as_json:
        print_json_array(map(codec.queue_record, queues))
    else:
        for queue in queues:
            print_line(f"{queue.name} {outcome}")
    return 0
