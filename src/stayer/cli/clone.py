"""`clone`: submit a task again, with changes."""

from __future__ import annotations

from typing import Any

import rich_click as click
from msgspec.structs import replace

from stayer.cli.command import Given, argument, command
from stayer.cli.edits import (
    CommandWithWords,
    edit_options,
    edits_from,
    hint_at_arguments,
    task_before,
)
from stayer.cli.output import print_json, print_line
from stayer.cli.param_types import complete_task
from stayer.core import codec
from stayer.core.fields import SUBMISSION
from stayer.service.control import tasks as control
from stayer.service.operator import operator_of


@command(cls=CommandWithWords)
@argument(
    "source",
    metavar="ID",
    shell_complete=complete_task,
    help="The task to copy: its id, or the beginning of it.",
)
@edit_options(
    may_change=tuple(SUBMISSION), leave_out=("cloned_from", "submitted_by", "source_commit")
)
@click.option("--json", "as_json", is_flag=True, help="Print the record, as JSON.")
def clone(
    given: Given,
    source: str,
    words: tuple[str, ...],
    cleared: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Submit a task again, with changes, and print the new id.

    `stayer clone ID -- python train.py --lr 0.05` runs another command in the same way. `stayer
    clone ID -p lr=0.05` changes a parameter: of a function, or of a run of a sweep, whose command
    follows. The clone has an id of its own, and
    starts from nothing: results, attempts, logs, checkpoints and times are not copied, nor is its
    place in a flow. Queue, limits, retries, tags, hooks and what it runs after are, unless you say
    otherwise. Any task can be cloned, whether it waits, runs or has ended.
    """
    store = given.store()
    id = control.resolve(store, source, to_change=True)
    edits = edits_from(given, words, options, cleared)
    config = given.config()
    if config.submitter:
        edits = replace(edits, fields={**edits.fields, "submitted_by": config.submitter})
    before = task_before(store, id, edits)
    answer = operator_of(store).clone(id, edits, owner=config.owner)
    hint_at_arguments(before, edits)
    if as_json:
        print_json({**codec.record(answer.task), "fresh": answer.fresh})
    else:
        print_line(answer.task.id)
