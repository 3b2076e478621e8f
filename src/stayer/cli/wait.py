"""`wait`: wait until tasks have ended."""

from __future__ import annotations

from collections.abc import Iterator

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.common_options import timeout_option
from stayer.cli.exit_codes import BY_FINAL_STATE, TIMED_OUT
from stayer.cli.output import note, print_json_array, print_line
from stayer.cli.selection import Selection, choose, filter_options, ids_argument
from stayer.cli.tries import Tries
from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.fault_text import fault_line
from stayer.core.model import Task
from stayer.core.units import format_duration
from stayer.service.control import waits
from stayer.service.degraded.retry import deadline_in, retry_while_unreachable, time_left
from stayer.store import Store


@command()
@filter_options
@ids_argument(
    to_change=False,
    help="Ids of tasks, flows or sweeps. The beginning of an id is enough.",
)
@timeout_option
@click.option("--json", "as_json", is_flag=True, help="Print an array of records, as JSON.")
def wait(given: Given, selection: Selection, timeout: float | None, as_json: bool) -> int:
    """Wait until tasks have ended; the exit code says how.

    Name tasks, flows or sweeps, or give a filter: then it waits for all tasks that match now,
    those that have ended included. 0: all are complete. 1: one failed. 3: one was cancelled, none
    failed. 124: time is over. Each task is printed as it ends. If the store can't be reached, it
    waits for that too, as long as there is time; if the store is not back by then, 4.
    """
    deadline = deadline_in(timeout)

    def begin() -> tuple[Store, Tries, list[str]]:
        store, tries = given.store(), Tries()
        return store, tries, choose(store, selection, tries, to_change=False)

    store, tries, found = retry_while_unreachable(begin, deadline, note)
    if not found and not selection.ids:
        raise BadInput("no task matches, so there is nothing to wait for")
    open_ids = dict.fromkeys(found)
    ended = _each_as_it_ends(store, open_ids, time_left(deadline), tries)
    if as_json:
        print_json_array(map(codec.record, ended))
    else:
        for task in ended:
            print_line(_describe_end(task))
    if open_ids and timeout is not None:
        first = next(iter(open_ids))
        others = f" and {len(open_ids) - 1:,} more" if len(open_ids) > 1 else ""
        note(f"{first}{others} did not end in {format_duration(timeout)}: wait again, or cancel")
        tries.count(TIMED_OUT)
    return tries.worst


def _each_as_it_ends(
    store: Store, open_ids: dict[str, None], timeout: float | None, tries: Tries
) -> Iterator[Task]:
    """Yield each task as it ends; those that have not are left in `open_ids`."""
    for task in waits.wait(store, list(open_ids), timeout, note):
        del open_ids[task.id]
        tries.count(BY_FINAL_STATE[task.state])
        yield task


def _describe_end(task: Task) -> str:
    if task.state == "failed" and task.error:
        return f"{task.id} failed: {fault_line(task.error)}"
    if task.started_at is None or task.finished_at is None:
        return f"{task.id} {task.state}"
    return f"{task.id} {task.state} in {format_duration(task.finished_at - task.started_at)}"
