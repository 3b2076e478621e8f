"""Verbs for tasks that run and for whole queues: what `pause` and `resume` have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from stayer.cli.command import Given
from stayer.cli.output import print_json_array, print_line
from stayer.cli.selection import Selection
from stayer.core import codec
from stayer.core.model import Filter
from stayer.core.queue_model import QueueInfo
from stayer.store import Store


def queues_meant(selection: Selection) -> tuple[str, ...]:
    """Say which queues are meant as a whole: those of -q, if nothing else says which tasks."""
    alone = replace(selection, filter=Filter(queues=selection.filter.queues))
    return selection.filter.queues if not selection.ids and selection == alone else ()


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
