"""`pause`, `resume`, `signal`, `stack`, `set`: what can be asked of a task that runs.

The first two are also for queues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import rich_click as click

from stayer.cli.command import Decorated, Given, argument, command
from stayer.cli.follow import PAUSE, Printer
from stayer.cli.output import note, print_json_array, say
from stayer.cli.param_types import DURATION, complete_queue, complete_task
from stayer.cli.selection import Tries, check_queues, ids_argument, note_new_queues, resolve
from stayer.core import codec, units
from stayer.core.errors import BadInput
from stayer.core.model import FINISHED, LogPiece, QueueInfo, Task
from stayer.service.control import logs
from stayer.service.control import tasks as control
from stayer.service.live_updates import Attention
from stayer.service.operator import operator_of
from stayer.store import Operator, Store

_STACK = b"(most recent call first):"
ID = argument(
    "id", metavar="ID", shell_complete=complete_task, help="Its id, or the beginning of it."
)


def tasks_or_queues(function: Decorated) -> Decorated:
    """Ids, or queues; given to the function as `ids` and `names`."""
    options = (
        click.option("--json", "as_json", is_flag=True, help="Print the records, as JSON."),
        click.option(
            "-q",
            "--queue",
            "names",
            multiple=True,
            metavar="QUEUE",
            help="The queue. May be repeated.",
            shell_complete=complete_queue,
        ),
        ids_argument(),
    )
    for decorate in options:
        function = decorate(function)
    return function


@command()
@tasks_or_queues
def pause(given: Given, ids: tuple[str, ...], names: tuple[str, ...], as_json: bool) -> int:
    """Stop tasks where they are; or let no more tasks of a queue be taken.

    `stayer pause ID` stops all processes of a running task until it is resumed; its worker keeps
    the slot for it. `stayer pause -q QUEUE` lets what runs run on.
    """
    if _is_about_tasks(ids, names):
        return _ask(given, ids, lambda by, id: by.pause(id), "asked to pause", as_json)
    note_new_queues(given.store(), names)  # so that it is paused before its first task comes
    return _switch(given, names, control.pause_queue, "paused", as_json)


@command()
@tasks_or_queues
def resume(given: Given, ids: tuple[str, ...], names: tuple[str, ...], as_json: bool) -> int:
    """Let paused tasks run on, or tasks of a paused queue be taken again."""
    if _is_about_tasks(ids, names):
        return _ask(given, ids, lambda by, id: by.resume(id), "asked to resume", as_json)
    check_queues(given.store(), names)
    return _switch(given, names, control.resume_queue, "resumed", as_json)


@command()
@ID
@argument("name", metavar="SIGNAL", help="Such as USR1, TERM or 15.")
def signal(given: Given, id: str, name: str) -> None:
    """Send a signal to the process of a running task.

    To its main process only. What ends by it is failed, and run again if it has retries left: to
    stop a task, cancel it.
    """
    store = given.store()
    task = operator_of(store).signal(control.resolve(store, id, to_change=True), name)
    order = task.orders[-1]
    say(f"{task.id} {order.arguments['signal']} is on its way")


@command()
@ID
@click.option(
    "--wait",
    "patience",
    type=DURATION,
    default="20s",
    metavar="DURATION",
    help="How long to wait for the answer. Default: 20s.",
)
def stack(given: Given, id: str, patience: float) -> int:
    """Show where a running Python task is: the stacks of its threads.

    It writes them to its log, which its worker sends within a second or two.
    """
    store = given.store()
    task = control.get(store, control.resolve(store, id, to_change=True))
    before = _end_of_log(store, task, 0)
    offset = before[-1].start + len(before[-1].data) if before else 0
    task = operator_of(store).stack(task.id)
    found = _await_stack(store, task, offset, patience)
    if not found:
        note(f"task {task.id} was asked, no answer yet: it comes in `stayer log -f {task.id}`")
        return 1
    printer = Printer()
    printer.offset = found[0].start
    printer.print(found)
    printer.end()
    return 0


def _await_stack(store: Store, task: Task, offset: int, patience: float) -> list[LogPiece]:
    """What came to the log since, if there is a stack in it."""
    deadline = time.monotonic() + patience
    attention = Attention(store)
    while True:
        current = control.get(store, task.id)
        attention.pay([current])
        pieces = _end_of_log(store, task, offset)
        written = b"".join(piece.data for piece in pieces)
        if _STACK in written and written.endswith(b"\n"):
            return pieces
        over = current.state in FINISHED or current.attempt != task.attempt
        if over or time.monotonic() >= deadline:
            return []
        time.sleep(PAUSE)


def _end_of_log(store: Store, task: Task, offset: int) -> list[LogPiece]:
    return list(logs.read(store, task.id, task.attempt, offset))


@command()
@ID
@click.option("--priority", type=int, metavar="N", help="Higher goes first.")
@click.option(
    "--time-limit",
    metavar="DURATION|+DURATION|none",
    help="How long it may run; with a +, so much longer than now.",
)
@click.option(
    "--silence-limit",
    metavar="DURATION|none",
    help="How long it may neither report nor print anything.",
)
@click.option(
    "--memory-limit", metavar="SIZE|none", help="How much memory its processes may use together."
)
@click.option(
    "--notify",
    multiple=True,
    metavar="HOOK|none",
    help="Tell these hooks of its end, instead of those it has. May be repeated.",
)
def set(
    given: Given,
    id: str,
    priority: int | None,
    time_limit: str | None,
    silence_limit: str | None,
    memory_limit: str | None,
    notify: tuple[str, ...],
) -> None:
    """Change the limits, priority or hooks of a task that has not ended.

    A running one hears of limits at once; they hold for later attempts too.
    """
    more = time_limit is not None and time_limit.startswith("+")
    asked = {
        "time": None if more else _limit("--time-limit", time_limit, units.duration),
        "silence": _limit("--silence-limit", silence_limit, units.duration),
        "memory": _limit("--memory-limit", memory_limit, units.memory),
    }
    extra = _limit("--time-limit", time_limit and time_limit[1:], units.duration) if more else None
    limits = {name: value for name, value in asked.items() if value is not None}
    hooks = None if not notify else [] if notify == ("none",) else notify
    if not limits and extra is None and priority is None and hooks is None:
        raise BadInput(
            "say what to set: --priority, --time-limit, --silence-limit, --memory-limit or --notify"
        )
    store = given.store()
    task = operator_of(store).set(
        control.resolve(store, id, to_change=True),
        priority=priority,
        limits=limits,
        more_time=extra,
        notify=hooks,
    )
    said = [] if priority is None else [f"priority {task.priority}"]
    said += [f"{name} limit {_told(name, value)}" for name, value in limits.items()]
    if extra is not None:
        more_time = f"time limit {units.format_duration(extra)} more"
        # Whether its worker has set one, nobody knows but its worker.
        said.append(more_time if task.policy.time_limit else f"{more_time}, if its worker set one")
    if hooks is not None:
        said.append(f"tells {' '.join(task.notify) or 'nobody'}")
    say(f"{task.id} {', '.join(said)}")


def _told(name: str, value: float) -> str:
    if not value:
        return "none"
    return units.format_limit(value) if name == "memory" else units.format_duration(value)


def _limit(option: str, text: str | None, parse: Callable[[str], float]) -> float | None:
    """None if it was not asked for; 0 for `none`."""
    if text is None:
        return None
    if text == "none":
        return 0.0
    try:
        value = parse(text)
    except BadInput as error:
        raise BadInput(f"{option}: {error}") from None
    if not value:
        raise BadInput(f"{option}: {text!r} leaves nothing: write none for no limit")
    return value


def _is_about_tasks(ids: Sequence[str], names: Sequence[str]) -> bool:
    if ids and names:
        raise BadInput("give either ids of tasks or -q QUEUE, not both")
    if not ids and not names:
        raise BadInput("give the ids of tasks, or a queue with -q QUEUE")
    return bool(ids)


def _ask(
    given: Given,
    ids: Sequence[str],
    act: Callable[[Operator, str], Task],
    told: str,
    as_json: bool,
) -> int:
    store, tries = given.store(), Tries()
    operator = operator_of(store)
    asked = []
    for id in resolve(store, ids, tries, to_change=True):
        with tries.each():
            asked.append(act(operator, id))
    if as_json:
        print_json_array(map(codec.record, asked))
    else:
        for task in asked:
            say(f"{task.id} {told}")
    return tries.worst


def _switch(
    given: Given,
    names: Sequence[str],
    act: Callable[[Store, str], QueueInfo],
    told: str,
    as_json: bool,
) -> int:
    store = given.store()
    queues = [act(store, name) for name in dict.fromkeys(names)]
    if as_json:
        print_json_array(map(codec.queue_record, queues))
    else:
        for queue in queues:
            say(f"{queue.name} {told}")
    return 0
