"""Bringing what happened on this node into the store, many attempts at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from msgspec.structs import replace

from stayer.core import codec
from stayer.core.attempt_summary import account, describe_task
from stayer.core.errors import BadInput, TooLarge
from stayer.core.happenings import Done, Fail, Happening, Interrupt, Note, Start, WorkerLost
from stayer.core.lifecycle import decide, with_checkpoint
from stayer.core.model import RUNNING, Change, Fault, Task
from stayer.service import tracing
from stayer.service.lease.repeated_ends import is_committed
from stayer.store import Store
from stayer.worker import safe_files
from stayer.worker.attempt import HeldAttempt
from stayer.worker.durations import idle_seconds, seconds_since_end, started_ago, total_seconds
from stayer.worker.outcome import outcome
from stayer.worker.run_directory import Run

logger = logging.getLogger("stayer.worker")

_CLOCK_TOLERANCE_S = 1.0
"""How far a clock may be set back without being corrected for."""


def settle_starts(store: Store, fresh: Sequence[tuple[HeldAttempt, int]]) -> bool:
    """Say which processes have come to run; False if the store sees one of them otherwise."""
    changes = [decide(held.task, Start(pid), started_ago(held)) for held, pid in fresh]
    agreed = True
    for (held, pid), task in zip(fresh, store.commit(changes), strict=True):
        if task is None:
            agreed = False
            refresh(store, held)
        else:
            held.task = task
            logger.info("%s started, pid %d", describe_task(task), pid)
    return agreed


def settle_outcomes(store: Store, ended: Sequence[HeldAttempt]) -> list[HeldAttempt]:
    """Say how attempts ended; those about which nothing is left to say."""
    batch = [(held, _outcome(held)) for held in ended]
    changes: list[Change] = []
    position: dict[tuple[str, int], int] = {}
    for held, happening in batch:
        # Of what was adopted while the store was away only a result can be told unseen: what
        # becomes of a failure depends on its policy and orders.
        if held.task.state in RUNNING and (held.known or isinstance(happening, Done)):
            changes += _steps(store, held, happening)
            position[held.key] = len(changes) - 1
    answers = store.commit(changes) if changes else []
    for held, _ in batch:
        if held.key in position and answers[position[held.key]] is not None:
            _log_outcome(held, changes[position[held.key]])
    return [
        held
        for held, happening in batch
        if (held.key in position and answers[position[held.key]] is not None)
        or _settle_again(store, held, happening)
    ]


def refresh(store: Store, held: HeldAttempt) -> bool:
    """Take up what the store knows of the attempt; False if it is no longer this one's."""
    current = store.get([held.task.id])[0]
    if current is None or not _same(current, held.task) or current.state not in RUNNING:
        return False
    held.task = current
    held.known = True
    return True


def commit_notes(store: Store, held: HeldAttempt) -> None:
    """Bring what is worth remembering into the task's history, once, and fields that it has set
    into its record.
    """
    while held.unsent_notes:
        while (task := _commit_note(store, held)) is None and refresh(store, held):
            pass  # somebody was faster
        if task is not None:
            held.task = task
        held.unsent_notes.popleft()


def _commit_note(store: Store, held: HeldAttempt) -> Task | None:
    try:
        change = decide(held.task, held.unsent_notes[0])
    except BadInput as error:  # with what somebody else has set there is too much of it
        change = decide(held.task, Note("meta not kept", str(error)))
    return store.commit([change])[0]


def _steps(store: Store, held: HeldAttempt, happening: Happening) -> list[Change]:
    """Return the changes to commit: a process may have come and gone before its start could be
    committed.
    """
    task, running = held.task, held.run.process_status or {}
    if "paused" in (
        orders := held.run.keeper_orders
    ):  # what ends stands still no more, and has said so
        task = replace(task, paused=bool(orders["paused"]))
    # What kills its keeper at once must not escape being counted for it.
    never_ran = isinstance(happening, WorkerLost) and not running and not held.run.has_begun
    ago = seconds_since_end(held.run) - _set_back(store, held)
    never_ran = never_ran or held.is_preparing()
    if task.state == "started" or isinstance(happening, Interrupt) or never_ran:
        return [_with_checkpoint(held, decide(task, happening, ago))]
    start = decide(task, Start(running.get("pid")), started_ago(held))
    end = decide(replace(task, state="started"), happening, ago)
    took = total_seconds(held.run)
    if took is not None:  # told together, they would be of the same moment
        start = replace(start, ago=end.ago + max(0.0, took))
    return [start, _with_checkpoint(held, end)]


def _set_back(store: Store, held: HeldAttempt) -> float:
    """Return how far behind the store's clock is of when the attempt must have ended, by when it
    began and how long it took: with SQLite that is the clock of this machine, which somebody may
    set back.
    """
    began, took = held.task.started_at, total_seconds(held.run)
    if began is None or took is None or time.time() > began + took - _CLOCK_TOLERANCE_S:
        return 0.0
    behind = began + took + seconds_since_end(held.run) - store.now()
    return behind if behind > _CLOCK_TOLERANCE_S else 0.0


def _with_checkpoint(held: HeldAttempt, end: Change) -> Change:
    """Add the checkpoint that no beat could bring: the beats of a lost worker are
    refused, and a retry by hand goes on from what is saved.
    """
    if not end.late or (saved := held.unsent_checkpoint()) is None:
        return end
    return with_checkpoint(end, saved)


def _outcome(held: HeldAttempt) -> Happening:
    try:
        return _read_outcome(held)
    except Exception as error:  # whatever a task left there must not keep the others from ending
        logger.exception("the outcome of task %s can't be read", held.task.id)
        return Fail(Fault("Unreadable", f"what it left can't be read: {type(error).__name__}"))


def _read_outcome(held: HeldAttempt) -> Happening:
    run = held.run
    exit = run.exit or {"keeper_died": None}
    happening = outcome(
        exit,
        run.error(),
        run.log_tail(),
        own=held.is_own,
        loads=held.loads_code,
        unprepared=held.task.attempt if held.is_preparing() else None,
    )
    return _read_result(run) if isinstance(happening, Done) else happening


def _read_result(run: Run) -> Happening:
    try:
        if run.has_refused_result():
            raise TooLarge("the result was too large")
        result = run.result()
        codec.pack(result, "the result", codec.RESULT_LIMIT)
    except safe_files.NotPlainFile:
        return Fail(Fault("Unreadable", "what it left as its result is no plain file"))
    except safe_files.TooLong as error:
        return _too_large(run, f"the result is too large: {error.strerror}")
    except TooLarge as error:
        return _too_large(run, str(error))
    return Done(result)


def _too_large(run: Run, why: str) -> Fail:
    return Fail(Fault("ResultTooLarge", f"{why}. It is kept on its node: {run.keep_result()}"))


def _settle_again(store: Store, held: HeldAttempt, happening: Happening) -> bool:
    """Try again: an order came in between, or it was committed before, or it is no longer ours.
    True: nothing is left to do.
    """
    if not refresh(store, held):
        end = _steps(store, held, happening)[-1] if held.task.state in RUNNING else None
        if end is not None and is_committed(store, end):
            _log_outcome(held, end)
        else:
            logger.warning("the outcome of task %s is refused: it is not ours", held.task.id)
        return True
    steps = _steps(store, held, happening)
    if store.commit(steps)[-1] is None:
        return False
    _log_outcome(held, steps[-1])
    return True


def _log_outcome(held: HeldAttempt, change: Change) -> None:
    """Whoever traces tasks, and whoever reads the log."""
    tracing.attempt(held.task, change)
    level = logging.WARNING if change.to == "failed" else logging.INFO
    took, still = total_seconds(held.run), idle_seconds(held.run)
    logger.log(level, "%s", account(held.task, change, took, still))


def _same(one: Task, other: Task) -> bool:
    return (one.worker, one.attempt) == (other.worker, other.attempt)
