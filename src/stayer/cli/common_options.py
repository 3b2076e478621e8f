"""Options and arguments that several verbs have, word for word."""

from __future__ import annotations

from collections.abc import Callable

import rich_click as click

from stayer.cli.command import Decorated, argument
from stayer.cli.param_types import DURATION, complete_task

task_id_argument = argument(
    "id", metavar="ID", shell_complete=complete_task, help="Its id, or the beginning of it."
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print what was done, as JSON.")


def limit_option(default: int) -> Callable[[Decorated], Decorated]:
    """Add how many a list has at most."""
    return click.option(
        "-n",
        "--limit",
        type=click.IntRange(min=0),
        default=default,
        metavar="N",
        help=f"How many at most; 0 for all. Default: {default}.",
    )


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
