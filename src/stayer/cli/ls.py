"""`ls`: list tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import rich_click as click
from msgspec.structs import replace

from stayer.cli.command import FILTER, Given, command
from stayer.cli.output import (
    note,
    note_unreachable,
    on_screen,
    print_json_array,
    print_json_lines,
    print_lines,
)
from stayer.cli.selection import Selection, filter_options
from stayer.cli.silent_workers import silent_workers
from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.model import Filter, Page, Task
from stayer.service.control import tasks as control
from stayer.service.degraded.partial import partly
from stayer.store import Store

DEFAULT_LIMIT = 50


@command()
@filter_options
@click.option("--held", is_flag=True, help="Held, waiting to be released.", panel=FILTER)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    default=DEFAULT_LIMIT,
    metavar="N",
    help=f"How many at most; 0 for all. Default: {DEFAULT_LIMIT}.",
)
@click.option(
    "-w", "--watch", is_flag=True, help="Keep running, and draw again when something changes."
)
@click.option("--json", "form", flag_value="json", help="Print an array of records, as JSON.")
@click.option("--jsonl", "form", flag_value="jsonl", help="Print a record a line, as JSON.")
@click.option("--ids", "form", flag_value="ids", help="Print only the ids, one a line.")
def ls(
    given: Given, selection: Selection, held: bool, limit: int, watch: bool, form: str | None
) -> int:
    """List tasks, newest first.

    Of a generated id it shows the beginning, as much as is needed to name the task. AGE counts from
    the submission. RAN is how long the last attempt ran, including the time it was paused or
    frozen; if its worker is silent, until the last sign of life. TRY is its number.
    """
    if watch and (form or not on_screen()):
        raise BadInput("-w draws on a terminal: leave it out to write elsewhere, or as JSON")
    store = given.store()
    filter = selection.to_filter(store, held=held or None)
    if watch:
        from stayer.cli.live import watch_tasks

        watch_tasks(store, filter, limit)
        return 0
    search = _Search(store, filter)
    match form:
        case "json":
            print_json_array(map(codec.record, search.tasks(limit)))
        case "jsonl":
            print_json_lines(map(codec.record, search.tasks(limit)))
        case "ids":
            print_lines(task.id for task in search.tasks(limit))
        case _:
            _print_table(store, filter, search, limit)
    return note_unreachable(search.away)


class _Search:
    """Tasks that match, as far as their queues can be reached."""

    def __init__(self, store: Store, filter: Filter) -> None:
        self._store = store
        self._filter = filter
        self.away: dict[str, str] = {}

    def tasks(self, limit: int) -> Iterator[Task]:
        """Yield up to `limit` tasks (0: all), fetching no more than it takes."""
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


def _print_table(store: Store, filter: Filter, search: _Search, limit: int) -> None:
    # One more than is shown tells whether there are more.
    tasks = list(search.tasks(limit + 1 if limit else 0))
    shown = tasks[:limit] if limit else tasks
    if not tasks:
        note(f"no tasks match in {store.url}" if filter != Filter() else f"no tasks in {store.url}")
        return
    from stayer.cli.tables import draw
    from stayer.cli.task_tables import tasks_table

    now = store.now()
    # Who is silent is known from all queues together.
    silent = {} if search.away else silent_workers(store, shown, now)
    draw(tasks_table(shown, now, silent))
    if len(tasks) > len(shown):
        note(f"there are more: -n {10 * limit} shows {10 * limit}, -n 0 all")
