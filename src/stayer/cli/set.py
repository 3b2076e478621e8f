"""`set`: change the limits, priority or hooks of a task."""

from __future__ import annotations

from collections.abc import Callable

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.common_options import task_id_argument
from stayer.cli.output import print_line
from stayer.core import units
from stayer.core.errors import BadInput
from stayer.service.control import tasks as control
from stayer.service.operator import operator_of


@command()
@task_id_argument
@click.option("--priority", type=int, metavar="N", help="Higher goes first.")
@click.option(
    "--time-limit",
    metavar="DURATION|+DURATION|none",
    help="How long it may run; with a +, so much longer than now.",
)
@click.option(
    "--silence-limit",
    metavar="DURATION|none",
    help="How long it may neither report nor print anything.",
)
@click.option(
    "--memory-limit", metavar="SIZE|none", help="How much memory its processes may use together."
)
@click.option(
    "--notify",
    multiple=True,
    metavar="HOOK|none",
    help="Tell these hooks of its end, instead of those it has. May be repeated.",
)
def set(
    given: Given,
    id: str,
    priority: int | None,
    time_limit: str | None,
    silence_limit: str | None,
    memory_limit: str | None,
    notify: tuple[str, ...],
) -> None:
    """Change the limits, priority or hooks of a task that has not ended.

    A running task gets new limits at once; they hold for later attempts too.
    """
    more = time_limit is not None and time_limit.startswith("+")
    options = {
        "time": None if more else _limit("--time-limit", time_limit, units.duration),
        "silence": _limit("--silence-limit", silence_limit, units.duration),
        "memory": _limit("--memory-limit", memory_limit, units.memory),
    }
    extra = _limit("--time-limit", time_limit and time_limit[1:], units.duration) if more else None
    limits = {name: value for name, value in options.items() if value is not None}
    hooks = None if not notify else [] if notify == ("none",) else notify
    if not limits and extra is None and priority is None and hooks is None:
        raise BadInput(
            "say what to set: --priority, --time-limit, --silence-limit, --memory-limit or --notify"
        )
    store = given.store()
    task = operator_of(store).set(
        control.resolve(store, id, to_change=True),
        priority=priority,
        limits=limits,
        more_time=extra,
        notify=hooks,
    )
    changes = [] if priority is None else [f"priority {task.priority}"]
    changes += [f"{name} limit {_format_limit(name, value)}" for name, value in limits.items()]
    if extra is not None:
        more_time = f"time limit {units.format_duration(extra)} more"
        # Whether its worker has set one, nobody knows but its worker.
        changes.append(
            more_time if task.policy.time_limit else f"{more_time}, if its worker set one"
        )
    if hooks is not None:
        changes.append(f"tells {' '.join(task.notify) or 'nobody'}")
    print_line(f"{task.id} {', '.join(changes)}")


def _format_limit(name: str, value: float) -> str:
    if not value:
        return "none"
    return units.format_limit(value) if name == "memory" else units.format_duration(value)


def _limit(option: str, text: str | None, parse: Callable[[str], float]) -> float | None:
    """Parse a limit: None if there is none to set, 0 for `none`."""
    if text is None:
        return None
    if text == "none":
        return 0.0
    try:
        value = parse(text)
    except BadInput as error:
        raise BadInput(f"{option}: {error}") from None
    if not value:
        raise BadInput(f"{option}: {text!r} leaves nothing: write none for no limit")
    return value
