"""`edit`: change what tasks that wait are to do."""

from __future__ import annotations

from typing import Any

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.edits import (
    CommandWithWords,
    edit_options,
    edits_from,
    hint_at_arguments,
    task_before,
)
from stayer.cli.output import print_json_array, print_line
from stayer.cli.selection import ids_argument, resolve
from stayer.cli.tries import Tries
from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.service.operator import operator_of


@command(cls=CommandWithWords)
@ids_argument(required=True)
@edit_options()
@click.option("--json", "as_json", is_flag=True, help="Print the records, as JSON.")
def edit(
    given: Given,
    ids: tuple[str, ...],
    words: tuple[str, ...],
    cleared: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> int:
    """Change tasks that wait: what they run, parameters, times, limits.

    `stayer edit ID -p lr=0.05 --time-limit 4h` changes one parameter and a limit, `stayer edit ID
    -- python train.py --lr 0.05` the command. What is not named stays. A task that runs can't be
    edited: `stayer set` changes its limits, `stayer clone` submits it again with changes. `stayer
    show` has what was changed in its history.
    """
    edits = edits_from(given, words, options, cleared)
    if not edits:
        raise BadInput("say what to change, such as -p NAME=VALUE, --priority N or -- COMMAND")
    store, tries, changed = given.store(), Tries(), []
    for id in resolve(store, ids, tries, to_change=True):
        with tries.each():
            before = task_before(store, id, edits)
            changed.append(operator_of(store).edit(id, edits))
            hint_at_arguments(before, edits)
    if as_json:
        print_json_array(map(codec.record, changed))
    else:
        for task in changed:
            print_line(f"{task.id} edited")
    return tries.worst
