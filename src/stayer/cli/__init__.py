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
    "run": Verb("run", TASKS, "Submit a command, show what it prints, and end as it ends."),
    "ls": Verb("look", TASKS, "List tasks, newest first."),
    "top": Verb("top", TASKS, "Watch what runs, and the queues and workers."),
    "show": Verb("look", TASKS, "Show all there is to know about a task."),
    "explain": Verb(
        "explain",
        TASKS,
        "Say why a task is not running, or what it does, and when it will start and end.",
    ),
    "failures": Verb("failures", TASKS, "List what failed, by fault."),
    "log": Verb("log", TASKS, "Print what a task wrote to its output."),
    "wait": Verb("look", TASKS, "Wait until tasks have ended; the exit code says how."),
    "flow": Verb("flow", TASKS, "Submit, list, show, wait for, cancel and retry whole flows."),
    "cancel": Verb("steer", TASKS, "Cancel tasks; running ones are asked to stop, then killed."),
    "retry": Verb("steer", TASKS, "Run finished tasks again."),
    "hold": Verb("steer", TASKS, "Keep tasks from being taken until they are released."),
    "release": Verb("steer", TASKS, "Let held tasks be taken again."),
    "delete": Verb("purge", TASKS, "Forget finished tasks."),
    "purge": Verb("purge", TASKS, "Forget the finished tasks that ended long ago."),
    "report": Verb(
        "report", TASKS, "Say from within a task how far it is, save its state, or set its result."
    ),
    "pause": Verb(
        "ask",
        RUNNING,
        "Stop tasks where they are; or let no more tasks of a queue be taken.",
    ),
    "resume": Verb(
        "ask", RUNNING, "Let paused tasks run on, or tasks of a paused queue be taken again."
    ),
    "signal": Verb("ask", RUNNING, "Send a signal to the process of a running task."),
    "stack": Verb(
        "ask", RUNNING, "Show where a running Python task is: the stacks of its threads."
    ),
    "set": Verb(
        "ask", RUNNING, "Change the limits, priority or hooks of a task that has not ended."
    ),
    "worker": Verb(
        "worker",
        RUNNING,
        "Take tasks and run them, each in a process of its own, or with --threads in a thread.",
    ),
    "up": Verb("worker", RUNNING, "Make the store if need be, and run a worker and a server here."),
    "drain": Verb("drain", RUNNING, "Let workers finish what they run, and take no more."),
    "serve": Verb("serve", RUNNING, "Serve the HTTP API and the web page, and print a login link."),
    "cron": Verb("cron", STORE, "Let the clock submit tasks: schedules."),
    "queues": Verb(
        "queues", STORE, "List queues; drop one, set its limits, hooks or what it keeps."
    ),
    "stats": Verb(
        "stats",
        STORE,
        "Show what the queues did: how deep they were, what was submitted and what ended.",
    ),
    "notices": Verb(
        "notices",
        STORE,
        "List what was told, or is to be told, to hooks; try again, or try out a hook.",
    ),
    "workers": Verb("workers", STORE, "List workers; drop a stale one."),
    "token": Verb("token", STORE, "Make and remove tokens, login links and sessions for HTTP."),
    "init": Verb("setup", STORE, "Make the store, if it is not there."),
    "config": Verb("setup", STORE, "Show each setting and where it comes from."),
    "doctor": Verb("doctor", STORE, "Check that all is well, and say what to do if not."),
    "completion": Verb("completion", STORE, "Print the script that completes words in a shell."),
}


def main() -> NoReturn:
    """The command `stayer`."""
    gc.set_threshold(50_000)  # what is imported stays: looking for garbage costs a tenth of it all
    try:
        from stayer.cli.main import cli
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    cli.main()
