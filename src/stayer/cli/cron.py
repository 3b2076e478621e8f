"""`cron`: tasks that the clock submits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import rich_click as click

from stayer.cli.command import Given, Group, argument
from stayer.cli.common_options import json_option
from stayer.cli.output import note, print_json, print_json_array, print_line, print_outcome
from stayer.cli.param_types import DURATION, complete_schedule
from stayer.cli.submit import submission_options, task_fields
from stayer.cli.tries import Tries
from stayer.core import codec
from stayer.core.model import JSON, Task
from stayer.core.schedules import parse
from stayer.core.schedules.model import CATCH_UPS, OVERLAPS, Schedule
from stayer.core.units import format_duration, rfc3339
from stayer.service.control import schedules
from stayer.store import Store

if TYPE_CHECKING:
    from rich.table import Table

_TICKS_SHOWN = 5
"""How many ticks `show` tells of."""

NAME = argument(
    "schedule", metavar="NAME", shell_complete=complete_schedule, help="The name of the schedule."
)
NAMES = argument(
    "names",
    nargs=-1,
    required=True,
    metavar="NAME...",
    shell_complete=complete_schedule,
    help="Names of schedules.",
)


@click.group(cls=Group)
def cron() -> None:
    """Submit tasks on a schedule.

    Schedules are kept in the store, and its workers submit their tasks: one at each time, however
    many workers there are. `stayer worker` and `stayer up` add the schedules of the tables [[cron]]
    in stayer.toml.
    """


@cron.command()
@NAME
@argument("expression", metavar="CRON", help="When: '30 2 * * *' (minute hour day month weekday).")
@argument(
    "words",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[-- COMMAND [ARG]...]",
    help="The command that its tasks are to run, if that is what they do.",
)
@click.option(
    "--tz",
    "--zone",
    "zone",
    default="UTC",
    metavar="ZONE",
    help="The time zone that the clock is of, such as Europe/Berlin. Default: UTC.",
)
@click.option(
    "--overlap",
    type=click.Choice(OVERLAPS),
    default="skip",
    help="If the task before has not ended: leave the new one out (skip, the default), let it "
    "wait (queue), or cancel the one before first (cancel).",
)
@click.option(
    "--catch-up",
    type=click.Choice(CATCH_UPS),
    default="last",
    help="Of the ticks that were missed while no worker ran, catch up on none, on the last one "
    "(the default), or on all.",
)
@click.option(
    "--jitter",
    type=DURATION,
    default=0.0,
    metavar="DURATION",
    help="Start each task up to this much later, at random: not all at once.",
)
@click.option("--paused", is_flag=True, help="Make it paused: it starts when it is resumed.")
@click.option("--replace", "replacing", is_flag=True, help="Replace a schedule of the same name.")
@submission_options(leave_out=(*parse.NOT_FOR_TASKS, "held"))
@click.option("--json", "as_json", is_flag=True, help="Print the schedule, as JSON.")
@click.pass_obj
def add(
    given: Given,
    /,
    schedule: str,
    expression: str,
    words: tuple[str, ...],
    zone: str,
    overlap: Any,
    catch_up: Any,
    jitter: float,
    paused: bool,
    replacing: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Make a schedule.

    `stayer cron add nightly '30 2 * * *' --tz Europe/Berlin -q reports -- make report` runs a
    command each night. Adding the same again is no error.
    """
    wanted = Schedule(
        name=schedule, cron=expression, zone=zone, overlap=overlap, catch_up=catch_up,
        jitter=jitter, paused=paused,
        task=parse.task_for(task_fields(given, words, options)),
    )  # fmt: skip
    made = schedules.add(given.store(make=True), wanted, replacing=replacing)
    if as_json:
        print_json(parse.record(made))
    else:
        print_line(f"{made.name} {_describe_next(made)}")


@cron.command()
@click.option("--json", "as_json", is_flag=True, help="Print an array of schedules, as JSON.")
@click.pass_obj
def ls(given: Given, as_json: bool) -> None:
    """List schedules, with their next time and their last task."""
    store = given.store()
    found = store.schedules()
    tasks = schedules.last_tasks(store, found)
    if as_json:
        print_json_array(_record(each, tasks.get(each.name)) for each in found)
    elif not found:
        note(f"no schedules in {store.url}: `stayer cron add` makes one")
    else:
        from stayer.cli.tables import draw

        draw(_table(found, tasks, store.now()))


def _record(schedule: Schedule, task: Task | None) -> dict[str, JSON]:
    return {**parse.record(schedule), "last_state": None if task is None else task.state}


def _table(found: Sequence[Schedule], tasks: dict[str, Task], now: float) -> Table:
    from stayer.cli.tables import STYLES, age, cell, grid

    table = grid("NAME", "CRON", "ZONE*", "QUEUE*", "KIND*", "NEXT", "LAST TASK*", "STATE")
    for each in found:
        task = tasks.get(each.name)
        kind = each.task.name or (each.task.command[0] if each.task.command else None)
        coming = cell("paused", "bold magenta")
        if not each.paused:
            coming = cell("never" if each.next is None else f"in {age(each.next - now)}")
        table.add_row(
            cell(each.name),
            cell(each.cron),
            cell(each.zone),
            cell(each.task.queue),
            cell(kind),
            coming,
            cell(each.last_task),
            cell(None if task is None else task.state, STYLES[task.state] if task else ""),
        )
    return table


@cron.command()
@NAME
@click.option("--json", "as_json", is_flag=True, help="Print the schedule, as JSON.")
@click.pass_obj
def show(given: Given, schedule: str, as_json: bool) -> None:
    """Show all about a schedule, and its next five times."""
    store = given.store()
    found = schedules.get(store, schedule)
    task = schedules.last_tasks(store, [found]).get(found.name)
    ticks = schedules.next_ticks(store, found, _TICKS_SHOWN)
    if as_json:
        print_json({**_record(found, task), "following": [rfc3339(tick) for tick in ticks]})
        return
    for name, value in _describe(found, task):
        print_line(f"{name:11}{value}")
    upcoming = ["paused"] if found.paused else []
    upcoming += [_local(tick, found.zone) for tick in ticks]
    for number, each in enumerate(upcoming or ["never"]):
        print_line(f"{'' if number else 'next':11}{each}")


def _describe(found: Schedule, task: Task | None) -> list[tuple[str, str]]:
    last = "none yet"
    if found.last_task is not None:
        last = f"{found.last_task}, {'gone' if task is None else task.state}"
    runs = found.task.name or " ".join(found.task.command or ()) or "for a listener of its queue"
    return [
        ("name", found.name),
        ("cron", f"{found.cron} ({found.zone})"),
        ("runs", runs),
        ("queue", found.task.queue),
        ("overlap", found.overlap),
        ("catch-up", found.catch_up),
        ("jitter", format_duration(found.jitter)),
        ("from", found.origin or "hand"),
        ("last task", last),
    ]


@cron.command()
@NAMES
@json_option
@click.pass_obj
def rm(given: Given, names: tuple[str, ...], as_json: bool) -> int:
    """Remove schedules; their tasks stay."""
    return _each(given.store(), names, _remove, as_json)


def _remove(store: Store, name: str) -> str:
    schedules.drop(store, name)
    return "removed"


@cron.command()
@NAMES
@json_option
@click.pass_obj
def pause(given: Given, names: tuple[str, ...], as_json: bool) -> int:
    """Pause schedules until they are resumed."""
    return _each(
        given.store(),
        names,
        lambda store, name: _describe_next(schedules.pause(store, name)),
        as_json,
    )


@cron.command()
@NAMES
@json_option
@click.pass_obj
def resume(given: Given, names: tuple[str, ...], as_json: bool) -> int:
    """Resume paused schedules, from now on."""
    return _each(
        given.store(),
        names,
        lambda store, name: _describe_next(schedules.resume(store, name)),
        as_json,
    )


@cron.command()
@NAME
@json_option
@click.pass_obj
def run(given: Given, schedule: str, as_json: bool) -> None:
    """Submit a schedule's task now, once, and print its id.

    Also while another task of it runs, or the schedule is paused. Its next times stay the same.
    """
    task = schedules.run(given.store(), schedule)
    print_outcome(task.id, codec.record(task), as_json)


def _each(
    store: Store, names: Sequence[str], act: Callable[[Store, str], str], as_json: bool
) -> int:
    tries = Tries()
    done: list[JSON] = []
    for name in dict.fromkeys(names):
        with tries.each():
            outcome = act(store, name)
            done.append({"name": name, "outcome": outcome})
            if not as_json:
                print_line(f"{name} {outcome}")
    if as_json:
        print_json_array(done)
    return tries.worst


def _describe_next(schedule: Schedule) -> str:
    if schedule.paused:
        return "paused"
    return "never" if schedule.next is None else f"next {_local(schedule.next, schedule.zone)}"


def _local(moment: float, zone: str) -> str:
    """Format a moment in the schedule's own time zone."""
    return datetime.fromtimestamp(moment, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S %Z")
