"""The command line. A command has no logic of its own: it reads options, calls `control` or the
store, and prints.

`stayer VERB` is the function VERB in the module VERB of this package, made by
`stayer.cli.command.command`, and a line in `VERBS`. Only the module of the command that is called
is imported.
"""

from __future__ import annotations

import gc
import sys
from typing import NamedTuple, NoReturn

from stayer.cli.exit_codes import INTERRUPTED


class Verb(NamedTuple):
    """What the list of commands says about a command."""

    panel: str
    help: str


TASKS, RUNNING, STORE = "Tasks", "Running tasks and workers", "Queues, workers and the store"

VERBS = {
    "add": Verb(TASKS, "Submit a task, or many from a file, and print the id."),
    "run": Verb(TASKS, "Submit a command, show what it prints, and end as it ends."),
    "ls": Verb(TASKS, "List tasks: what runs first, then the newest."),
    "top": Verb(TASKS, "Watch what runs, and the queues and workers."),
    "show": Verb(TASKS, "Show all there is to know about a task."),
    "compare": Verb(TASKS, "Compare tasks: parameters, metrics, steps, durations, results."),
    "explain": Verb(
        TASKS,
        "Say why a task is not running, and when it will start and end.",
    ),
    "failures": Verb(TASKS, "List what failed, grouped by fault."),
    "log": Verb(TASKS, "Print what a task wrote to its output."),
    "wait": Verb(TASKS, "Wait until tasks have ended; the exit code says how."),
    "sweep": Verb(TASKS, "Run a command or function with each combination of parameters."),
    "flow": Verb(TASKS, "Submit, list, show, wait for, cancel and retry whole flows."),
    "cancel": Verb(TASKS, "Cancel tasks; running ones are asked to stop, then killed."),
    "complete": Verb(TASKS, "Declare tasks complete by hand, with a result."),
    "fail": Verb(TASKS, "Declare tasks failed by hand, with an error."),
    "retry": Verb(TASKS, "Run finished tasks again, perhaps with changes."),
    "clone": Verb(TASKS, "Submit a task again, with changes, and print the new id."),
    "edit": Verb(TASKS, "Change tasks that wait: what they run, parameters, times, limits."),
    "hold": Verb(TASKS, "Keep tasks from starting until they are released."),
    "release": Verb(TASKS, "Let held tasks start again."),
    "delete": Verb(TASKS, "Delete finished tasks."),
    "purge": Verb(TASKS, "Delete finished tasks that ended long ago."),
    "report": Verb(
        TASKS,
        "Report progress, metrics, a result or a checkpoint from inside a task.",
    ),
    "pause": Verb(
        RUNNING,
        "Pause running tasks, or a queue.",
    ),
    "resume": Verb(RUNNING, "Resume paused tasks, or a paused queue."),
    "signal": Verb(RUNNING, "Send a signal to the process of running tasks."),
    "stack": Verb(RUNNING, "Show where a running Python task is: the stacks of its threads."),
    "set": Verb(RUNNING, "Change the limits, priority, hooks or meta of tasks."),
    "worker": Verb(
        RUNNING,
        "Take tasks and run them, each in its own process, or with --threads in a thread.",
    ),
    "up": Verb(RUNNING, "Create the store if needed, and run a worker and a server here."),
    "rehearse": Verb(
        RUNNING, "Test that a task survives kills: run it, kill it, resume it, compare."
    ),
    "drain": Verb(RUNNING, "Let workers finish what they run, and take no more tasks."),
    "serve": Verb(RUNNING, "Serve the HTTP API and the web page, and print a login link."),
    "mcp": Verb(RUNNING, "Let an assistant submit, watch, explain and cancel tasks, over MCP."),
    "code": Verb(RUNNING, "List and remove code that was installed for tasks on this machine."),
    "cron": Verb(STORE, "Submit tasks on a schedule."),
    "queues": Verb(STORE, "List queues; remove one, set its limits, hooks and retention."),
    "stats": Verb(
        STORE,
        "Show statistics of queues: depth, submitted and ended tasks, times.",
    ),
    "notices": Verb(
        STORE,
        "List notices to hooks; deliver them again, or test a hook.",
    ),
    "workers": Verb(STORE, "List workers; change one that runs, or remove one."),
    "token": Verb(STORE, "Make and remove tokens, login links and sessions for HTTP."),
    "init": Verb(STORE, "Create the store, if it does not exist."),
    "move": Verb(STORE, "Copy a whole store, with its history, to another kind of store."),
    "backup": Verb(STORE, "Copy the store to a file while workers run."),
    "restore": Verb(STORE, "Make a store from a backup."),
    "config": Verb(STORE, "Show each setting and where it comes from."),
    "doctor": Verb(STORE, "Check that all is well, and say what to do if not."),
    "completion": Verb(STORE, "Print the completion script for a shell."),
}


HABITS = {
    "copy": "clone",
    "describe": "show",
    "diff": "compare",
    "inspect": "show",
    "jobs": "ls",
    "kill": "cancel",
    "list": "ls",
    "logs": "log",
    "nodes": "workers",
    "ps": "ls",
    "remove": "delete",
    "rerun": "retry",
    "restart": "retry",
    "rm": "delete",
    "schedules": "cron",
    "flows": "flow",
    "sweeps": "sweep",
    "queue": "queues",
    "stop": "cancel",
    "submit": "add",
    "tasks": "ls",
    "tokens": "token",
}
"""Words of other tools, and what they mean here. They are not listed."""


def main() -> NoReturn:
    """Run the command `stayer`."""
    gc.set_threshold(50_000)  # what is imported stays: looking for garbage costs a tenth of it all
    try:
        from stayer.cli.main import cli
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    cli.main()
