"""The table that `sweep show` draws."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from stayer.cli.output import plural, safe
from stayer.cli.table_layout import Column, fit_table
from stayer.cli.tables import STYLES, cell, console
from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.flows.model import FlowInfo, part_of
from stayer.core.flows.sweep import Run, figures, metrics, varying
from stayer.core.model import JSON, Value
from stayer.core.units import format_duration

RAN = "ran"


def sort_runs(runs: Sequence[Run], by: str | None) -> list[Run]:
    """Sort by a parameter, a figure of the results, or `ran`; what has none comes last."""
    if by is None:
        return list(runs)
    name, largest_first = by.removeprefix("-"), by.startswith("-")
    known = (*varying(runs), *figures(runs), *metrics(runs), "result", RAN)
    if name not in known:
        raise BadInput(f"--sort {name}: there is no such column: take one of {', '.join(known)}")
    having = [run for run in runs if _value(run, name) is not None]
    rest = [run for run in runs if _value(run, name) is None]
    return [*sorted(having, key=lambda run: _key(run, name), reverse=largest_first), *rest]


def _value(run: Run, name: str) -> Value:
    if name == RAN:
        return run.duration
    if name in run.parameters:
        return run.parameters[name]
    if isinstance(run.result, dict) and name in run.result:
        return run.result[name]
    if name in run.metrics:
        return run.metrics[name]
    return run.result if name == "result" and not isinstance(run.result, dict) else None


def _key(run: Run, name: str) -> tuple[int, float, str]:
    """Numbers by their size, before texts."""
    value = _value(run, name)
    if isinstance(value, int | float):
        return 0, value, ""
    return 1, 0.0, value if isinstance(value, str) else codec.encode(codec.shown_value(value))


def picture(
    flow: FlowInfo, runs: Sequence[Run], sort: str | None, now: float, height: int | None
) -> RenderableType:
    """Draw what the sweep is and how far, then a line for each run."""
    parameters, found, own = varying(runs), figures(runs), metrics(runs)
    others = any(run.result is not None and not isinstance(run.result, dict) for run in runs)
    has_error = any(run.error for run in runs)
    columns = [
        Column("#", right=True),
        *(Column(name, least=8, rank=1) for name in parameters),
        Column("STATE"),
        *(Column(name, least=8, rank=2) for name in (*found, *own)),
        *([Column("RESULT", least=12, rank=3)] if others else []),
        Column("RAN", right=True),
        *([Column("ERROR", least=20, rank=4)] if has_error else []),
    ]
    rows = [
        [
            cell(run.place),
            *(cell(_shown(run.parameters.get(name))) for name in parameters),
            cell(run.state, STYLES.get(run.state, "")),
            *(cell(_shown(_figure(run, name))) for name in found),
            *(cell(_shown(run.metrics.get(name))) for name in own),
            *(
                [cell(None if isinstance(run.result, dict) else _text(run.result))]
                if others
                else []
            ),
            cell(_ran(run, now)),
            *([cell(run.error, "red")] if has_error else []),
        ]
        for run in sort_runs(runs, sort)
    ]
    if height is not None:
        rows = rows[: max(1, height - 4)]
    return Group(_title(flow, runs), "", fit_table(columns, rows, console().width))


def _title(flow: FlowInfo, runs: Sequence[Run]) -> Text:
    title = Text(safe(flow.id), "bold")
    title.append(f"  {safe(flow.name)}  ")
    title.append(flow.state, STYLES.get(flow.state, ""))
    counts = ", ".join(f"{number:,} {state}" for state, number in flow.totals.items() if number)
    title.append(f"  {plural(len(runs))}: {counts}", "dim")
    tasks = part_of(flow.id, runs[0].id)[0] if runs else ""
    return title.append(f"  ({flow.id}.{tasks}.#)", "dim") if runs else title


def _figure(run: Run, name: str) -> JSON:
    return run.result.get(name) if isinstance(run.result, dict) else None


def _shown(value: JSON) -> str | None:
    if value is None:
        return None
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else codec.encode(value)


def _text(value: Value) -> str | None:
    return f"{len(value):,} bytes" if isinstance(value, bytes) else _shown(value)


def _ran(run: Run, now: float) -> str | None:
    if run.duration is not None:
        return format_duration(run.duration)
    if run.state == "started" and run.started_at is not None:
        return format_duration(max(0.0, now - run.started_at))
    return None
