"""`show`: all there is to know about a task."""

from __future__ import annotations

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.common_options import task_id_argument
from stayer.cli.output import print_json
from stayer.cli.silent_workers import silent_workers
from stayer.core import codec
from stayer.core.model import QUEUED, RUNNING, Task
from stayer.service.control import tasks as control
from stayer.service.explain import why_silent, why_waiting
from stayer.service.operator import operator_of
from stayer.store import Store


@command()
@task_id_argument
@click.option(
    "--json", "as_json", is_flag=True, help="Print the record with attempts and events, as JSON."
)
def show(given: Given, id: str, as_json: bool) -> None:
    """Show all there is to know about a task.

    How long it ran counts from its start to its end on its node, even if the store learned of it
    later. If it was paused or frozen, it says for how long. If its worker is silent, the time is
    known only until the last sign of life.
    """
    store = given.store()
    task = control.get(store, control.resolve(store, id))
    attempts, events = store.attempts(task.id), store.events(task.id)
    if as_json:
        print_json(
            {
                **codec.record(task),
                "attempts": [codec.attempt_record(attempt) for attempt in attempts],
                "events": [codec.event_record(event) for event in events],
            }
        )
        return
    from stayer.cli.show_page import print_page
    from stayer.cli.task_tables import last_contact

    now = store.now()
    heard_at = last_contact(task, now, silent_workers(store, [task], now))
    print_page(task, attempts, events, now, heard_at, _condition(store, task))


def _condition(store: Store, task: Task) -> str | None:
    """Say why it does not run, or why nobody hears of it."""
    if task.state in QUEUED:
        return f"waits: {why_waiting(operator_of(store).explain(task.id))}"
    if task.state in RUNNING:
        return why_silent(operator_of(store).explain(task.id))
    return None
