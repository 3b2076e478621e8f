"""`queues`: what there is, dropping one, setting its limit and what it keeps."""

from __future__ import annotations

import rich_click as click
from msgspec import UNSET

from stayer import control
from stayer.cli.command import Decorated, Given, Group, argument
from stayer.cli.output import many, note, print_json, print_json_array, say
from stayer.cli.selection import check_queues, confirm
from stayer.cli.values import KEEP, LIMIT, complete_queue
from stayer.config import FOREVER
from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.model import KEPT, Kept
from stayer.core.units import format_duration

_ENDED = {
    "complete": "complete tasks",
    "failed": "failed tasks",
    "cancelled": "cancelled tasks",
    "log": "the logs of tasks that have ended",
    "result": "the results of tasks that have ended",
}


def keep_options(function: Decorated) -> Decorated:
    """`--keep-complete` and the like, given to the function by their names."""
    for what in reversed(KEPT):
        function = click.option(
            f"--keep-{what}",
            type=KEEP,
            metavar="DURATION|forever|default",
            help=f"How long {_ENDED[what]} are kept.",
        )(function)
    return function


NAME = argument(
    "name", metavar="QUEUE", shell_complete=complete_queue, help="The name of the queue."
)


@click.group(cls=Group, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print an array of queues, as JSON.")
@click.pass_context
def queues(context: click.Context, as_json: bool) -> None:
    """List queues; drop one, set its limit or what it keeps."""
    if context.invoked_subcommand is not None:
        return
    given: Given = context.obj
    store = given.store()
    found = store.queues()
    if as_json:
        print_json_array(map(codec.queue_record, found))
    elif not found:
        note(f"no queues in {store.url}: a queue is made by its first task")
    else:
        from stayer.cli.tables import draw, queues_table

        draw(queues_table(found, store.now()))


@queues.command()
@NAME
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@click.option("--force", is_flag=True, help="Also if it has tasks that have not ended.")
@click.pass_obj
def drop(given: Given, name: str, yes: bool, force: bool) -> int:
    """Delete a queue with all its tasks.

    Refuses while one of them runs, and, without --force, if one has not ended.
    """
    store = given.store()
    check_queues(store, [name])
    number = sum(store.queues([name])[0].counts.values())
    if not confirm(f"Delete queue {name} with {many(number)}?", yes):
        return 1
    say(f"{name} dropped with {many(control.drop_queue(store, name, force=force))}")
    return 0


@queues.command(name="set")
@NAME
@click.option(
    "--limit",
    type=LIMIT,
    metavar="N|none",
    help="How many of its tasks may run at once; none for any number.",
)
@keep_options
@click.option("--json", "as_json", is_flag=True, help="Print the queue, as JSON.")
@click.pass_obj
def set_(
    given: Given, /, name: str, limit: int | None, as_json: bool, **keep: float | None
) -> None:
    """Set how many tasks of a queue may run at once, and how long what has ended is kept.

    A duration such as 7d counts from the end of a task; `default` is what the workers are told.
    """
    retention: dict[Kept, float | None] = {
        what: None if seconds < 0 else seconds
        for what in KEPT
        if (seconds := keep[f"keep_{what}"]) is not None
    }
    if limit is None and not retention:
        raise BadInput("say what to set: --limit N, --limit none, or --keep-complete 7d")
    store = given.store()
    check_queues(store, [name])
    queue = store.set_queue(
        name, limit=UNSET if limit is None else limit or None, retention=retention
    )
    if as_json:
        print_json(codec.queue_record(queue))
        return
    if limit is not None:
        say(f"{name} limit {queue.limit or 'none'}")
    for what in retention:
        say(f"{name} keep {what} {_kept(queue.retention.get(what))}")


def _kept(seconds: float | None) -> str:
    if seconds is None:
        return "as the workers are told"
    return "forever" if seconds >= FOREVER else format_duration(seconds)
