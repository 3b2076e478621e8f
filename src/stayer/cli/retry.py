"""`retry`: run finished tasks again, perhaps with changes."""

from __future__ import annotations

from typing import Any

import rich_click as click

from stayer.cli.act_on_tasks import Manner, TaskVerb, act_on_tasks, acts_on_tasks
from stayer.cli.command import Given, command
from stayer.cli.common_options import from_start_option
from stayer.cli.edits import (
    CommandWithWords,
    edit_options,
    edits_from,
    hint_at_arguments,
    task_before,
)
from stayer.cli.selection import FILTER_NAMES, Selection
from stayer.core.model import Task
from stayer.service.operator import operator_of
from stayer.store import Store


@command(cls=CommandWithWords)
@from_start_option
@click.option("--now", is_flag=True, help="Also if it was cancelled before its eta.")
@click.option(
    "--code",
    type=click.Choice(("pinned", "latest")),
    default="pinned",
    help="Run the code that it ran before (the default), or resolve anew what it asks for.",
)
@acts_on_tasks
@edit_options(leave_out=FILTER_NAMES)
def retry(
    given: Given,
    selection: Selection,
    manner: Manner,
    from_start: bool,
    now: bool,
    code: str,
    words: tuple[str, ...],
    cleared: tuple[str, ...],
    **options: Any,
) -> int:
    """Run finished tasks again, perhaps with changes.

    Name tasks, or give a filter: then it retries all failed and cancelled tasks that match, unless
    --state says otherwise. Counters start at zero. Each task goes on from its last checkpoint, and
    keeps the results of the steps that it finished; with --from-start both are deleted. A task that
    was cancelled before its eta waits for that again, unless --now is given. It runs the same code
    as before, unless --code latest is given.

    `stayer retry ID --memory-limit 32G` and `stayer retry ID -- python train.py --lr 0.05` change
    the task, and its history says so. To keep what it was, and its result, use `stayer clone`.
    """
    edits = edits_from(given, words, options, cleared)

    def act(store: Store, id: str) -> Task:
        before = task_before(store, id, edits) if selection.ids else None
        task = operator_of(store).retry(
            id, from_start=from_start, now=now, latest_code=code == "latest", edits=edits
        )
        hint_at_arguments(before, edits)
        return task

    verb = TaskVerb(
        name="retry",
        act=act,
        describe=lambda task: f"{task.state} held" if task.held else task.state,
        states=("failed", "cancelled"),
        together=bool(edits),
    )
    return act_on_tasks(given, verb, selection, manner)
