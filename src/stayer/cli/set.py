"""`set`: change the limits, priority, hooks or meta of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import rich_click as click

from stayer.cli.act_on_tasks import Manner, TaskVerb, act_on_tasks, acts_on_tasks
from stayer.cli.command import Given, command
from stayer.cli.selection import Selection
from stayer.cli.submit import single_values
from stayer.core import units
from stayer.core.errors import BadInput
from stayer.core.meta import describe
from stayer.core.model import JSON, QUEUED, RUNNING, Task
from stayer.service.operator import operator_of


@command()
@acts_on_tasks
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
@click.option(
    "--set-meta",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a field of your own: JSON, or else text; null takes it away. May be repeated.",
)
def set(
    given: Given,
    selection: Selection,
    manner: Manner,
    priority: int | None,
    time_limit: str | None,
    silence_limit: str | None,
    memory_limit: str | None,
    notify: tuple[str, ...],
    set_meta: tuple[str, ...],
) -> int:
    """Change the limits, priority, hooks or meta of tasks.

    Name tasks, or give a filter: then it changes all unfinished tasks that match, unless --state
    says otherwise. A running task gets new limits at once; they hold for later attempts too.
    Of a task that has ended only the meta can be set.
    `stayer edit` changes more of a task that waits.
    """
    more = time_limit is not None and time_limit.startswith("+")
    asked = {
        "time": None if more else _limit("--time-limit", time_limit, units.duration),
        "silence": _limit("--silence-limit", silence_limit, units.duration),
        "memory": _limit("--memory-limit", memory_limit, units.memory),
    }
    extra = _limit("--time-limit", time_limit and time_limit[1:], units.duration) if more else None
    limits = {name: value for name, value in asked.items() if value is not None}
    hooks = None if not notify else [] if notify == ("none",) else notify
    meta = single_values("--set-meta", set_meta) or None
    if (limits, extra, priority, hooks, meta) == ({}, None, None, None, None):
        raise BadInput(
            "say what to set: --priority, --time-limit, --silence-limit, --memory-limit, --notify "
            "or --set-meta"
        )
    describe_change = partial(
        _describe, asked_priority=priority, limits=limits, extra=extra, hooks=hooks, meta=meta
    )
    verb = TaskVerb(
        name="set",
        act=lambda store, id: operator_of(store).set(
            id, priority=priority, limits=limits, more_time=extra, notify=hooks, meta=meta
        ),
        describe=describe_change,
        states=(*QUEUED, *RUNNING),
    )
    return act_on_tasks(given, verb, selection, manner)


def _describe(
    task: Task,
    asked_priority: int | None,
    limits: Mapping[str, float],
    extra: float | None,
    hooks: Sequence[str] | None,
    meta: Mapping[str, JSON] | None,
) -> str:
    said = [] if asked_priority is None else [f"priority {task.priority}"]
    said += [f"{name} limit {_format_limit(name, value)}" for name, value in limits.items()]
    if extra is not None:
        more_time = f"time limit {units.format_duration(extra)} more"
        # Whether its worker has set one, nobody knows but its worker.
        said.append(more_time if task.policy.time_limit else f"{more_time}, if its worker set one")
    if hooks is not None:
        said.append(f"tells {' '.join(task.notify) or 'nobody'}")
    if meta is not None:
        said.append(f"meta {describe(meta)}")
    return ", ".join(said)


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
