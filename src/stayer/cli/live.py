"""`ls -w` and `top`: tables, drawn again whenever something changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from stayer.cli.keyboard import HINT, keys
from stayer.cli.output import plural, safe
from stayer.cli.silent_workers import find_silent, silent_workers
from stayer.cli.tables import console, draw, queues_table
from stayer.cli.task_tables import Loads, running_table, tasks_table
from stayer.core.errors import StoreUnreachable
from stayer.core.model import RUNNING, Filter
from stayer.core.queue_model import QueueInfo
from stayer.core.worker_model import Worker
from stayer.service.live_updates import Attention
from stayer.store import Store, known_workers

_REFRESH_S = 1.0
"""Progress makes no event, and ages grow: how often to look without one, in seconds."""
_LINES_AROUND = 3
"""Lines of the screen that are not tasks."""
_EVENTS_PER_READ = 1000
_MOST_TASKS = 1000
"""How many tasks are drawn where there is no screen to fill."""


def watch_tasks(store: Store, filter: Filter, limit: int) -> None:
    """Draw what `ls` lists until interrupted."""
    attention = Attention(store)

    def picture(height: int) -> RenderableType:
        room = max(1, height - _LINES_AROUND)
        return _tasks(store, filter, min(limit or room, room), attention)

    watch_picture(store, picture)


def watch_top(store: Store, names: Sequence[str]) -> None:
    """Draw what runs until interrupted."""
    loads, attention = Loads(), Attention(store)
    watch_picture(store, lambda height: _top(store, names, height, loads, attention))


def draw_top(store: Store, names: Sequence[str]) -> None:
    """Draw what runs, once."""
    draw(_top(store, names, _MOST_TASKS, Loads(), None))


def watch_picture(store: Store, picture: Callable[[int], RenderableType]) -> None:
    """Draw until interrupted, or until q is pressed; `picture` is given the height that it may
    have. While the store can't be reached, the last one stays, and says so.
    """
    screen = console()
    seen, drawn = store.last_event(), Group()
    answered, away = time.localtime(), Text("")
    with (
        keys() as keyboard,
        Live(console=screen, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        hints = [Text(HINT, "dim")] if keyboard.has_input else []
        while True:
            try:
                drawn = Group(picture(screen.height - 1), *hints)
                live.update(Group(away, drawn) if away else drawn, refresh=True)
                seen = _next_event(store, seen)
                answered, away = time.localtime(), Text("")
            except StoreUnreachable as error:
                # Above all, for what is below may be cut off.
                away = _describe_outage(answered, error)
                live.update(Group(away, drawn), refresh=True)
                time.sleep(_REFRESH_S)


def _next_event(store: Store, seen: int) -> int:
    """Wait for an event, or until it is time to look anyway; return the number of the newest."""
    events = store.watch(seen, _REFRESH_S, _EVENTS_PER_READ)
    # What happened while it was drawn is one picture, not many.
    while len(events) == _EVENTS_PER_READ:
        events = store.watch(events[-1].number, 0, _EVENTS_PER_READ)
    return events[-1].number if events else seen


def _describe_outage(answered: time.struct_time, error: StoreUnreachable) -> Text:
    since = time.strftime("%H:%M:%S", answered)
    return Text(
        f"No answer since {since}, trying again; this may be old. {safe(str(error))}", "red"
    )


def _tasks(store: Store, filter: Filter, limit: int, attention: Attention) -> Group:
    page = store.find(filter, None, limit)
    attention.pay(page.tasks)
    below = "no tasks" if not page.tasks else "… and more" if page.next else ""
    now = store.now()
    table = tasks_table(page.tasks, now, silent_workers(store, page.tasks, now))
    return Group(table, Text(below, "dim"))


def _top(
    store: Store, names: Sequence[str], height: int, loads: Loads, attention: Attention | None
) -> Group:
    """Draw running tasks, as many as there is room for; below, queues and a line on the workers."""
    now = store.now()
    queues = store.queues(names)
    shown = queues[: max(1, height // 3)]
    room = max(1, height - len(shown) - 2 * _LINES_AROUND)
    page = store.find(Filter(queues=tuple(names), states=RUNNING), None, room)
    if attention is not None:
        attention.pay(page.tasks)
    below = "nothing runs" if not page.tasks else "… and more" if page.next else ""
    more = f"… and {plural(len(queues) - len(shown), 'queue')} more" if queues[len(shown) :] else ""
    workers = known_workers(store)
    silent = find_silent(workers, now)
    parts: list[RenderableType] = []
    parts += [running_table(page.tasks, now, loads, silent)] if page.tasks else []
    parts += [Text(below, "dim")] if below else []
    parts += [Text(""), queues_table(shown, now)] if shown else []
    parts += [Text(more, "dim")] if more else []
    return Group(*parts, Text(""), Text(_summary(workers, queues, names), "bold"))


def _summary(workers: Sequence[Worker], queues: Sequence[QueueInfo], names: Sequence[str]) -> str:
    """Return `2 workers, 1 stale; 3 of 8 slots busy`."""
    wanted = {queue.name for queue in queues}
    those = [worker for worker in workers if not names or wanted.intersection(worker.queues)]
    stale = sum(worker.state == "STALE" for worker in those)
    able = [worker for worker in those if worker.state != "STALE"]
    busy, slots = sum(worker.running for worker in able), sum(worker.slots for worker in able)
    gone = f", {stale} stale" if stale else ""
    return f"{plural(len(those), 'worker')}{gone}; {busy} of {plural(slots, 'slot')} busy"
