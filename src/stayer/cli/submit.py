"""What `add` and `run` share: the options of a task, and making it of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import rich_click as click

from stayer.cli.command import Decorated, Given
from stayer.cli.output import note, stdin
from stayer.cli.param_types import DURATION, ETA, MEMORY, complete_queue, complete_task
from stayer.core import codec, units
from stayer.core.errors import BadInput, TooLarge
from stayer.core.model import Submitted, Value
from stayer.core.submit import checks
from stayer.service import tracing
from stayer.service.control import tasks as control
from stayer.service.degraded.ambiguous import naming_drawn_ids

READ_LIMIT = 16 * codec.PARAMETERS_LIMIT
"""Longer input is refused before it fills the memory; JSON may be written less densely than it
is kept.
"""

_FOR_A_SHELL = frozenset(" \t\n|&;<>$`*?")

_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "queue": click.option(
        "-q",
        "--queue",
        metavar="QUEUE",
        help="The queue. Default: the one that the configuration names.",
        shell_complete=complete_queue,
    ),
    "id": click.option(
        "--id", metavar="ID", help="Its id. One that is there already is not added again."
    ),
    "name": click.option(
        "--name", metavar="NAME", help="The function or class that the task is to run."
    ),
    "data": click.option(
        "--data",
        metavar="JSON|-|@FILE",
        help="Its parameters: JSON, - to read it from stdin, or @ and a file.",
    ),
    "priority": click.option(
        "--priority", type=int, default=0, metavar="N", help="Higher goes first. Default: 0."
    ),
    "delay": click.option(
        "--delay", type=DURATION, metavar="DURATION", help="Start it in 10m, 2h, 1d …"
    ),
    "eta": click.option(
        "--eta", type=ETA, metavar="TIME", help="Start it at 20:30, 2026-11-15T20:30:00Z …"
    ),
    "expire": click.option(
        "--expire",
        type=DURATION,
        metavar="DURATION",
        help="If it has not been started after 10m, 2h, 1d …, it never is: it ends as failed.",
    ),
    "start_before": click.option(
        "--start-before",
        type=ETA,
        metavar="TIME",
        help="If it has not been started by 20:30, 2026-11-15T20:30:00Z …, it never is.",
    ),
    "after": click.option(
        "--after",
        multiple=True,
        metavar="ID",
        help="Run it when this task is complete, and give it the result. May be repeated.",
        shell_complete=complete_task,
    ),
    "when_failed": click.option(
        "--when-failed",
        type=click.Choice(("cancel", "run", "hold")),
        default="cancel",
        help="What to do with it if a task that it is to run after fails. Default: cancel it.",
    ),
    "near": click.option(
        "--near",
        metavar="ID",
        help="Run it on the node on which this task has run, one of --after, if that can be.",
        shell_complete=complete_task,
    ),
    "near_wait": click.option(
        "--near-wait",
        type=DURATION,
        metavar="DURATION",
        help="How long to wait for that node, before any other may take it. Default: 1m.",
    ),
    "cwd": click.option("--cwd", metavar="DIR", help="Where the command is to run. Default: here."),
    "env": click.option(
        "--env",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="A variable for the command; without a value, the one it has here. May be repeated.",
    ),
    "tag": click.option(
        "--tag", multiple=True, metavar="TAG", help="A word to find it by. May be repeated."
    ),
    "owner": click.option("--owner", metavar="OWNER", help="Whose task it is. Default: yours."),
    "key": click.option(
        "--key",
        metavar="KEY",
        help="Whose work it is (a user, a customer, a licence): queues can limit how much of one "
        "key runs at once.",
    ),
    "unique": click.option(
        "--unique",
        metavar="WORD",
        help="Add it only if no other task of the queue has this word and has not ended.",
    ),
    "unique_while": click.option(
        "--unique-while",
        type=click.Choice(("waiting", "alive")),
        help="How long it keeps --unique to itself: until it is taken, or until it has ended "
        "(the default).",
    ),
    "unique_for": click.option(
        "--unique-for",
        type=DURATION,
        metavar="DURATION",
        help="Keep --unique to itself for so long after its end, too.",
    ),
    "notify": click.option(
        "--notify",
        multiple=True,
        metavar="HOOK",
        help="Tell this hook of the workers' stayer.toml, or URL, of its end; failed,expired:HOOK "
        "only of that. May be repeated.",
    ),
    "hold": click.option("--hold", is_flag=True, help="Not to be taken until it is released."),
    "retries": click.option(
        "--retries", type=int, metavar="N", help="How often to run it again if it fails."
    ),
    "retry_wait": click.option(
        "--retry-wait",
        type=DURATION,
        metavar="DURATION",
        help="Before the first retry; twice as long before each one after, up to 1h. Default: 10s.",
    ),
    "retry_on": click.option(
        "--retry-on",
        multiple=True,
        metavar="PATTERN",
        help="Retry only after such an ending or error: oom, timeout, ConnectionError …",
    ),
    "give_up_on": click.option(
        "--give-up-on",
        multiple=True,
        metavar="PATTERN",
        help="Never retry after such an ending or error. May be repeated.",
    ),
    "time_limit": click.option(
        "--time-limit", type=DURATION, metavar="DURATION", help="End it if it runs longer."
    ),
    "silence_limit": click.option(
        "--silence-limit",
        type=DURATION,
        metavar="DURATION",
        help="End it if it neither reports nor prints anything for so long.",
    ),
    "memory_limit": click.option(
        "--memory-limit",
        type=MEMORY,
        metavar="SIZE",
        help="End it if its processes use more together.",
    ),
    "time_growth": click.option(
        "--time-growth",
        type=float,
        metavar="FACTOR",
        help="Let a retry after the time limit have so many times as long. Default: as long.",
    ),
    "time_most": click.option(
        "--time-most", type=DURATION, metavar="DURATION", help="The most that --time-growth gives."
    ),
    "memory_growth": click.option(
        "--memory-growth",
        type=float,
        metavar="FACTOR",
        help="Let a retry after the memory limit have so many times as much. Default: as much.",
    ),
    "memory_most": click.option(
        "--memory-most", type=MEMORY, metavar="SIZE", help="The most that --memory-growth gives."
    ),
    "grace": click.option(
        "--grace",
        type=DURATION,
        metavar="DURATION",
        help="Between asking it to end and killing it.",
    ),
    "fence": click.option(
        "--fence",
        type=click.Choice(("freeze", "kill")),
        help="What happens to it when its worker's lease is over and the store is out of reach.",
    ),
}


_LIFE = (
    "retry_wait", "retry_on", "give_up_on", "time_limit", "silence_limit", "memory_limit", "grace",
    "time_growth", "time_most", "memory_growth", "memory_most", "fence", "key", "unique",
    "unique_while", "unique_for", "notify",
)  # fmt: skip


def submission_options(*, leave_out: Sequence[str] = ()) -> Callable[[Decorated], Decorated]:
    """The options that say what the task is to be, given to the function by their names."""

    def decorate(function: Decorated) -> Decorated:
        for name in reversed(_OPTIONS):
            if name not in leave_out:
                function = _OPTIONS[name](function)
        return function

    return decorate


def submit(given: Given, words: Sequence[str], options: Mapping[str, Any]) -> Submitted:
    """Submit the task that these words and options mean; says so if it is there already, and
    refuses if it was deleted: whoever counts on it would wait for nothing.
    """
    new = checks.new_task(**task_fields(given, words, options))
    _hint_at_shell(words)
    store = given.store(make=True)
    control.refuse_overdue(store, [new])
    again = f"the same with --id {new.id} submits it again, and it is there once"
    with tracing.submitting([new]) as traced, naming_drawn_ids(store, traced, again):
        answer = store.submit(traced)[0]
    if holder := control.unique_holder(new, answer):
        note(
            f"not added: task {holder.id} ({holder.state}) has the same unique word {new.unique!r}"
        )
    elif not answer.fresh:
        control.refuse_deleted(new, answer)
        other = control.difference(new, answer)
        if other is None:
            note(f"task {new.id} is already there ({answer.task.state})")
        else:
            note(f"warning: task {new.id} {other}")
    return answer


def _hint_at_shell(words: Sequence[str]) -> None:
    """Who writes `stayer add 'echo hi | wc -c'` means a shell; but there may be such a program."""
    if len(words) == 1 and _FOR_A_SHELL & set(words[0]) and not os.path.exists(words[0]):
        note(
            "warning: no shell reads this, it is taken as the name of a program: give each "
            "argument apart, or write -- sh -c '…'"
        )


def task_fields(given: Given, words: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """What `new_task` is to make, by these words and options."""
    for one, other in (("eta", "delay"), ("start_before", "expire")):
        if options.get(one) is not None and options.get(other) is not None:
            raise BadInput(f"give either --{one.replace('_', '-')} or --{other}, not both")
    config = given.config()

    def moment(option: str) -> float | None:
        """By the store's clock, so that `+10m` is ten minutes wherever this clock stands."""
        said = options.get(option)
        return None if said is None else units.moment(said, given.store(make=True).now())

    return dict(
        queue=config.queue if options["queue"] is None else options["queue"],
        parameters=_parameters(options.get("data")),
        id=options.get("id"),
        name=options.get("name"),
        command=words or None,
        cwd=working_directory(options["cwd"]) if words or options["cwd"] else None,
        env=_environment(options["env"]),
        priority=options["priority"],
        owner=config.owner if options["owner"] is None else options["owner"],
        tags=options["tag"],
        eta=moment("eta"),
        delay=options.get("delay"),
        expire=options["expire"],
        start_before=moment("start_before"),
        held=options.get("hold", False),
        retries=config.retries if options["retries"] is None else options["retries"],
        after=[_resolved(given, id) for id in options.get("after", ())],
        when_failed=options.get("when_failed", "cancel"),
        near=None if options.get("near") is None else _resolved(given, options["near"]),
        near_wait=options.get("near_wait"),
        **{name: options[name] for name in _LIFE},
    )


def _resolved(given: Given, id: str) -> str:
    return control.resolve(given.store(make=True), id, to_change=True)


def working_directory(asked: str | None) -> str:
    """Where a command is to run, as an absolute path."""
    try:
        return os.path.abspath(asked or os.getcwd())
    except FileNotFoundError:
        raise BadInput("this directory is gone: say where to run with --cwd") from None


def _parameters(data: str | None) -> Value:
    if data is None:
        return None
    if data == "-":
        return codec.parse(_limited(stdin().read(READ_LIMIT + 1)), "--data -")
    if data.startswith("@"):
        return codec.parse(_limited(_read(data[1:])), f"--data {data}")
    return codec.parse(data, "--data")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(READ_LIMIT + 1)
    except OSError as error:
        raise BadInput(f"--data: {path} can't be read: {error.strerror}") from None


def _limited(text: bytes) -> bytes:
    if len(text) > READ_LIMIT:
        raise TooLarge(
            f"the parameters are over {units.format_size(READ_LIMIT)}: store the data elsewhere "
            "and pass where it is"
        )
    return text


def _environment(asked: Sequence[str]) -> dict[str, str] | None:
    variables = {}
    for entry in asked:
        name, separator, value = entry.partition("=")
        if not name:
            raise BadInput(f"--env {entry!r}: write NAME or NAME=VALUE")
        if not separator:
            if name not in os.environ:
                raise BadInput(f"--env {name}: it is not set here: set it, or write {name}=VALUE")
            value = os.environ[name]
        variables[name] = value
    return variables or None
