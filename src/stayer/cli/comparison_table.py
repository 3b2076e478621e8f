"""The tables that `compare` draws: a column for each task, or of many a line for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stayer.cli.output import safe
from stayer.cli.statistics_tables import figure
from stayer.cli.table_layout import Column, fit_table
from stayer.cli.tables import STYLES, cell, console
from stayer.core import codec
from stayer.core.insight.comparison import Comparison, Row
from stayer.core.model import JSON
from stayer.core.units import format_duration, format_size

_WIDEST = 40
_LEAST = 12
_BESIDE = 4
"""So many tasks are shown side by side."""


def picture(found: Comparison) -> RenderableType:
    """Draw it: few tasks side by side, in as many tables as the screen needs; many one a line, if
    the screen is wide enough.
    """
    if len(found.ids) > _BESIDE and (table := lines_table(found, console().width)) is not None:
        return table
    parts: list[RenderableType] = []
    for places in portions(found, console().width):
        if parts:
            parts.append("")
        columns = [Column("", least=_LEAST, rank=0)]
        columns += [Column(safe(found.ids[at]), least=_LEAST, rank=1) for at in places]
        rows = [
            [cell(row.name, "dim"), *(_cell(row.name, row.values[at]) for at in places)]
            for row in found.rows
        ]
        parts.append(fit_table(columns, rows, console().width))
    return Group(*parts)


def lines_table(found: Comparison, width: int) -> Table | None:
    """Make a table with a line for each task; None if its lines would be too long. The command
    comes last, and is left out first: parameters and results are what is compared.
    """
    rows = sorted(found.rows, key=lambda row: row.name == "command")
    headings = _headings([row.name for row in rows])
    columns = [Column("", least=_WIDEST, rank=0, whole=True)]
    need = max(map(cell_len, found.ids))
    for row, heading in zip(rows, headings, strict=True):
        texts = [shown(row.name, value) for value in row.values]
        columns.append(
            Column(
                safe(heading),
                right=not any(isinstance(value, str) for value in row.values),
                least=_LEAST,
                rank=1,
                goes=int(row.name == "command"),
            )
        )
        if row.name != "command":
            need += 2 + max(cell_len(heading), min(_LEAST, max(map(cell_len, texts))))
    if need > width:
        return None
    cells = (
        [cell(id), *(_cell(row.name, row.values[at]) for row in rows)]
        for at, id in enumerate(found.ids)
    )
    return fit_table(columns, list(cells), width)


def _headings(names: list[str]) -> list[str]:
    """Leave `parameters.` and the like away, where what is left names one row alone."""
    short = [
        name.partition(".")[2] if name.startswith(("parameters.", "metrics.", "result.")) else name
        for name in names
    ]
    number = Counter(short)
    return [name if number[brief] > 1 else brief for name, brief in zip(names, short, strict=True)]


def portions(found: Comparison, width: int) -> Iterator[list[int]]:
    """Divide the tasks into so many at a time as fit into this width, but at least one."""
    names = max(cell_len(row.name) for row in found.rows) + 2
    portion: list[int] = []
    used = names
    for at in range(len(found.ids)):
        need = 2 + min(_WIDEST, max(_width(found.ids[at], found.rows, at), _LEAST))
        if portion and used + need > width:
            yield portion
            portion, used = [], names
        portion.append(at)
        used += need
    yield portion


def _width(id: str, rows: tuple[Row, ...], at: int) -> int:
    return max([cell_len(id), *(cell_len(shown(row.name, row.values[at])) for row in rows)])


def _cell(name: str, value: JSON) -> Text:
    text = shown(name, value)
    style = STYLES.get(text, "") if name == "state" else "red" if name == "error" else ""
    return cell(text or None, style)


def shown(name: str, value: JSON) -> str:
    """Write a value for a table."""
    group = name.partition(".")[0]
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if group in ("waited", "ran", "cpu", "steps"):
            return format_duration(float(value))
        if group == "memory":
            return format_size(int(value))
        return figure(value) if isinstance(value, float) else str(value)
    return safe(value if isinstance(value, str) else codec.encode(value))
