"""What workers ask of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stayer.core.model import (
    Change,
    Report,
    Task,
)
from stayer.core.worker_model import Beat, Handles, Worker
from stayer.store.base import Meanwhile, Waiter
from stayer.store.reads import ReadStore


class WorkerStore(ReadStore, Protocol):
    """What workers and listeners need: taking tasks, the one road of every change, the lease."""

    a_turn: int
    """How many tasks a `turn` should take at most: others wait for as long as that takes."""

    def reserve(
        self, worker: str, queues: Sequence[str], limit: int, handles: Handles
    ) -> list[Task]:
        """Give the worker up to `limit` tasks: `reserved`, held by it, `attempt` one higher.

        Queue by queue in the order given; within one, higher priority first, then older first (a
        returned task has kept its place). In a queue that is `fair`, among tasks of equal priority
        the share that has used least goes first (see `core.ordering.fair_share`). Leaves alone what
        is held, what `handles` does not name, what has not been started by its `start_before`,
        paused queues, and what would exceed a queue's limit, the limit of its key, or the queue's
        rate; a worker that drains, or is to, gets nothing. A key's place is taken from the
        reservation on until the task leaves the states `reserved` and `started`. Raises LeaseLost
        if the worker is not registered or was declared lost.
        """

    def commit(self, changes: Sequence[Change]) -> list[Task | None]:
        """Apply each change if the task's (state, worker, attempt, last_order) are those that it
        names; the answer is the task as it is after the call, or None where nothing was done. A
        change with `late` applies also to a `pending` task whose `returned_from` names
        (worker, attempt); one with `losses_before` only if the losses are these; one with
        `unique_is_free` only if no other task holds the task's unique word.

        What it does is its `effect`, all of it and nothing else, in one step: whoever reads sees
        all of a change or nothing. The rules are not the store's: see `core.effects`. Counters,
        indexes and who holds a unique word follow from the task's record before and after.

        The effect's `moment`, the Attempt's start and end, and what a fair queue counts, are `ago`
        seconds before now, but never before the attempt's start, or if that is not known its
        reservation, by the store's clock: clocks of nodes may be wrong. All else is as of now.

        A task with `dependents` that `ends` is noted in the outbox, in the same step, and passed on
        (see `promote`) before this returns, as far as that is quick. That may fail without harm:
        the note stays. Whoever wants to hear one of the `hook_words` by the task's `notify` or its
        queue's gets a Notice each, in the same step, with the task as the call leaves it. So with
        what `promote` and `reserve` end.
        """

    def turn(
        self,
        worker: str,
        changes: Sequence[Change],
        queues: Sequence[str],
        limit: int,
        handles: Handles,
        meanwhile: Meanwhile = None,
    ) -> tuple[list[bool], Sequence[Task]]:
        """Commit, then reserve, in one round trip: the hot loop of short tasks, so the answer says
        only which changes were applied. Raises LeaseLost as reserve does; nothing is applied then.

        `meanwhile` is called once, while somebody else is at work on it if it is somebody else who
        does it; not at all if it comes to nothing before. Tasks may be read when they are looked
        at.
        """
        if meanwhile is not None:
            meanwhile()
        answers = self.commit(changes) if changes else []
        tasks = self.reserve(worker, queues, limit, handles)
        return [answer is not None for answer in answers], tasks

    # The lease

    def beat(self, worker: Worker, number: int, nonce: str, reports: Sequence[Report]) -> Beat:
        """Renew the worker's lease and take its reports; brings open orders and suspects.

        The first beat of an identity has number 1 and registers it. Raises LeaseLost, changing
        nothing, if the worker was declared lost, if the number is not newer than the last one
        (unless the nonce is the same: a retry of an answer that got lost), or if a number above 1
        finds no such worker. A lease never ends earlier because of a beat.

        A report of an attempt that the worker no longer holds is dropped. Progress, statistics and
        checkpoints set the task's `losses` to 0. Statistics take the place of what the attempt had
        reported before, and their latest values are the task's `metrics`. Usage is the task's
        newest, and a point in the attempt's series (see `core.insight.usage_series`): it takes the
        place of an earlier one in its slot, and where a slot begins a wider grid, points off that
        grid go.

        A worker that `keeps` is never among the suspects. Raises LeaseLost, too, if the worker was
        ordered to stop, and has not done so in time (see `order_worker`).

        A store in several places, some of which are away, says whose reports it could not take, and
        where the lease is not renewed.
        """

    def report(self, worker: str, reports: Sequence[Report]) -> list[bool]:
        """Take news of what the worker holds between its beats: its lease stays as it is. The
        answer says of each whether the worker holds that attempt; if not, it was dropped.
        """

    def declare_lost(self, judge: str | None, silent: dict[str, int]) -> list[Task]:
        """Mark as dead the workers whose last number is still the one given; the answer is every
        task that any dead worker still holds, to be decided as lost. Forgets dead workers that
        hold nothing. Each that was not dead before is an event, `core.insight.totals.WORKER_LOST`,
        of no task and no queue, and is among the `lost_workers` from now on. Raises LeaseLost if
        the judge itself is not registered or dead. A judge that is no worker is None.
        """

    def holdings(self, worker: str, queues: Sequence[str] = ()) -> list[Task]:
        """List what the worker holds in these queues; none named: in all."""

    def drop_worker(
        self, worker: str, number: int | None = None, is_lost: bool = False
    ) -> list[Task]:
        """Declare one lost on somebody's word: only a stale one (else Refused), or, with its own
        last number, a worker that takes its leave (LeaseLost if it is not its last), or that a
        server has judged to be dead (`is_lost`). The answer is what it held, to be decided as lost.
        One that does not take its leave is an event, and is among the `lost_workers`, as in
        `declare_lost`. Raises UnknownWorker.
        """

    def waiter(self, worker: str | None, queues: Sequence[str]) -> Waiter:
        """Make a waiter for tasks that become available in these queues, and for orders to this
        worker.
        """
