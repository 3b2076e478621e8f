"""`workers`: who takes tasks, changing one that runs, and dropping one."""

from __future__ import annotations

import rich_click as click

from stayer.cli.command import Given, Group, argument
from stayer.cli.common_options import json_option
from stayer.cli.output import note, plural, print_json_array, print_outcome
from stayer.cli.param_types import DURATION, complete_worker
from stayer.cli.tries import Tries
from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.service.lease.forced_drop import Dropped, drop_by_force
from stayer.service.operator import operator_of
from stayer.store import known_lost_workers, known_workers


@click.group(cls=Group, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print an array of workers, as JSON.")
@click.pass_context
def workers(context: click.Context, as_json: bool) -> None:
    """List workers; change one that runs, or remove one.

    A worker that was declared lost is listed as DOWN for a day, with the reason.
    """
    if context.invoked_subcommand is not None:
        return
    given: Given = context.obj
    store = given.store()
    found = known_workers(store)
    down = known_lost_workers(store, found)
    if as_json:
        print_json_array([
            *map(codec.worker_record, found), *map(codec.lost_worker_record, down)
        ])  # fmt: skip
        return
    if not found:
        note(f"no workers in {store.url}: `stayer up` or `stayer worker` starts one")
    if found or down:
        from stayer.cli.tables import draw, lost_workers_table, workers_table

        if found:
            draw(workers_table(found, store.now()))
        if down:
            if found:
                click.echo()
            draw(lost_workers_table(down, store.now()))


@workers.command(name="rm")
@argument(
    "ids",
    nargs=-1,
    required=True,
    metavar="ID...",
    shell_complete=complete_worker,
    help="Ids of workers.",
)
@click.option("--force", is_flag=True, help="Also one that is alive: stop it, and wait for that.")
@click.option(
    "--grace",
    type=DURATION,
    metavar="DURATION",
    help="With --force: how long what it runs may take to end (30s).",
)
@json_option
@click.pass_obj
def rm_(given: Given, ids: tuple[str, ...], force: bool, grace: float | None, as_json: bool) -> int:
    """Give up stale workers, and return their tasks to the queue.

    Other workers do this by themselves after a while. A worker that is not stale is refused. With
    --force it is told to stop what it runs and to leave, and this waits until it has done so, or
    has been silent for its lease and a margin. Its tasks are never given to others while something
    of them may still run.
    """
    if grace is not None and not force:
        raise BadInput("--grace is for --force: a stale worker runs nothing that could be asked")
    store, tries = given.store(), Tries()
    for id in dict.fromkeys(ids):
        with tries.each():
            if force:
                dropped = drop_by_force(store, id, grace, note)
            else:
                dropped = Dropped(operator_of(store).drop_worker(id), confirmed=False)
            what = (
                f"{id} has stopped what it ran ({plural(dropped.tasks)}), and left"
                if dropped.confirmed
                else f"{id} removed, {plural(dropped.tasks)} returned"
            )
            print_outcome(
                what,
                {"worker": id, "tasks": dropped.tasks, "confirmed": dropped.confirmed},
                as_json,
            )
    return tries.worst


@workers.command(name="set")
@argument(
    "ids",
    nargs=-1,
    required=True,
    metavar="ID...",
    shell_complete=complete_worker,
    help="Ids of workers.",
)
@click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    metavar="+QUEUE|-QUEUE|QUEUE",
    help="Take tasks from this queue too, or no longer; without a sign: only from those named. May "
    "be repeated.",
)
@click.option("--slots", type=click.IntRange(1), metavar="N", help="How many tasks at once.")
@click.option("--reset", is_flag=True, help="Go by its flags and settings again.")
@json_option
@click.pass_obj
def set_(
    given: Given,
    ids: tuple[str, ...],
    queues: tuple[str, ...],
    slots: int | None,
    reset: bool,
    as_json: bool,
) -> int:
    """Change the queues and slots of workers that run.

    What they run goes on. It holds until the worker leaves, also if it is started again meanwhile,
    and goes before its flags and settings.
    """
    changes = _queue_changes(queues)
    store, tries = given.store(), Tries()
    for id in dict.fromkeys(ids):
        with tries.each():
            worker = operator_of(store).set_worker(id, **changes, slots=slots, reset=reset)
            order = worker.order
            assert order is not None
            takes = "" if order.queues is None else f" from {', '.join(order.queues)}"
            number = "" if order.slots is None else f", {plural(order.slots)} at once"
            by_flags = "" if takes or number else " as its flags and settings say"
            when = (
                "; it is silent, and hears of it when it is back" if worker.state == "STALE" else ""
            )
            print_outcome(
                f"{id} takes tasks{takes}{number}{by_flags}{when}",
                codec.worker_record(worker),
                as_json,
            )
    return tries.worst


def _queue_changes(given: tuple[str, ...]) -> dict[str, list[str]]:
    changes: dict[str, list[str]] = {"queues": [], "add_queues": [], "remove_queues": []}
    for each in given:
        sign, name = each[:1], each.lstrip("+-")
        kind = {"+": "add_queues", "-": "remove_queues"}.get(sign, "queues")
        changes[kind].append(name if kind != "queues" else each)
    return changes
