"""`queues`: what there is, dropping one, setting its limits and what it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import rich_click as click

from stayer.cli.command import Decorated, Given, Group, argument
from stayer.cli.common_options import json_option
from stayer.cli.confirm import confirm
from stayer.cli.output import (
    note,
    note_incoming,
    note_unreachable,
    plural,
    print_json,
    print_json_array,
    print_line,
    print_outcome,
)
from stayer.cli.param_types import KEEP, LIMIT, complete_queue
from stayer.cli.queue_names import check_queues, note_new_queues
from stayer.config.parsing import FOREVER
from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.model import JSON
from stayer.core.queue_model import KEPT, Fair, Kept, QueueInfo
from stayer.core.queue_settings import FAIR, WrittenSettings
from stayer.core.submit.defaults import describe, parse_value
from stayer.core.units import format_duration
from stayer.service.control import queues as queue_control
from stayer.service.degraded.partial import partly

_LIMITS = frozenset(("limit", "key_limit", "key_limits", "rate", "fair"))
"""Settings that are shown in one line."""
_KEPT_WORDS = {
    "complete": "complete tasks",
    "failed": "failed tasks",
    "cancelled": "cancelled tasks",
    "log": "the logs of tasks that have ended",
    "result": "the results of tasks that have ended",
}


def keep_options(function: Decorated) -> Decorated:
    """Add `--keep-complete` and the like; the function is given them by their names."""
    for what in reversed(KEPT):
        function = click.option(
            f"--keep-{what}",
            type=KEEP,
            metavar="DURATION|forever|default",
            help=f"How long {_KEPT_WORDS[what]} are kept.",
        )(function)
    return function


NAME = argument(
    "name", metavar="QUEUE", shell_complete=complete_queue, help="The name of the queue."
)


@click.group(cls=Group, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print an array of queues, as JSON.")
@click.pass_context
def queues(context: click.Context, as_json: bool) -> int:
    """List queues; remove one, set its limits, hooks and retention."""
    if context.invoked_subcommand is not None:
        return 0
    given: Given = context.obj
    store = given.store()
    found, away = partly(store, (), partial(queue_control.list_queues, store))
    if as_json:
        print_json_array(map(codec.queue_record, found))
    elif not found:
        note(f"no queues in {store.url}: a queue is made by its first task")
    else:
        from stayer.cli.tables import draw, queues_table

        draw(queues_table(found, store.now()))
    note_incoming(store)
    return note_unreachable(away)


@queues.command(name="rm")
@NAME
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@click.option("--force", is_flag=True, help="Also if it has tasks that have not ended.")
@json_option
@click.pass_obj
def rm_(given: Given, name: str, yes: bool, force: bool, as_json: bool) -> int:
    """Remove a queue with all its tasks.

    Refuses while one of them runs, and, without --force, if one has not ended.
    """
    store = given.store()
    check_queues(store, [name])
    number = sum(store.queues([name])[0].counts.values())
    if not confirm(f"Delete queue {name} with {plural(number)}?", yes):
        return 1
    number = queue_control.drop_queue(store, name, force=force)
    print_outcome(
        f"{name} removed with {plural(number)}", {"queue": name, "tasks": number}, as_json
    )
    return 0


@queues.command(name="set")
@NAME
@click.option(
    "--limit",
    type=LIMIT,
    metavar="N|none",
    help="How many of its tasks may run at once; none for any number.",
)
@click.option(
    "--key-limit",
    multiple=True,
    metavar="[KEY=]N|none",
    help="How many tasks of any one key may run at once; with KEY=, of this one. May be repeated.",
)
@click.option(
    "--rate",
    metavar="N/TIME|none",
    help="How many of its tasks may begin in which time: 100/1h, 5/10s.",
)
@click.option(
    "--fair",
    type=click.Choice((*FAIR, "none")),
    help="Let the owner, or key, that has used least go first among tasks of equal priority.",
)
@click.option(
    "--notify",
    multiple=True,
    metavar="HOOK|none",
    help="Notify this hook (of stayer.toml) or URL when its tasks end. May be repeated.",
)
@click.option(
    "--default",
    "defaults",
    multiple=True,
    metavar="FIELD=VALUE|FIELD=none",
    help="What its tasks have unless they say otherwise, by the name of the field: retries=3, "
    "time_limit=2h, retry_on=oom,timeout. May be repeated.",
)
@keep_options
@click.option("--json", "as_json", is_flag=True, help="Print the queue, as JSON.")
@click.pass_obj
def set_(
    given: Given,
    /,
    name: str,
    limit: int | None,
    key_limit: tuple[str, ...],
    rate: str | None,
    fair: Fair | Literal["none"] | None,
    notify: tuple[str, ...],
    defaults: tuple[str, ...],
    as_json: bool,
    **keep: float | None,
) -> None:
    """Set the limits, rate, fairness, hooks, defaults and retention of a queue.

    Settings that are not named stay as they are. A queue that does not exist is made. A duration
    such as 7d counts from the end of a task; `default` is what the workers are configured with.
    """
    wanted = _key_limits(key_limit)
    if limit is not None:
        wanted["limit"] = limit or None
    if rate is not None:
        wanted["rate"] = None if rate == "none" else rate
    if fair is not None:
        wanted["fair"] = None if fair == "none" else fair
    retention: dict[Kept, float | None] = {
        what: None if seconds < 0 else seconds
        for what in KEPT
        if (seconds := keep[f"keep_{what}"]) is not None
    }
    if retention:
        wanted["retention"] = retention
    if notify:
        wanted["notify"] = [] if notify == ("none",) else notify
    if defaults:
        wanted["defaults"] = _defaults(defaults)
    if not wanted:
        raise BadInput(
            "say what to set: --limit N, --limit none, --key-limit, --rate, --fair, --notify, "
            "--default retries=3, or --keep-complete 7d"
        )
    store = given.store()
    note_new_queues(store, [name])
    queue = queue_control.set_queue(store, name, **wanted)
    if as_json:
        print_json(codec.queue_record(queue))
    else:
        _print_settings(queue, wanted)


def _print_settings(queue: QueueInfo, changed: WrittenSettings) -> None:
    """Print what has become of the settings that were to change."""
    name = queue.name
    if not _LIMITS.isdisjoint(changed):
        from stayer.cli.tables import other_limits

        others = other_limits(queue)
        print_line(f"{name} limit {queue.limit or 'none'}{', ' if others else ''}{others}")
    if "notify" in changed:
        print_line(f"{name} tells {' '.join(queue.notify) or 'nobody'}")
    if "defaults" in changed:
        print_line(f"{name} defaults {describe(queue.defaults) or 'none'}")
    for what in changed.get("retention", ()):
        print_line(f"{name} keep {what} {_format_retention(queue.retention.get(what))}")


def _format_retention(seconds: float | None) -> str:
    if seconds is None:
        return "as the workers are told"
    return "forever" if seconds >= FOREVER else format_duration(seconds)


def _defaults(written: Sequence[str]) -> dict[str, JSON]:
    found: dict[str, JSON] = {}
    for entry in written:
        name, is_said, text = entry.partition("=")
        name = name.replace("-", "_")
        if not is_said:
            raise BadInput(f"--default {entry}: write FIELD=VALUE, or FIELD=none for none")
        found[name] = None if text == "none" else parse_value(name, text)
    return found


def _key_limits(written: Sequence[str]) -> WrittenSettings:
    wanted: WrittenSettings = {}
    single: dict[str, int | None] = {}
    for entry in written:
        key, _, number = entry.rpartition("=")
        if number != "none" and not (number.isdecimal() and len(number) <= 10):
            raise BadInput(f"--key-limit {entry}: write a number, KEY=number, or none for it")
        limit = None if number == "none" else int(number)
        if key:
            single[key] = limit
        else:
            wanted["key_limit"] = limit
    if single:
        wanted["key_limits"] = single
    return wanted
