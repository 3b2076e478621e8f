"""`cancel`, `retry`, `hold`, `release`: verbs on one or many tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

import rich_click as click

from stayer.cli.command import Decorated, Given, command
from stayer.cli.output import many, note, print_json_array, print_lines, say
from stayer.cli.param_types import DURATION
from stayer.cli.progress import progress
from stayer.cli.selection import (
    Asked,
    Tries,
    choose,
    confirm,
    filter_options,
    ids_argument,
)
from stayer.cli.silent_workers import silent_among
from stayer.core import codec
from stayer.core.errors import Refused, StoreUnreachable, UnknownTask
from stayer.core.model import QUEUED, RUNNING, State, Task, Worker
from stayer.service.control import flows as flow_control
from stayer.service.control import tasks as control
from stayer.service.operator import operator_of
from stayer.store import Store, known_workers


class Steering(NamedTuple):
    """A verb on tasks: what it does, whom a filter without --state means, what it says."""

    verb: str
    act: Callable[[Store, str], Task]
    states: tuple[State, ...]
    told: Callable[[Task], str]
    held: bool | None = None


from_start_option = click.option(
    "--from-start/--from-checkpoint",
    default=False,
    help="Forget the checkpoint, the results of finished steps and the progress, or go on from "
    "there (the default).",
)


def steering(function: Decorated) -> Decorated:
    """What the verbs on one or many tasks have in common."""
    options = (
        click.option("--json", "as_json", is_flag=True, help="Print the records, as JSON."),
        click.option("-y", "--yes", is_flag=True, help="Don't ask before acting on a filter."),
        click.option("--dry-run", is_flag=True, help="Only print the ids of the tasks meant."),
        filter_options,
        ids_argument(),
    )
    for decorate in options:
        function = decorate(function)
    return function


@command()
@click.option(
    "--grace",
    type=DURATION,
    metavar="DURATION",
    help="How long a running task may take to stop before it is killed, such as 30s.",
)
@steering
def cancel(
    given: Given,
    ids: tuple[str, ...],
    asked: Asked,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    grace: float | None,
) -> int:
    """Cancel tasks; running ones are asked to stop, then killed.

    Name them, or give a filter: then all unfinished tasks that match are meant, unless --state
    says otherwise. `stayer wait` tells when a running one is gone. Tasks that were to run after a
    cancelled one are cancelled with it, unless they were submitted with --when-failed.
    """
    forsaken = _Forsaken(given.store())
    code = _steer(
        given,
        Steering(
            verb="cancel",
            act=lambda store, id: forsaken.by(operator_of(store).cancel(id, grace)),
            states=(*QUEUED, *RUNNING),
            told=_Stopped(given.store()).told,
        ),
        ids,
        asked,
        yes,
        dry_run,
        as_json,
    )
    forsaken.tell()
    return code


class _Forsaken:
    """Counts those that are cancelled with others, which they were to run after."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cancelled: set[str] = set()
        self._before: int | None = None
        with suppress(StoreUnreachable):  # of a part, perhaps: what is asked for may be elsewhere
            if any(queue.counts.get("waiting") for queue in store.queues()):
                self._before = store.last_event()

    def by(self, task: Task) -> Task:
        """This one may have been cancelled."""
        if self._before is not None and task.state == "cancelled":
            self._cancelled.add(task.id)
        return task

    def tell(self) -> None:
        """How many they are, if any."""
        if self._before is None or not self._cancelled:
            return
        with suppress(StoreUnreachable):
            number = flow_control.forsaken_since(self._store, self._before, self._cancelled)
            if number:
                were = "was" if number == 1 else "were"
                note(f"{many(number)} that {were} to run after these {were} cancelled too")


class _Stopped:
    """Says what becomes of a task that is cancelled."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def told(self, task: Task) -> str:
        if task.state == "cancelled":
            return "cancelled"
        worker = self._silent.get(task.worker or "")
        if worker is None:
            return "asked to stop"
        then = (
            f"dropped (`stayer workers drop {worker.id}`)" if worker.keeps else "given up as dead"
        )
        return (
            f"asked to stop, but the worker on {worker.node} is silent: this happens when that is "
            f"heard of again, or {then}"
        )

    @cached_property
    def _silent(self) -> dict[str, Worker]:
        workers = {worker.id: worker for worker in known_workers(self._store)}
        return {id: workers[id] for id in silent_among(list(workers.values()), self._store.now())}


@command()
@from_start_option
@click.option("--now", is_flag=True, help="Also if it was cancelled before its eta.")
@steering
def retry(
    given: Given,
    ids: tuple[str, ...],
    asked: Asked,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    from_start: bool,
    now: bool,
) -> int:
    """Run finished tasks again.

    Name them, or give a filter: then all failed and cancelled tasks that match are meant, unless
    --state says otherwise. Counters start at zero. Each goes on from its last checkpoint, and has
    the results of the steps that it finished; with --from-start both are forgotten, for good. One
    that was cancelled before its eta waits for that again, unless --now is given.
    """
    return _steer(
        given,
        Steering(
            verb="retry",
            act=lambda store, id: operator_of(store).retry(id, from_start=from_start, now=now),
            states=("failed", "cancelled"),
            told=lambda task: f"{task.state} held" if task.held else task.state,
        ),
        ids,
        asked,
        yes,
        dry_run,
        as_json,
    )


@command()
@steering
def hold(
    given: Given, ids: tuple[str, ...], asked: Asked, yes: bool, dry_run: bool, as_json: bool
) -> int:
    """Keep tasks from being taken until they are released.

    Name them, or give a filter: then all waiting, scheduled and pending tasks that match are
    meant, unless --state says otherwise. What runs, runs on.
    """
    return _steer(
        given,
        Steering(
            "hold",
            lambda store, id: operator_of(store).hold(id),
            QUEUED,
            lambda task: (
                "runs on, and is held if it comes back" if task.state in RUNNING else "held"
            ),
            held=False,
        ),
        ids,
        asked,
        yes,
        dry_run,
        as_json,
    )


@command()
@steering
def release(
    given: Given, ids: tuple[str, ...], asked: Asked, yes: bool, dry_run: bool, as_json: bool
) -> int:
    """Let held tasks be taken again.

    Name them, or give a filter: then all held tasks that match are meant.
    """
    free: set[str] = set()

    def act(store: Store, id: str) -> Task:
        if not control.get(store, id).held:
            free.add(id)
        return operator_of(store).release(id)

    return _steer(
        given,
        Steering(
            "release",
            act,
            (),
            lambda task: "was not held" if task.id in free else "released",
            held=True,
        ),
        ids,
        asked,
        yes,
        dry_run,
        as_json,
    )


def _steer(
    given: Given,
    steering: Steering,
    ids: Sequence[str],
    asked: Asked,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    store, tries = given.store(), Tries()
    chosen = choose(store, ids, asked, tries, states=steering.states, held=steering.held)
    if dry_run:
        print_lines(chosen)
        note(f"to {steering.verb}: {many(len(chosen))}; nothing was done")
        return tries.worst
    if not ids and not chosen:
        note(f"no task to {steering.verb} matches")
    elif not ids and not confirm(f"{steering.verb.capitalize()} {many(len(chosen))}?", yes):
        return 1
    done = _act(store, steering, chosen, tries, forgiving=not ids)
    if as_json:
        print_json_array(codec.record(task) for task in done)
    elif ids:
        for task in done:
            say(f"{task.id} {steering.told(task)}")
    else:
        _print_summary(done, steering, len(chosen))
    return tries.worst


def _print_summary(tasks: Iterator[Task], steering: Steering, total: int) -> None:
    counts: Counter[str] = Counter()
    with progress(total, wanted=total > control.BATCH) as advance:
        for task in tasks:
            counts[steering.told(task)] += 1
            advance(counts.total(), many(counts.total()))
    for told, number in counts.items():
        say(f"{many(number)} {told}")


def _act(
    store: Store, steering: Steering, ids: Sequence[str], tries: Tries, *, forgiving: bool
) -> Iterator[Task]:
    """Each task as the verb left it. `forgiving`: one that is past it meanwhile is no failure."""
    for id in ids:
        with tries.each():
            try:
                yield steering.act(store, id)
            except (Refused, UnknownTask):
                if not forgiving:
                    raise
