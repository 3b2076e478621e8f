"""What an attempt has reported of itself, as `show` draws it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from stayer.cli.tables import cell, console, grid
from stayer.core.insight.statistics import step_elapsed
from stayer.core.model import Attempt, Statistics
from stayer.core.units import format_duration

_BARS = "▁▂▃▄▅▆▇█"
_SPARK_WIDTH = 32


def sections(
    own: Statistics, attempt: Attempt | None, heard_at: float
) -> Iterator[tuple[str, RenderableType]]:
    """Yield headings and tables of what there is. The attempt is known to have run until
    `heard_at`, if it runs.
    """
    if own.metrics:
        yield "Metrics", _metrics(own)
    if own.steps:
        yield "Steps", _steps(own, _run_time(attempt, heard_at))


def _metrics(own: Statistics) -> Table:
    table = grid(
        "NAME*", "LAST", "MIN", "MAX", "COUNT", "X", "", right=("LAST", "MIN", "MAX", "COUNT", "X")
    )
    has_bars = (console().encoding or "").lower().startswith("utf")
    for name, series in own.metrics.items():
        values = [point[2] for point in series.points]
        table.add_row(
            cell(name),
            cell(figure(series.last)),
            cell(figure(series.min)),
            cell(figure(series.max)),
            cell(f"{series.count:,}"),
            cell(None if series.x is None else figure(series.x)),
            Text(sparkline(values) if has_bars else "", "cyan", no_wrap=True),
        )
    return table


def _steps(own: Statistics, ran: float | None) -> Table:
    table = grid("STEP*", "BEGAN", "TOOK", "TIMES", right=("BEGAN", "TOOK", "TIMES"))
    for step in own.steps:
        took = format_duration(step_elapsed(step, ran))
        goes_on = step.since is not None
        table.add_row(
            cell(step.name),
            cell(f"+{format_duration(step.start)}"),
            cell(took, "bold yellow" if goes_on else ""),
            cell(f"{step.count:,}" if step.count > 1 else None),
        )
    return table


def _run_time(attempt: Attempt | None, heard_at: float) -> float | None:
    if attempt is None or attempt.started_at is None:
        return None
    end = heard_at if attempt.finished_at is None else attempt.finished_at
    return max(0.0, end - attempt.started_at)


def figure(value: float | None) -> str:
    """Write a value of a metric: as short as it can be read."""
    return "nan" if value is None else f"{value:.6g}"


def sparkline(values: Sequence[float | None]) -> str:
    """Draw values as bars of a line of text, the least as the lowest; gaps stay empty."""
    shown = _resampled(values, _SPARK_WIDTH)
    known = [value for value in shown if value is not None]
    if len(known) < 2:
        return ""
    least, most = min(known), max(known)
    scale = (len(_BARS) - 1) / (most - least) if most > least else 0.0
    bars = (" " if value is None else _BARS[round((value - least) * scale)] for value in shown)
    return "".join(bars)


def _resampled(values: Sequence[float | None], width: int) -> list[float | None]:
    """Return no more than so many values: means of neighbours."""
    if len(values) <= width:
        return list(values)
    shown: list[float | None] = []
    for place in range(width):
        part = values[place * len(values) // width : (place + 1) * len(values) // width]
        known = [value for value in part if value is not None]
        shown.append(sum(known) / len(known) if known else None)
    return shown
