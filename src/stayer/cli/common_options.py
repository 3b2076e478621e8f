"""Options and arguments that several verbs have, word for word."""

from __future__ import annotations

import rich_click as click

from stayer.cli.command import argument
from stayer.cli.param_types import DURATION, complete_task

task_id_argument = argument(
    "id", metavar="ID", shell_complete=complete_task, help="Its id, or the beginning of it."
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print what was done, as JSON.")

grace_option = click.option(
    "--grace",
    type=DURATION,
    metavar="DURATION",
    help="How long a running task may take to stop before it is killed, such as 30s.",
)

from_start_option = click.option(
    "--from-start/--from-checkpoint",
    default=False,
    help="Delete the checkpoint, the results of finished steps and the progress, or go on from "
    "there (the default).",
)

timeout_option = click.option(
    "--timeout", type=DURATION, metavar="DURATION", help="Give up after 10m, 1h … (exit code 124)."
)
