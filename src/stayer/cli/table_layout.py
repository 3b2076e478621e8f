"""Tables that fit the screen: what matters least gives way first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

_GAP = 2


class Column(NamedTuple):
    """One of a table, and what may become of it where there is little room."""

    heading: str
    right: bool = False
    """It has numbers."""
    least: int | None = None
    """It may be cut, but not below this; None: it is shown whole."""
    rank: int = 9
    """Of those that may be cut, which gets room first; those of one rank share it."""
    goes: int = 0
    """Which is left out first if nothing else helps; 0: none of it."""
    whole: bool = False
    """Nothing of it is ever cut: what is longer than fits goes on in the next line."""


def fit_table(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int) -> Table:
    """Make a table that is no wider than this, as far as possible."""
    needs = [
        max([cell_len(column.heading), *(row[at].cell_len for row in rows)])
        for at, column in enumerate(columns)
    ]
    leasts = [
        need if column.least is None else min(need, max(column.least, cell_len(column.heading)))
        for need, column in zip(needs, columns, strict=True)
    ]
    for at, column in enumerate(columns):
        if column.whole:
            leasts[at] = min(leasts[at], width // 2)
    shown = list(range(len(columns)))
    for at in sorted(shown, key=lambda at: columns[at].goes):
        if columns[at].goes and _together(leasts, shown) > width:
            shown.remove(at)
    widths, spare = list(leasts), max(0, width - _together(leasts, shown))
    for rank in sorted({columns[at].rank for at in shown}):
        short = [at for at in shown if columns[at].rank == rank and widths[at] < needs[at]]
        while spare and short:
            narrowest = min(short, key=lambda at: widths[at])
            widths[narrowest] += 1
            spare -= 1
            if widths[narrowest] == needs[narrowest]:
                short.remove(narrowest)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for at in shown:
        column = columns[at]
        justify = "right" if column.right else "left"
        table.add_column(
            column.heading,
            justify=justify,  # type: ignore[arg-type]
            no_wrap=not column.whole,
            overflow="fold" if column.whole else "ellipsis",
            width=widths[at],
        )
    for row in rows:
        table.add_row(*(_folded(row[at]) if columns[at].whole else row[at] for at in shown))
    return table


def _folded(text: Text) -> Text:
    whole = text.copy()
    whole.no_wrap, whole.overflow = False, "fold"
    return whole


def _together(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[at] for at in shown) + _GAP * (len(shown) - 1)
