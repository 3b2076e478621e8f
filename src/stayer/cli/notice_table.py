"""Notices as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from stayer.cli.tables import age, cell, grid, short_ids
from stayer.core.notify.notices import Notice

_STYLES = {"delivered": "green", "failed": "red", "pending": "yellow"}


def notices_table(notices: Sequence[Notice], now: float) -> Table:
    """Make a table with a line for each notice."""
    table = grid("ID", "TASK", "EVENT", "TO*", "STATE", "TRIES", "AGE", "NEXT", "SAID*",
                 right=("TRIES", "AGE", "NEXT"))  # fmt: skip
    short = short_ids(notice.id for notice in notices)
    for notice in notices:
        following = "" if notice.next is None else age(max(0.0, notice.next - now))
        table.add_row(
            cell(short[notice.id]),
            cell(notice.task or str(notice.record.get("worker") or "")),
            cell(notice.event),
            cell(notice.to),
            cell(notice.state, _STYLES[notice.state]),
            cell(notice.tries),
            cell(age(now - notice.at)),
            cell(following),
            cell((notice.said or "").replace("\n", " ")[:200]),
        )
    return table
