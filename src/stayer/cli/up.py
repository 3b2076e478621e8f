"""`up`: all that it takes on one machine: a store, a worker and a server."""

from __future__ import annotations

import os
import shlex
from contextlib import ExitStack
from typing import Any

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.output import plural, print_line
from stayer.cli.run_worker import run_worker
from stayer.cli.worker_options import HANDLERS, WorkerPlan, plan_worker, worker_options


@command()
@worker_options
@click.option(
    "--port", type=click.IntRange(0, 65535), metavar="N", help="Serve on this port. Default: 8787."
)
@click.option("--no-serve", is_flag=True, help="Run no server.")
def up(given: Given, port: int | None, no_serve: bool, **options: Any) -> int:
    """Create the store if needed, and run a worker and a server here.

    Like `stayer worker --allow-commands --allow-code '*' --allow-image '*'`, with a slot for each
    processor: whoever may submit has a shell here. (Without uv it installs no code, without podman
    it runs no images.) Say what else to run, and it runs only that. The server is that of `stayer
    serve`. For one machine, and for a first try.
    """

    def plan() -> WorkerPlan:
        found = plan_worker(given.config(), options, slots=len(os.sched_getaffinity(0)))
        if not any(name in found.handlers for name in HANDLERS):
            found.handlers["allow_commands"] = True
            if code_can_be_installed():
                found.handlers["allow_code"] = ("*",)
            if "isolate" not in found.behaviour and images_can_be_run():
                found.handlers["allow_image"] = ("*",)
        return found

    with ExitStack() as beside:

        def ready() -> None:
            _welcome(given, plan())
            if not no_serve:
                from stayer.cli.up_server import serve_meanwhile

                beside.enter_context(serve_meanwhile(given, port))

        return run_worker(given, plan, ready)


def code_can_be_installed() -> bool:
    """Whether uv is here."""
    from stayer.task.prepare.programs import find_uv

    return find_uv(os.environ.get("PATH") or os.defpath) is not None


def images_can_be_run() -> bool:
    """Whether podman is here."""
    from stayer.worker.task_images import find_podman

    return find_podman() is not None


def _welcome(given: Given, plan: WorkerPlan) -> None:
    url = given.store(make=True).url
    where = f" --store {url}" if given.config().sources["store"] == "--store" else ""
    queues = plan.behaviour["queues"]
    queue = "" if queues[0] == given.config().queue else f" -q {queues[0]}"
    print_line(f"the store is {url}")
    capacity = plural(plan.behaviour["slots"], "slot")
    if plan.threads is not None:
        capacity = plural(plan.threads, "thread")
    print_line(f"{capacity} for tasks of {', '.join(queues)}")
    print_line(
        "Ctrl-C stops what runs, and the next `stayer up` begins it again"
        + (f" (`kill -HUP {os.getpid()}` leaves it running)" if plan.threads is None else "")
    )
    if plan.threads is None and (command := _command_to_try(plan)):
        print_line(f"try, in another terminal: stayer run{where}{queue} -- {command}")
    elif app := plan.handlers.get("app"):
        print_line(f"it runs the functions of {app}, and no commands: --allow-commands adds these")


def _command_to_try(plan: WorkerPlan) -> str | None:
    """Return a command that this worker would run, if one can be told."""
    if plan.handlers.get("allow_commands"):
        return "echo hello"
    named = plan.handlers.get("allow_command", ())
    return next((shlex.quote(each) for each in named if not set(each) & set("*?[")), None)
