"""The command line. A command has no logic of its own: it reads options, calls `control` or the
store, and prints.

Only the module of the command that is called is imported, so a new one is a line in `VERBS` and a
function of that name made by `stayer.cli.command.command`.
"""

from __future__ import annotations

import gc
import sys
from typing import NamedTuple, NoReturn

INTERRUPTED = 130


class Verb(NamedTuple):
    """Where a command lives and what the list of commands says about it."""

    module: str
    panel: str
    help: str


TASKS, RUNNING, STORE = "Tasks", "Running them", "Queues, workers and the store"

VERBS = {
    "add": Verb("add", TASKS, "Submit a task, or many from a file, and print the id."),
    "ls": Verb("look", TASKS, "List tasks, newest first."),
    "show": Verb("look", TASKS, "Show all there is to know about a task."),
    "wait": Verb("look", TASKS, "Wait until tasks have ended; the exit code says how."),
    "cancel": Verb("steer", TASKS, "Cancel tasks; running ones are asked to stop, then killed."),
    "retry": Verb("steer", TASKS, "Run finished tasks again."),
    "hold": Verb("steer", TASKS, "Keep tasks from being taken until they are released."),
    "release": Verb("steer", TASKS, "Let held tasks be taken again."),
    "delete": Verb("purge", TASKS, "Forget finished tasks."),
    "purge": Verb("purge", TASKS, "Forget the finished tasks that ended long ago."),
    "report": Verb(
        "report", TASKS, "Say from within a task how far it is, save its state, or set its result."
    ),
    "worker": Verb("worker", RUNNING, "Take tasks and run them, each in a process of its own."),
    "pause": Verb("steer", STORE, "Let no more tasks of a queue be taken; what runs, runs on."),
    "resume": Verb("steer", STORE, "Let tasks of a paused queue be taken again."),
    "queues": Verb("queues", STORE, "List queues; drop one, or set its limit."),
    "workers": Verb("workers", STORE, "List workers; drop a stale one."),
    "init": Verb("setup", STORE, "Make the store, if it is not there."),
    "config": Verb("setup", STORE, "Show each setting and where it comes from."),
    "doctor": Verb("doctor", STORE, "Check that all is well, and say what to do if not."),
    "completion": Verb("completion", STORE, "Print the script that completes words in a shell."),
}


def main() -> NoReturn:
    """The command `stayer`."""
    gc.set_threshold(50_000)  # what is imported stays: looking for garbage costs a tenth of it all
    try:
        from stayer.cli.group import cli
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    cli.main()
