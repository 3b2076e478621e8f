"""`stats`: what the queues did."""

from __future__ import annotations

from collections.abc import Sequence

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.output import note, note_unreachable, print_json_array
from stayer.cli.param_types import DURATION, complete_queue
from stayer.core.errors import BadInput
from stayer.core.insight import queue_stats
from stayer.core.insight.queue_stats import Figures
from stayer.core.units import format_duration
from stayer.service.degraded.partial import partly
from stayer.store import Store

_DAY_S = 86400.0
_MOST_STEPS = 3000
"""How many lines a queue may have."""


@command()
@click.option(
    "-q", "--queue", "queues", multiple=True, metavar="QUEUE", shell_complete=complete_queue,
    help="Of this queue. May be repeated. Default: all together.",
)  # fmt: skip
@click.option("--each", is_flag=True, help="Show every queue by itself.")
@click.option(
    "--since", type=DURATION, default=_DAY_S, metavar="DURATION",
    help="How far back: 2h, 30d … Default: 24h.",
)  # fmt: skip
@click.option(
    "--step", type=DURATION, metavar="DURATION",
    help="The length of a step: minutes, hours or days. Default: a 24th of --since.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print an array of figures, as JSON.")
def stats(
    given: Given, queues: tuple[str, ...], each: bool, since: float, step: float | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Show statistics of queues: depth, submitted and ended tasks, times.

    Counted each minute by a worker or a server; kept by the minute for 2 days, by the hour for 90
    days, by the day for 2 years. DEPTH, RUNNING and OLDEST are the most that was seen in a step;
    RAN and WAITED are the mean of the tasks that ended in it.
    """
    store = given.store()
    names = queues if queues or each else None
    found, away = _figures(store, since, _check_step(since, step), names)
    if as_json:
        print_json_array(map(queue_stats.record, found))
    elif not found:
        note(
            f"nothing was counted in {store.url} in the last {format_duration(since)}: workers and "
            "servers do it, once a minute"
        )
    else:
        from stayer.cli.tables import draw, figures_table

        draw(figures_table(found, by_queue=names is not None))
    return note_unreachable(away)


def _check_step(since: float, step: float | None) -> float:
    shortest = min(queue_stats.KEPT)
    if step is None:
        return max(shortest, since / 24 // shortest * shortest)
    if step < shortest or step % shortest:
        raise BadInput("--step: give a number of whole minutes, such as 5m or 1h")
    if since / step > _MOST_STEPS:
        raise BadInput(
            f"--step: that is over {_MOST_STEPS:,} lines: give longer steps, or less --since"
        )
    return step


def _figures(
    store: Store, since: float, step: float, names: Sequence[str] | None
) -> tuple[list[Figures], dict[str, str]]:
    now = store.now()

    def read(queues: Sequence[str]) -> list[Figures]:
        wanted = None if names is None and not queues else queues
        return store.figures(now - since, now, queue_stats.level(step, since), wanted)

    found, away = partly(store, names or (), read)
    if names is None and away:
        found = queue_stats.total(found)
    return queue_stats.together(found, step), away
