"""Acting on one or many tasks: what `cancel`, `retry`, `delete` and others have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, NamedTuple, cast

import rich_click as click

from stayer.cli.command import Decorated, Given
from stayer.cli.confirm import confirm
from stayer.cli.output import note, plural, print_json_array, print_line, print_lines
from stayer.cli.progress import progress
from stayer.cli.selection import Selection, choose, filter_options, ids_argument
from stayer.cli.tries import Tries
from stayer.core import codec
from stayer.core.errors import Refused, UnknownTask
from stayer.core.model import State, Task
from stayer.service.control import tasks as control
from stayer.store import Store


class TaskVerb(NamedTuple):
    """A verb on tasks."""

    name: str
    act: Callable[[Store, str], Task]
    describe: Callable[[Task], str]
    """Says what became of the task."""
    states: tuple[State, ...]
    """Which tasks a filter without --state means."""
    held: bool | None = None
    together: bool = False
    """Do nothing to any if one of the ids is not there: somebody may have mistyped a command."""


class Manner(NamedTuple):
    """How to go about it."""

    yes: bool
    """Act on a filter without asking first."""
    dry_run: bool
    as_json: bool


def task_options(
    *, metavar: str | None = None, help: str | None = None
) -> Callable[[Decorated], Decorated]:
    """Add the ids, the filter, and --dry-run, --yes and --json; the function is given `selection`
    and `manner`. `metavar` and `help` are for ids that come with something else.
    """

    def decorate(function: Decorated) -> Decorated:
        @wraps(function)
        def gather(*arguments: Any, **values: Any) -> Any:
            manner = Manner(**{name: values.pop(name) for name in Manner._fields})
            return function(*arguments, manner=manner, **values)

        decorated: Any = gather
        options = (
            click.option("--json", "as_json", is_flag=True, help="Print the records, as JSON."),
            click.option("-y", "--yes", is_flag=True, help="Don't ask before acting on a filter."),
            click.option("--dry-run", is_flag=True, help="Only print the ids of the tasks."),
            filter_options,
            ids_argument(metavar=metavar, help=help),
        )
        for option in options:
            decorated = option(decorated)
        return cast(Decorated, decorated)

    return decorate


acts_on_tasks = task_options()
"""The usual ones."""


def act_on_tasks(given: Given, verb: TaskVerb, selection: Selection, manner: Manner) -> int:
    """Do it to the tasks that were selected, and say what became of them; return the exit code."""
    store, tries = given.store(), Tries()
    by_filter = not selection.ids
    chosen = choose(store, selection, tries, states=verb.states, held=verb.held)
    if verb.together and tries.worst:
        return tries.worst
    if manner.dry_run:
        print_lines(chosen)
        note(f"to {verb.name}: {plural(len(chosen))}; nothing was done")
        return tries.worst
    if by_filter and not chosen:
        note(f"no task to {verb.name} matches")
    elif by_filter and not confirm(f"{verb.name.capitalize()} {plural(len(chosen))}?", manner.yes):
        return 1
    elif not chosen and not tries.worst:
        note(f"no task of {', '.join(selection.ids)} to {verb.name}")
    done = _act(store, verb, chosen, tries, forgiving=by_filter)
    if manner.as_json:
        print_json_array(codec.record(task) for task in done)
    elif by_filter:
        _print_summary(done, verb, len(chosen))
    else:
        for task in done:
            print_line(f"{task.id} {verb.describe(task)}")
    return tries.worst


def _print_summary(tasks: Iterator[Task], verb: TaskVerb, total: int) -> None:
    counts: Counter[str] = Counter()
    with progress(total, wanted=total > control.BATCH) as advance:
        for task in tasks:
            counts[verb.describe(task)] += 1
            advance(counts.total(), plural(counts.total()))
    for description, number in counts.items():
        print_line(f"{plural(number)} {description}")


def _act(
    store: Store, verb: TaskVerb, ids: Sequence[str], tries: Tries, *, forgiving: bool
) -> Iterator[Task]:
    """Yield each task as the verb left it; `forgiving` of those that it fits no longer."""
    for id in ids:
        with tries.each():
            try:
                yield verb.act(store, id)
            except (Refused, UnknownTask):
                if not forgiving:
                    raise
