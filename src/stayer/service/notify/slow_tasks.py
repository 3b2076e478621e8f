"""Finding tasks that are late, or report nothing, for hooks that want to hear of it.

Whoever delivers looks, and writes the same notice, of which the store keeps one. Many workers share
the looking: the more there are, the more seldom each one looks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from stayer.core.insight.forecast import late_after
from stayer.core.model import Task
from stayer.core.notify.hooks import Rules
from stayer.core.notify.notices import KEPT, LATE, Notice
from stayer.core.notify.slow import NEAR_LIMIT, Wish, slow_notice, wishes, wishes_of_rules
from stayer.core.units import format_duration
from stayer.service.late import durations_by_kind, running_tasks, time_run
from stayer.store import Store

_PAUSE_S, _SHORTEST_PAUSE_S = 20.0, 1.0
"""Between two looks of a server; what is known to be due sooner is not waited for so long."""
_WORKERS_A_LOOK = 3
"""So many workers look as often as one server does."""


class SlowTasks:
    """Looks at what runs again and again."""

    what = "late tasks"

    def __init__(self, store: Store, rules: Callable[[], Rules], *, is_server: bool) -> None:
        self._store = store
        self._rules = rules
        self._is_server = is_server
        self._known: set[str] = set()
        """The ids of notices that are written."""
        self._paused_at: dict[str, float] = {}
        self._usual: dict[str, dict[str, list[float]]] = {}
        self._next_due = 0.0
        self._chance = random.Random()
        self.pause = _SHORTEST_PAUSE_S
        """After how many seconds to look again."""

    def look(self, moment: float) -> None:
        """Look once; write what is to be told."""
        store = self._store
        now, always = store.now(), wishes_of_rules(self._rules())
        by_queue = {queue.name: list(wishes(queue.notify)) for queue in store.queues()}
        self._usual, self._next_due = {}, now + _PAUSE_S
        found: list[Notice] = []
        running = running_tasks(store)
        for task in running:
            if task.paused:
                self._paused_at[task.id] = now
                continue
            for wish in dict.fromkeys(
                (*wishes(task.notify), *by_queue.get(task.queue, ()), *always)
            ):
                if (notice := self._judge(task, wish, now)) is not None:
                    found.append(notice)
        fresh = [notice for notice in found if notice.id not in self._known]
        if fresh:
            store.add_notices(fresh)
        self._known = {notice.id for notice in found}
        alive = {task.id for task in running}
        self._paused_at = {id: at for id, at in self._paused_at.items() if id in alive}
        self.pause = self._choose_pause(now)

    def _choose_pause(self, now: float) -> float:
        pause = max(_SHORTEST_PAUSE_S, self._next_due - now)
        if not self._is_server:
            pause *= max(1.0, len(self._store.workers()) / _WORKERS_A_LOOK)
        return pause * self._chance.uniform(0.7, 1.3)

    def _judge(self, task: Task, wish: Wish, now: float) -> Notice | None:
        judge = self._judge_late if wish.event == LATE else self._judge_progress
        return judge(task, wish, now)

    def _is_due(self, due: float, now: float) -> bool:
        """Return whether it is time; what is long past was told, and that is forgotten by now."""
        if due > now:
            self._next_due = min(self._next_due, due)
        return due <= now < due + KEPT

    def _judge_late(self, task: Task, wish: Wish, now: float) -> Notice | None:
        started = task.started_at
        if started is None:
            return None
        ran = time_run(task, now)
        for after, rest in self._limits(task, wish):
            if self._is_due(now - ran + after, now):
                because = f"it has run for {format_duration(ran)}, {rest}"
                return slow_notice(task, wish, started, because, now)
        return None

    def _limits(self, task: Task, wish: Wish) -> Sequence[tuple[float, str]]:
        """List after how many seconds of running it is late, and why then."""
        if wish.after is not None:
            return [(wish.after, f"and should have ended within {format_duration(wish.after)}")]
        found: list[tuple[float, str]] = []
        if task.queue not in self._usual:
            self._usual[task.queue] = durations_by_kind(self._store, task.queue)
        usual = self._usual[task.queue].get(task.kind, ())
        if (after := late_after(usual)) is not None:
            longest = format_duration(max(usual))
            found.append((after, f"the longest of its kind took {longest} lately"))
        if (limit := task.policy.time_limit) is not None:
            shown = format_duration(limit)
            found.append((limit * NEAR_LIMIT, f"and is stopped after {shown} (its time limit)"))
        return found

    def _judge_progress(self, task: Task, wish: Wish, now: float) -> Notice | None:
        if task.started_at is None or wish.after is None:
            return None
        since = self._last_report(task, task.started_at)
        counts_from = max(since, self._paused_at.get(task.id, since))
        if counts_from + wish.after <= now and task.metrics:  # they have no time in the record
            known = self._store.statistics(task.id, task.attempt)
            if known is not None and known.at is not None:
                since = max(since, known.at)
                counts_from = max(counts_from, since)
        if not self._is_due(counts_from + wish.after, now):
            return None
        because = f"it has reported nothing for {format_duration(now - since)}"
        return slow_notice(task, wish, since, because, now)

    def _last_report(self, task: Task, started: float) -> float:
        progress = None if task.progress is None else task.progress.at
        return max(at for at in (started, progress, task.checkpoint_at) if at is not None)
