"""`ls`: list tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import rich_click as click
from msgspec.structs import replace

from stayer.cli.command import FILTER, Given, command
from stayer.cli.common_options import limit_option
from stayer.cli.output import (
    note,
    note_incoming,
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
from stayer.core.model import RUNNING, STATES, Filter, Page, Task
from stayer.service.control import tasks as control
from stayer.service.degraded.partial import partly
from stayer.store import Store

DEFAULT_LIMIT = 50


@command()
@filter_options
@click.option("--held", is_flag=True, help="Held, waiting to be released.", panel=FILTER)
@limit_option(DEFAULT_LIMIT)
@click.option(
    "-w", "--watch", is_flag=True, help="Keep running, and draw again when something changes."
)
@click.option(
    "-o",
    "--columns",
    metavar="COLUMN,…|TEMPLATE",
    help="Show these columns: id, state, args, result, error, tags … and any field of a record; "
    "meta.NAME, parameters.NAME and result.NAME what is inside. With braces it is a template for "
    "a line: '{id} {state};{progress.message}'.",
)
@click.option("--no-pager", is_flag=True, help="Don't page a list that is longer than the screen.")
@click.option("--json", "form", flag_value="json", help="Print an array of records, as JSON.")
@click.option("--jsonl", "form", flag_value="jsonl", help="Print a record a line, as JSON.")
@click.option("--ids", "form", flag_value="ids", help="Print only the ids, one a line.")
def ls(
    given: Given,
    selection: Selection,
    held: bool,
    limit: int,
    watch: bool,
    columns: str | None,
    no_pager: bool,
    form: str | None,
) -> int:
    """List tasks: what runs first, then the newest.

    ARGUMENTS are those of the command, or the parameters of a function. PROGRESS is how far it is,
    what went wrong, or what it returned. Of a generated id it shows the beginning, as much as is
    needed to name the task. AGE counts from the submission. RAN is how long the last attempt ran,
    including the time it was paused or frozen; if its worker is silent, until the last sign of
    life. TRY is its number. With --json, --jsonl, --ids and a template the newest comes first.
    """
    if watch and (form or columns or not on_screen()):
        raise BadInput("-w draws on a terminal: leave it out to write elsewhere, or as JSON")
    if columns is not None and form:
        raise BadInput("-o is for the table: leave it out, records have all fields")
    store = given.store()
    filter = selection.to_filter(store, held=held or None)
    if watch:
        from stayer.cli.live import watch_tasks

        watch_tasks(store, filter, limit)
        return 0
    search = _Search(store, filter)
    if columns is not None and "{" in columns:
        from stayer.cli.task_columns import parse_template

        print_lines(map(parse_template(columns), search.tasks(limit)))
        return note_unreachable(search.away)
    match form:
        case "json":
            print_json_array(map(codec.record, search.tasks(limit)))
        case "jsonl":
            print_json_lines(map(codec.record, search.tasks(limit)))
        case "ids":
            print_lines(task.id for task in search.tasks(limit))
        case _:
            _print_table(store, search, limit, columns, paged=not no_pager)
            note_incoming(store)
    return note_unreachable(search.away)


class _Search:
    """Tasks that match, as far as their queues can be reached."""

    def __init__(self, store: Store, filter: Filter) -> None:
        self._store = store
        self._filter = filter
        self.narrows = filter != Filter()
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

    def running_first(self, limit: int) -> Iterator[Task]:
        """Yield what runs, then the rest, up to `limit` tasks (0: all)."""
        wanted = self._filter.states or STATES
        left, filter = limit, self._filter
        for states in (RUNNING, tuple(state for state in STATES if state not in RUNNING)):
            meant = tuple(state for state in states if state in wanted)
            if not meant:
                continue
            self._filter = replace(filter, states=meant)
            for task in self.tasks(left):
                yield task
                if limit:
                    left -= 1
            if limit and left <= 0:
                return

    def _page(self, cursor: str | None, limit: int) -> Page:
        def read(queues: Sequence[str]) -> Page:
            self._filter = replace(self._filter, queues=tuple(queues))
            return self._store.find(self._filter, cursor, limit)

        page, away = partly(self._store, self._filter.queues, read)
        self.away.update(away)
        return page


def _print_table(
    store: Store, search: _Search, limit: int, columns: str | None, *, paged: bool
) -> None:
    from stayer.cli.tables import draw
    from stayer.cli.task_columns import chosen_table, parse_columns
    from stayer.cli.task_tables import tasks_table

    names = None if columns is None else parse_columns(columns)
    # One more than is shown tells whether there are more.
    tasks = list(search.running_first(limit + 1 if limit else 0))
    shown = tasks[:limit] if limit else tasks
    if not tasks:
        note(f"no tasks match in {store.url}" if search.narrows else f"no tasks in {store.url}")
        return
    if names is not None:
        draw(chosen_table(shown, names), paged=paged)
    else:
        now = store.now()
        # Who is silent is known from all queues together.
        silent = {} if search.away else silent_workers(store, shown, now)
        draw(tasks_table(shown, now, silent), paged=paged)
    if len(tasks) > len(shown):
        note(f"there are more: -n {10 * limit} shows {10 * limit}, -n 0 all")
