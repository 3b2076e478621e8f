"""`ls -w`: the table, drawn again whenever something changes."""

from __future__ import annotations

from rich.console import Group
from rich.live import Live
from rich.text import Text

from stayer.cli.tables import console, tasks_table
from stayer.core.model import Filter
from stayer.store import Store

_PAUSE = 1.0
"""Progress makes no event, and ages grow: how often to look without one, in seconds."""
_AROUND = 3
"""Lines of the screen that are not tasks."""
_EVENTS = 1000


def watch_tasks(store: Store, filter: Filter, limit: int) -> None:
    """Draw until interrupted."""
    screen = console()
    seen = store.last_event()
    with Live(console=screen, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            room = max(1, screen.height - _AROUND)
            live.update(_drawn(store, filter, min(limit or room, room)), refresh=True)
            events = store.watch(seen, _PAUSE, _EVENTS)
            # What happened while it was drawn is one picture, not many.
            while len(events) == _EVENTS:
                events = store.watch(events[-1].number, 0, _EVENTS)
            seen = events[-1].number if events else seen


def _drawn(store: Store, filter: Filter, limit: int) -> Group:
    page = store.find(filter, None, limit)
    below = "no tasks" if not page.tasks else "… and more" if page.next else ""
    return Group(tasks_table(page.tasks, store.now()), Text(below, "dim"))
