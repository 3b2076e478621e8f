"""What upkeep and the delivery of notices ask of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from stayer.core.notify.notices import Delivery, Notice
from stayer.core.queue_model import Kept
from stayer.core.schedules.model import Firing, Schedule
from stayer.store.base import StoreBase


class UpkeepStore(StoreBase, Protocol):
    """What time brings, done by whoever is there: every worker and every server."""

    def promote(self, limit: int) -> float | None:
        """Make up to `limit` due tasks `pending`, and end up to `limit` that have not been started
        by their `start_before` (as `decide(task, Expire())` says). The answer is when time brings
        the next thing: a task that is due, one that expires, a schedule to be looked at, the next
        start that a queue's rate allows while tasks wait for it; None if nothing will come.

        Passes on what is in the outbox to up to about `limit` of those that wait for it: an ended
        task is taken from the set of what a dependent waits for, and
        `core.flows.model.decide_waiting` says what becomes of the dependent. A note leaves the
        outbox when all dependents have heard of it, or when its task is not ended any more; one
        that was deleted before its end counts as `cancelled`. Passing on twice, or being killed in
        the midst of it, does no harm.

        The answer may lie in the past: then there are more, call again; or `due_schedules` has
        some.
        """

    def due_schedules(self, limit: int) -> list[Schedule]:
        """List up to `limit` that are to be looked at by now, the longest due first; no paused
        ones.
        """

    def fire(self, firing: Firing) -> bool:
        """Fire a schedule in one step, if the schedule's `updated` and `last` are those that the
        firing names: submit the tasks (an id that is there is not accepted again), and set `last`,
        `next` and `last_task`, to the last of them that another does not keep out by holding its
        unique word; if there is none, it stays. `waiting` is the firing's. Whether that was done.
        """

    def sample(self) -> float:
        """Write down the figures of the minutes that are over and that nobody has counted yet: by
        the minute, the hour and the day (`core.insight.queue_stats.KEPT`). Of several who do this
        at once, one counts. What was submitted and what ended is counted in arrears, from indexes,
        so nothing that runs pays for it; of very many it may be reckoned from a part. An end counts
        in the minute in which the store heard of it. The answer is in how many seconds there is
        more to do.
        """

    def forget(self, retention: Mapping[Kept, float], limit: int) -> int:
        """Forget what has been kept for long enough by its queue's retention, or by the one given
        for what the queue does not say: whole tasks as `purge` does, logs, results. About `limit`
        at a time; the answer is how many were seen to: 0 if nothing is left to be forgotten.

        The newest task of a schedule is kept, however old.
        """


class DeliveryStore(StoreBase, Protocol):
    """What whoever delivers notices needs."""

    def take_notices(
        self, hooks: Sequence[str], limit: int, lease: float, age: float
    ) -> list[Notice]:
        """Take up to `limit` pending notices whose time has come, the longest due first, to hooks
        of these names ('' stands for all that go to a URL): one more of their `tries`, and nobody
        else is given them before `lease` seconds are over.

        Also lets fail those of other hooks that have been due for longer than `age`, and forgets
        what has been delivered, or has failed, `core.notify.notices.KEPT` after it was made; some
        of each at a time. Cheap if there is nothing to do.
        """

    def add_notices(self, found: Sequence[Notice]) -> None:
        """Keep notices that no change of a task brings, such as that of a lost worker: each unless
        there is one of its id, so that several may find the same. Each names a queue that is there.
        """

    def settle_notice(self, notice: Notice, delivery: Delivery) -> bool:
        """Note what came of a try; whether it was still this one's to tell: nothing is done unless
        the notice is pending and has just as many `tries`, and, if it was not delivered, as many
        `forgiven`: whoever had it retried meanwhile was promised another try. What is put back has
        one more of its `tries` forgiven.
        """
