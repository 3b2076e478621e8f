"""`flow`: whole flows, submitted, listed, shown, awaited, cancelled, retried."""

from __future__ import annotations

from itertools import islice

import rich_click as click

from stayer.cli.command import Given, Group, argument
from stayer.cli.common_options import (
    from_start_option,
    grace_option,
    json_option,
    limit_option,
    timeout_option,
)
from stayer.cli.confirm import confirm
from stayer.cli.exit_codes import BY_FINAL_STATE, TIMED_OUT
from stayer.cli.output import (
    note,
    on_screen,
    plural,
    print_json,
    print_json_array,
    print_line,
    print_outcome,
    stdin,
)
from stayer.cli.param_types import complete_flow
from stayer.cli.submit import is_remote, working_directory
from stayer.core.errors import BadInput
from stayer.core.flows import model
from stayer.core.flows.json import parse_flow
from stayer.core.flows.model import FlowInfo
from stayer.core.model import FINISHED
from stayer.core.units import format_duration, format_size
from stayer.service.control import flows as flow_control
from stayer.service.degraded.retry import deadline_in, retry_while_unreachable, time_left
from stayer.service.operator import operator_of

READ_LIMIT_BYTES = 64_000_000
DEFAULT_LIMIT = 20

ID = argument(
    "id",
    metavar="FLOW",
    shell_complete=complete_flow,
    help="The id of the flow, or the beginning of it.",
)


@click.group(cls=Group)
def flow() -> None:
    """Submit, list, show, wait for, cancel and retry whole flows.

    A flow is tasks that run after each other: see `stayer flow submit --help`.
    """


@flow.command()
@argument("file", metavar="FILE|-", help="The flow as JSON; - to read it from stdin.")
@click.option("--wait", "waits", is_flag=True, help="Wait until it has ended; see `flow wait`.")
@click.option("--json", "as_json", is_flag=True, help="Print the flow, and whether it is fresh.")
@click.pass_obj
def submit(given: Given, file: str, waits: bool, as_json: bool) -> int:
    """Submit the flow that a JSON file describes, all of it or nothing, and print its id.

    Commands run in this directory, unless the file says where; over HTTP, where their worker was
    started. An id that exists is no error, and changes nothing.
    """
    config = given.config()
    what = "stdin" if file == "-" else file
    new, tasks = parse_flow(
        _read(file),
        what,
        queue=config.queue,
        owner=config.owner,
        submitted_by=config.submitter or None,
        retries=config.retries,
        cwd=None if is_remote(given) else working_directory(None),
    )
    store = given.store(make=True)
    found, fresh = flow_control.submit(store, new, tasks)
    if not fresh:
        note(f"flow {found.id} is already there ({found.state})")
    if as_json and not waits:
        print_json({**model.record(found), "fresh": fresh})
    elif not as_json:
        print_line(found.id)
    return _wait(given, found.id, None, as_json) if waits else 0


@flow.command(name="ls")
@limit_option(DEFAULT_LIMIT)
@click.option("--json", "as_json", is_flag=True, help="Print an array of flows, as JSON.")
@click.pass_obj
def ls_(given: Given, limit: int, as_json: bool) -> None:
    """List flows, newest first."""
    store = given.store()
    found = list(islice(flow_control.find_all(store), limit or None))
    if as_json:
        print_json_array(map(model.record, found))
    elif not found:
        note(f"no flows in {store.url}: `stayer flow submit` makes one")
    else:
        from stayer.cli.flow_graph import flows_table
        from stayer.cli.tables import draw

        draw(flows_table(found, store.now()))


@flow.command()
@ID
@click.option(
    "-w", "--watch", is_flag=True, help="Keep running, and draw again when something changes."
)
@click.option("--json", "as_json", is_flag=True, help="Print the flow, as JSON.")
@click.pass_obj
def show(given: Given, id: str, watch: bool, as_json: bool) -> None:
    """Draw a flow: its parts, what runs after what, and how far each is.

    Each part stands below what it runs after. `stayer ls --flow FLOW` lists the tasks.
    """
    if watch and (as_json or not on_screen()):
        raise BadInput("-w draws on a terminal: leave it out to write elsewhere, or as JSON")
    store = given.store()
    found = flow_control.get(store, flow_control.resolve(store, id))
    if as_json:
        print_json(model.record(found))
        return
    from stayer.cli.flow_graph import picture

    if watch:
        from stayer.cli.live import watch_picture

        watch_picture(store, lambda height: picture(flow_control.get(store, found.id), height))
        return
    from stayer.cli.tables import draw

    draw(picture(found, None))


@flow.command()
@ID
@timeout_option
@click.option("--json", "as_json", is_flag=True, help="Print the flow as it ended, as JSON.")
@click.pass_obj
def wait(given: Given, id: str, timeout: float | None, as_json: bool) -> int:
    """Wait until all of a flow has ended; the exit code says how.

    0: it is complete. 1: a task failed. 3: a task was cancelled, none failed. 124: time is over.
    If the store can't be reached, it waits for that too, as long as there is time; if the store is
    not back by then, 4.
    """
    deadline = deadline_in(timeout)
    full = retry_while_unreachable(lambda: flow_control.resolve(given.store(), id), deadline, note)
    return _wait(given, full, timeout, as_json, deadline)


@flow.command()
@ID
@grace_option
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@json_option
@click.pass_obj
def cancel(given: Given, id: str, grace: float | None, yes: bool, as_json: bool) -> int:
    """Cancel all tasks of a flow that have not ended; running ones are asked to stop."""
    store = given.store()
    found = flow_control.get(store, flow_control.resolve(store, id, to_change=True))
    left = sum(number for state, number in found.totals.items() if state not in FINISHED)
    if left and not confirm(f"Cancel {plural(left)} of flow {found.id}?", yes):
        return 1
    number = operator_of(store).cancel_flow(found.id, grace)
    text = f"{found.id} cancelled: {plural(number)}"
    print_outcome(text, {"id": found.id, "tasks": number}, as_json)
    return 0


@flow.command()
@ID
@from_start_option
@json_option
@click.pass_obj
def retry(given: Given, id: str, from_start: bool, as_json: bool) -> None:
    """Resume a flow from where it failed.

    Tasks that failed or were cancelled run again, in their order, each from its last checkpoint.
    Complete ones stay as they are.
    """
    store = given.store()
    full = flow_control.resolve(store, id, to_change=True)
    number = operator_of(store).retry_flow(full, from_start=from_start)
    text = f"{full} goes on: {plural(number)} to run again"
    print_outcome(text, {"id": full, "tasks": number}, as_json)


def _wait(
    given: Given, id: str, timeout: float | None, as_json: bool, deadline: float | None = None
) -> int:
    store = given.store()
    found = flow_control.wait(store, id, time_left(deadline), note)
    if as_json:
        print_json(model.record(found))
    elif found.state in FINISHED:
        print_line(_describe_end(found))
    if found.state not in FINISHED:
        shown = format_duration(timeout or 0)
        note(f"flow {id} did not end in {shown}: wait again, or cancel it")
        return TIMED_OUT
    return BY_FINAL_STATE[found.state]


def _describe_end(found: FlowInfo) -> str:
    totals = {state: number for state, number in found.totals.items() if number}
    if list(totals) == ["complete"]:
        return f"{found.id} complete"
    counted = ", ".join(f"{number:,} {state}" for state, number in totals.items())
    return f"{found.id} {found.state}: {counted}"


def _read(file: str) -> bytes:
    try:
        if file == "-":
            text = stdin().read(READ_LIMIT_BYTES + 1)
        else:
            with open(file, "rb") as opened:
                text = opened.read(READ_LIMIT_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{file} can't be read: {error.strerror}") from None
    if len(text) > READ_LIMIT_BYTES:
        raise BadInput(f"{file} is over {format_size(READ_LIMIT_BYTES)}: make it several flows")
    return text
