"""`ls`, `show`, `wait`: what there is, and what becomes of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import rich_click as click
from msgspec.structs import replace

from stayer.cli.command import FILTER, Given, argument, command
from stayer.cli.output import (
    note,
    note_away,
    on_screen,
    print_json,
    print_json_array,
    print_json_lines,
    print_lines,
    say,
)
from stayer.cli.param_types import DURATION, complete_task
from stayer.cli.selection import Asked, Tries, filter_options, ids_argument, resolve, to_filter
from stayer.cli.silent_workers import silent_workers
from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.model import QUEUED, RUNNING, Filter, Page, Task
from stayer.core.units import format_duration
from stayer.service.control import tasks as control
from stayer.service.degraded.partial import partly
from stayer.service.degraded.retry import deadline_in, retry_while_unreachable, time_left
from stayer.service.explain import why_silent, why_waiting
from stayer.service.operator import operator_of
from stayer.store import Store

LIMIT = 50
TIMED_OUT = 124
_ENDED = {"complete": 0, "failed": 1, "cancelled": 3}


@command()
@filter_options
@click.option("--held", is_flag=True, help="Held, waiting to be released.", panel=FILTER)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    default=LIMIT,
    metavar="N",
    help=f"How many at most; 0 for all. Default: {LIMIT}.",
)
@click.option("-w", "--watch", is_flag=True, help="Stay, and draw again when something changes.")
@click.option("--json", "form", flag_value="json", help="Print an array of records, as JSON.")
@click.option("--jsonl", "form", flag_value="jsonl", help="Print a record a line, as JSON.")
@click.option("--ids", "form", flag_value="ids", help="Print only the ids, one a line.")
def ls(given: Given, asked: Asked, held: bool, limit: int, watch: bool, form: str | None) -> int:
    """List tasks, newest first.

    Shows the beginning of a generated id: as much as it takes to name the task. AGE counts from
    the submission, RAN is how long the last attempt ran (while it stood still, paused or frozen,
    too; if its worker is silent, until it was last heard of), TRY is its number.
    """
    if watch and (form or not on_screen()):
        raise BadInput("-w draws on a terminal: leave it out to write elsewhere, or as JSON")
    store = given.store()
    filter = to_filter(store, asked._replace(held=held or None))
    if watch:
        from stayer.cli.live import watch_tasks

        watch_tasks(store, filter, limit)
        return 0
    found = _Found(store, filter)
    match form:
        case "json":
            print_json_array(map(codec.record, found.tasks(limit)))
        case "jsonl":
            print_json_lines(map(codec.record, found.tasks(limit)))
        case "ids":
            print_lines(task.id for task in found.tasks(limit))
        case _:
            _print_table(store, filter, found, limit)
    return note_away(found.away)


class _Found:
    """Tasks that match, as far as their queues can be reached."""

    def __init__(self, store: Store, filter: Filter) -> None:
        self._store = store
        self._filter = filter
        self.away: dict[str, str] = {}

    def tasks(self, limit: int) -> Iterator[Task]:
        """Up to `limit` of them (0: all), fetching no more than it takes."""
        left, cursor = limit or math.inf, None
        while left > 0:
            page = self._page(cursor, int(min(left, control.BATCH)))
            yield from page.tasks
            left -= len(page.tasks)
            cursor = page.next
            if cursor is None:
                return

    def _page(self, cursor: str | None, limit: int) -> Page:
        def read(queues: Sequence[str]) -> Page:
            self._filter = replace(self._filter, queues=tuple(queues))
            return self._store.find(self._filter, cursor, limit)

        page, away = partly(self._store, self._filter.queues, read)
        self.away.update(away)
        return page


def _print_table(store: Store, filter: Filter, found: _Found, limit: int) -> None:
    # One more than is shown tells whether there are more.
    tasks = list(found.tasks(limit + 1 if limit else 0))
    shown = tasks[:limit] if limit else tasks
    if not tasks:
        note(f"no tasks match in {store.url}" if filter != Filter() else f"no tasks in {store.url}")
        return
    from stayer.cli.tables import draw
    from stayer.cli.task_tables import tasks_table

    now = store.now()
    # Who is silent is known from all queues together.
    silent = {} if found.away else silent_workers(store, shown, now)
    draw(tasks_table(shown, now, silent))
    if len(tasks) > len(shown):
        note(f"there are more: -n {10 * limit} shows {10 * limit}, -n 0 all")


@command()
@argument("id", metavar="ID", shell_complete=complete_task, help="Its id, or the beginning of it.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the record with attempts and events, as JSON."
)
def show(given: Given, id: str, as_json: bool) -> None:
    """Show all there is to know about a task.

    How long it ran counts from its start to its end on its node, also if the store heard of that
    later; where it was paused or frozen, it says for how long. Of a task whose worker is silent it
    is known only until it was last heard of.
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
    from stayer.cli.task_tables import last_heard

    now = store.now()
    heard_at = last_heard(task, now, silent_workers(store, [task], now))
    print_page(task, attempts, events, now, heard_at, _condition(store, task))


def _condition(store: Store, task: Task) -> str | None:
    """Why it does not run, or why nobody hears of it."""
    if task.state in QUEUED:
        return f"waits: {why_waiting(operator_of(store).explain(task.id))}"
    if task.state in RUNNING:
        return why_silent(operator_of(store).explain(task.id))
    return None


@command()
@ids_argument(required=True, to_change=False)
@click.option(
    "--timeout", type=DURATION, metavar="DURATION", help="Give up after 10m, 1h … (exit code 124)."
)
@click.option("--json", "as_json", is_flag=True, help="Print an array of records, as JSON.")
def wait(given: Given, ids: tuple[str, ...], timeout: float | None, as_json: bool) -> int:
    """Wait until tasks have ended; the exit code says how.

    0: all are complete. 1: one failed. 3: one was cancelled, none failed. 124: time is over. Each
    is printed as it ends. A store that can't be reached is waited for, too, as long as there is
    time; if it is not back by then, 4.
    """
    deadline = deadline_in(timeout)

    def begin() -> tuple[Store, Tries, list[str]]:
        store, tries = given.store(), Tries()
        return store, tries, resolve(store, ids, tries)

    store, tries, found = retry_while_unreachable(begin, deadline, note)
    open_ids = dict.fromkeys(found)
    ended = _ended(store, open_ids, time_left(deadline), tries)
    if as_json:
        print_json_array(map(codec.record, ended))
    else:
        for task in ended:
            say(_ending(task))
    if open_ids and timeout is not None:
        first = next(iter(open_ids))
        others = f" and {len(open_ids) - 1:,} more" if len(open_ids) > 1 else ""
        note(f"{first}{others} did not end in {format_duration(timeout)}: wait again, or cancel")
        tries.count(TIMED_OUT)
    return tries.worst


def _ended(
    store: Store, open_ids: dict[str, None], timeout: float | None, tries: Tries
) -> Iterator[Task]:
    """Each task as it ends; those that have not are left in `open_ids`."""
    for task in control.wait(store, list(open_ids), timeout, note):
        del open_ids[task.id]
        tries.count(_ENDED[task.state])
        yield task


def _ending(task: Task) -> str:
    if task.state == "failed" and task.error:
        return f"{task.id} failed: {task.error.type}: {task.error.message}".rstrip(": ")
    if task.started_at is None or task.finished_at is None:
        return f"{task.id} {task.state}"
    return f"{task.id} {task.state} in {format_duration(task.finished_at - task.started_at)}"
