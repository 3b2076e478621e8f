"""`worker`: take tasks and run them."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.values import DURATION, SIZE
from stayer.core.errors import BadInput

HANDLER, LIMITS = "What to run", "Limits"


@command()
@click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    metavar="QUEUE",
    help="Take tasks from this queue. May be repeated; the first ones come first.",
)
@click.option("--evenly", is_flag=True, help="Give all queues their turn.")
@click.option("--slots", type=click.IntRange(1), default=1, help="How many tasks at once.")
@click.option(
    "--lease",
    type=DURATION,
    metavar="DURATION",
    help="How long the store waits for this worker when it falls silent (120s).",
)
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where it keeps what it runs; one worker at a time.",
)
@click.option("--node", metavar="NAME", help="The name of this machine (its host name).")
@click.option(
    "--exec",
    "exec_",
    metavar="CMD",
    panel=HANDLER,
    help="Run this command: parameters on its standard input, the id as last argument.",
)
@click.option(
    "--run",
    metavar="FILE[:CLASS]",
    panel=HANDLER,
    help="Run this Python class: run() gives the result.",
)
@click.option(
    "--app",
    metavar="MODULE[:APP]",
    panel=HANDLER,
    help="Run the functions of this stayer.App, by name.",
)
@click.option(
    "--allow-commands", is_flag=True, panel=HANDLER, help="Run whatever commands tasks bring along."
)
@click.option(
    "--allow-command",
    multiple=True,
    metavar="PATTERN",
    panel=HANDLER,
    help="Run commands whose program matches, such as 'ffmpeg' or '/opt/tools/*'.",
)
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Set this for the tasks.")
@click.option(
    "--grace",
    type=DURATION,
    default=30.0,
    metavar="DURATION",
    panel=LIMITS,
    help="Between asking a task to end and killing it (30s).",
)
@click.option(
    "--kill-interval",
    type=DURATION,
    default=10.0,
    metavar="DURATION",
    panel=LIMITS,
    help="How often it is asked in that time (10s).",
)
@click.option(
    "--time-limit",
    type=DURATION,
    metavar="DURATION",
    panel=LIMITS,
    help="End tasks that run longer.",
)
@click.option(
    "--silence-limit",
    type=DURATION,
    metavar="DURATION",
    panel=LIMITS,
    help="End tasks that neither report nor print anything for so long.",
)
@click.option(
    "--memory-limit",
    type=SIZE,
    metavar="SIZE",
    panel=LIMITS,
    help="End tasks whose processes use more together.",
)
@click.option(
    "--fence",
    type=click.Choice(["freeze", "kill", "keep"]),
    default="freeze",
    panel=LIMITS,
    help="What happens to tasks when the lease is over and the store is out of reach.",
)
@click.option(
    "--log",
    "log_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the worker's own log there instead of standard error.",
)
@click.option(
    "--take-over",
    is_flag=True,
    help="Take the place of the worker that has the state directory; its tasks run on.",
)
def worker(
    given: Given,
    queues: tuple[str, ...],
    evenly: bool,
    slots: int,
    lease: float | None,
    state_dir: Path | None,
    node: str | None,
    exec_: str | None,
    run: str | None,
    app: str | None,
    allow_commands: bool,
    allow_command: tuple[str, ...],
    env: tuple[str, ...],
    log_file: Path | None,
    take_over: bool,
    **options: float | str | None,
) -> None:
    """Take tasks and run them, each in a process of its own.

    The tasks outlive the worker: kill it, upgrade it, start it again, and they run on. TERM or
    Ctrl-C hands them back to the front of their queue; HUP leaves them running; USR1 lets them end.
    """
    from msgspec import convert

    from stayer.worker.handlers import configure
    from stayer.worker.loop import Options, WorkerLoop
    from stayer.worker.state import StateDirectory, node_name

    config = given.config()
    handlers = configure(
        exec=exec_,
        run=run,
        app=app,
        allow_commands=allow_commands,
        allow_command=allow_command,
        environment=dict(map(_pair, env)),
    )
    _start_log(log_file)
    settings = {
        **{name: value for name, value in options.items() if value is not None},
        "queues": queues or (config.queue,),
        "evenly": evenly,
        "slots": slots,
        "lease": lease or config.lease,
    }
    state = StateDirectory(state_dir or _default_state(), node or node_name())
    state.open(take_over=take_over)
    WorkerLoop(given.store(), state, handlers, convert(settings, Options)).run()


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise BadInput(f"--env {text}: write NAME=VALUE")
    return name, value


def _start_log(file: Path | None) -> None:
    logging.basicConfig(
        filename=file,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )


def _default_state() -> Path:
    home = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    return home / "stayer" / "worker"
