"""`explain`: why a task is not running, and when it will."""

from __future__ import annotations

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.common_options import task_id_argument
from stayer.cli.output import print_json, print_line
from stayer.cli.tables import local_time
from stayer.core.insight import explanation
from stayer.core.insight.explanation import Explanation, Span
from stayer.core.insight.forecast import ENOUGH
from stayer.core.units import format_duration
from stayer.service.control import tasks as control
from stayer.service.operator import operator_of


@command()
@task_id_argument
@click.option("--json", "as_json", is_flag=True, help="Print reasons and forecast, as JSON.")
def explain(given: Given, id: str, as_json: bool) -> None:
    """Say why a task is not running, and when it will start and end.

    The forecast rests on how long tasks of its kind took in its queue; the range in brackets is
    what half of them would need.
    """
    store = given.store()
    found = operator_of(store).explain(control.resolve(store, id))
    if as_json:
        print_json(explanation.record(found))
        return
    print_line(f"task {found.id} is {found.state}")
    for reason in found.reasons:
        print_line(f"- {reason.text}")
    for line in _forecast(found, store.now()):
        print_line(line)


def _forecast(found: Explanation, now: float) -> list[str]:
    forecast = found.forecast
    if forecast is None:
        return []
    lines = []
    for verb, span in (("starts", forecast.starts), ("ends", forecast.ends)):
        if span is not None:
            lines.append(f"{verb} about {_moment(span, now)}")
    if not forecast.samples:
        basis = "as others of its queue did"
    elif forecast.samples == 1:
        basis = "a guess, from the only one of its kind"
    elif forecast.samples < ENOUGH:
        basis = f"a guess, from the {forecast.samples} of its kind that there were"
    else:
        basis = f"as the last {forecast.samples} of its kind did"
    return [*lines, f"({basis})"] if forecast.ends else lines


def _moment(span: Span, now: float) -> str:
    if span.high <= now + 1:
        return "now"
    low, high = (format_duration(max(0, round(at - now))) for at in (span.low, span.high))
    return f"{local_time(span.likely)} (in {low} to {high})"
