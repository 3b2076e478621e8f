"""Flows drawn with lines. Imports rich, so only what draws imports this."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stayer.cli.tables import STYLES, age, cell, grid, short_ids
from stayer.core.flows.model import FlowInfo, Part, in_order, state_of
from stayer.core.model import FINISHED, RUNNING, State

_LINES_AROUND = 4
"""Lines of the screen that are not parts."""
_MOST_PARTS = 1000
_SYMBOLS = {"complete": "●", "failed": "✗", "cancelled": "✗", "started": "◉"}


def flows_table(flows: Sequence[FlowInfo], now: float) -> Table:
    """Make the table that `flow ls` shows."""
    table = grid("ID", "NAME*", "STATE", "DONE", "", "AGE", "OWNER*", right=("DONE", "AGE"))
    short = short_ids(flow.id for flow in flows)
    for flow in flows:
        table.add_row(
            cell(short[flow.id]),
            cell(flow.name),
            cell(flow.state, STYLES[flow.state]),
            cell(count_done(flow.totals)),
            cell(count_failed(flow.totals), "red"),
            cell(age(now - flow.created)),
            cell(flow.owner),
        )
    return table


def picture(flow: FlowInfo, height: int | None) -> RenderableType:
    """Draw what `flow show` shows: a line a part, as many as there is room for."""
    room = _MOST_PARTS if height is None else max(1, height - _LINES_AROUND)
    head = Text.assemble(cell(flow.name, "bold"), "  ", cell(flow.id, "dim"), "  ")
    head.append(flow.state, STYLES[flow.state])
    head.append(f"  {count_done(flow.totals)}")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for _ in range(4):
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for part, drawing in list(zip(*_draw_parts(flow), strict=True))[:room]:
        counts = flow.counts.get(part.name, {})
        state = state_of(counts)
        drawing.rstrip()
        condition = _condition(part, counts, state)
        table.add_row(drawing, cell(part.name), *condition, cell(part.kind, "dim"))
    more = len(flow.parts) - room
    below = [Text(f"… and {more:,} more parts", "dim")] if more > 0 else []
    return Group(head, Text(""), table, *below)


def count_done(counts: dict[State, int]) -> str:
    """Return how many are complete of how many: `7,412/10,000`."""
    return f"{counts.get('complete', 0):,}/{sum(counts.values()):,}"


def count_failed(counts: dict[State, int]) -> str:
    """Return `3 failed, 1 cancelled`, or nothing if none are."""
    bad: tuple[State, ...] = ("failed", "cancelled")
    return ", ".join(f"{counts[state]:,} {state}" for state in bad if counts.get(state))


def _condition(part: Part, counts: dict[State, int], state: State) -> tuple[Text, Text]:
    if not part.is_map:
        return cell(state, STYLES[state]), cell("")
    running = sum(counts.get(each, 0) for each in RUNNING)
    news = [f"{running:,} running"] if running else []
    news += [count_failed(counts)] if count_failed(counts) else []
    style = STYLES[state] if state in FINISHED else ""
    return cell(count_done(counts), style), cell(
        ", ".join(news), "red" if count_failed(counts) else "yellow"
    )


def _draw_parts(flow: FlowInfo) -> tuple[list[Part], list[Text]]:
    """Return the parts in the order of the picture, and the lines in front of each.

    A part has a column of its own from its line down to the last one that runs after it. It takes
    over the column of one that ends with it, else the first that is free.
    """
    parts = {part.name: part for part in flow.parts}
    order = in_order({part.name: part.after for part in flow.parts})
    last = {each: row for row, name in enumerate(order) for each in parts[name].after}
    columns: list[str | None] = []
    drawings: list[Text] = []
    for row, name in enumerate(order):
        inputs = [at for at, lane in enumerate(columns) if lane in parts[name].after]
        ending = [at for at in inputs if last[columns[at] or ""] == row]
        free = [at for at, lane in enumerate(columns) if lane is None]
        own = ending[0] if ending else free[0] if free else len(columns)
        if own == len(columns):
            columns.append(None)
        state = state_of(flow.counts.get(name, {}))
        drawings.append(_line(columns, own, inputs, ending, state))
        for at in ending:
            columns[at] = None
        columns[own] = name if name in last else None
        while columns and columns[-1] is None:
            columns.pop()
    return [parts[name] for name in order], drawings


def _line(
    columns: Sequence[str | None], own: int, inputs: list[int], ending: list[int], state: State
) -> Text:
    left, right = min([own, *inputs]), max([own, *inputs])
    text = Text()
    for at, lane in enumerate(columns):
        across = left <= at < right
        if at == own:
            text.append(_SYMBOLS.get(state, "○"), STYLES[state])
        elif at in inputs:
            text.append(_joint(at < own, at in ending, left < at < right), "dim")
        elif lane is not None:
            text.append("┼" if left < at < right else "│", "dim")
        else:
            text.append("─" if left < at < right else " ", "dim")
        text.append("─" if across else " ", "dim")
    return text


def _joint(from_left: bool, ends: bool, passes: bool) -> str:
    """Return the sign where the line of an upstream part turns to the one that runs after it."""
    if passes:
        return "┴" if ends else "┼"
    if from_left:
        return "└" if ends else "├"
    return "┘" if ends else "┤"
