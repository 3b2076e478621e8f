"""`show`: all there is to know about a task."""

from __future__ import annotations

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.common_options import task_id_argument
from stayer.cli.output import print_json, print_lines
from stayer.cli.selection import flow_named
from stayer.cli.silent_workers import silent_workers
from stayer.core import codec
from stayer.core.errors import BadInput, UnknownTask
from stayer.core.flows import model
from stayer.core.flows.sweep import is_sweep
from stayer.core.model import QUEUED, RUNNING, Task
from stayer.service.control import flows as flow_control
from stayer.service.control import sweeps as sweep_control
from stayer.service.control import tasks as control
from stayer.service.control.statistics import find_statistics
from stayer.service.explain import why_silent, why_waiting
from stayer.service.operator import operator_of
from stayer.store import Store


@command()
@task_id_argument
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the record with its statistics, attempts and events, as JSON.",
)
@click.option(
    "-o",
    "--template",
    metavar="TEMPLATE",
    help="Print only this, with fields of the record in braces: '{state};{progress.message}'.",
)
def show(given: Given, id: str, as_json: bool, template: str | None) -> None:
    """Show all there is to know about a task.

    The id of a sweep shows the table of its runs, that of a flow its graph.

    How long it ran counts from its start to its end on its node, even if the store learned of it
    later. If it was paused or frozen, it says for how long. If its worker is silent, the time is
    known only until the last sign of life.
    """
    if template is not None and as_json:
        raise BadInput("-o and --json exclude each other: with --json, all fields are there")
    store = given.store()
    try:
        task = control.get(store, control.resolve(store, id))
    except UnknownTask:
        flow = flow_named(store, id)
        if flow is None:
            raise
        if template is not None:
            raise BadInput(f"-o is for a task, and {id} is a flow") from None
        _show_flow(store, flow, as_json)
        return
    if template is not None:
        from stayer.cli.task_columns import parse_template

        print_lines([parse_template(template)(task)])
        return
    attempts, events = store.attempts(task.id), store.events(task.id)
    attempt, own = find_statistics(store, task)
    if as_json:
        print_json(
            {
                **codec.record(task),
                "statistics": {"attempt": attempt, **codec.statistics_record(own)},
                "attempts": [codec.attempt_record(attempt) for attempt in attempts],
                "events": [codec.event_record(event) for event in events],
            }
        )
        return
    from stayer.cli.show_page import print_page
    from stayer.cli.statistics_tables import sections
    from stayer.cli.task_tables import last_contact

    now = store.now()
    heard_at = last_contact(task, now, silent_workers(store, [task], now))
    began = next((each for each in attempts if each.attempt == attempt), None)
    print_page(
        task, attempts, events, now, heard_at, _condition(store, task),
        sections(own, began, heard_at),
    )  # fmt: skip


def _show_flow(store: Store, id: str, as_json: bool) -> None:
    """Show a flow as `flow show` does, and a sweep as `sweep show` does."""
    flow = flow_control.get(store, id)
    if is_sweep(flow):
        flow, runs = sweep_control.compare(store, id)
        if as_json:
            print_json(sweep_control.record(flow, runs))
            return
        from stayer.cli.sweep_table import picture as sweep_picture

        shown = sweep_picture(flow, runs, None, store.now(), None)
    else:
        if as_json:
            print_json(model.record(flow))
            return
        from stayer.cli.flow_graph import picture as flow_picture

        shown = flow_picture(flow, None)
    from stayer.cli.tables import draw

    draw(shown)


def _condition(store: Store, task: Task) -> str | None:
    """Say why it does not run, or why nobody hears of it."""
    if task.state in QUEUED:
        return f"waits: {why_waiting(operator_of(store).explain(task.id))}"
    if task.state in RUNNING:
        return why_silent(operator_of(store).explain(task.id))
    return None
