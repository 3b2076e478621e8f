"""What `add` and `run` share: the options of a task, and making it of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import rich_click as click

from stayer.cli.code_options import NAMES as CODE_OPTIONS
from stayer.cli.code_options import asked_code, code_options
from stayer.cli.command import Decorated, Given
from stayer.cli.output import note, stdin
from stayer.cli.param_types import DURATION, ETA, MEMORY, complete_queue, complete_task
from stayer.core import codec, units
from stayer.core.errors import BadInput, TooLarge
from stayer.core.fields import SUBMISSION, Field, Kind
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

_TYPES: dict[Kind, Any] = {
    "seconds": DURATION,
    "moment": ETA,
    "bytes": MEMORY,
    "whole": int,
    "number": float,
}
_METAVARS: dict[Kind, str] = {
    "seconds": "DURATION",
    "moment": "TIME",
    "bytes": "SIZE",
    "whole": "N",
    "number": "FACTOR",
}
_COMPLETED = {"queue": complete_queue, "after": complete_task, "near": complete_task}


def option_name(field: Field) -> str:
    """What the option of a field is called in full."""
    return field.row.option[-1] if field.row.option else f"--{field.name.replace('_', '-')}"


def _option(field: Field) -> Callable[[Any], Any]:
    """The option by which a field is said."""
    more: dict[str, Any] = {}
    if field.kind == "flag":
        more["is_flag"] = True
    elif field.kind == "choice":
        more["type"] = click.Choice(get_args(field.type))
    else:
        more["type"] = _TYPES.get(field.kind)
        more["metavar"] = field.row.metavar or _METAVARS[field.kind]
        more["multiple"] = field.kind in ("words", "variables")
    names = field.row.option or (option_name(field),)
    return click.option(
        *names, field.name, help=field.row.help, shell_complete=_COMPLETED.get(field.name), **more
    )


_OPTIONS = {
    name: _option(field) for name, field in SUBMISSION.items() if field.row.help is not None
}


def submission_options(*, leave_out: Sequence[str] = ()) -> Callable[[Decorated], Decorated]:
    """The options that say what the task is to be, given to the function by the names of the
    fields; None, an empty list or False means that nothing was said.
    """

    def decorate(function: Decorated) -> Decorated:
        if "code" not in leave_out:
            function = code_options(function)
        for name in reversed(_OPTIONS):
            if name not in leave_out:
                function = _OPTIONS[name](function)
        return function

    return decorate


def is_given(value: object) -> bool:
    """Whether this is what somebody gave, and not what an option is without that."""
    return value is not None and value is not False and value != ()


def submit(given: Given, words: Sequence[str], options: Mapping[str, Any]) -> Submitted:
    """Submit the task that these words and options mean; says so if it is there already, and
    refuses if it was deleted: whoever counts on it would wait for nothing.
    """
    new = checks.new_task(**task_fields(given, words, options))
    _hint_at_shell(words)
    store = given.store(make=True)
    control.refuse_overdue(store, [new])
    again = f"the same with --id {new.id} submits it again, and it is there once"
    with tracing.trace_submit([new]) as traced, naming_drawn_ids(store, traced, again):
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
        text = options[option]
        return None if text is None else units.moment(text, given.store(make=True).now())

    code, words = asked_code(words, options)
    options = {name: value for name, value in options.items() if name not in CODE_OPTIONS}
    fields = {name: value for name, value in options.items() if is_given(value)}
    # A command from a repository runs where that is checked out.
    cwd_is_here = bool(words) and (code is None or code.git is None)
    fields.setdefault("queue", config.queue)
    fields.setdefault("owner", config.owner)
    fields.setdefault("retries", config.retries)
    fields |= {
        "parameters": _parameters(options.get("parameters")),
        "command": words or None,
        "cwd": working_directory(options["cwd"]) if cwd_is_here or options["cwd"] else None,
        "code": code,
        "env": _environment(options["env"]),
        **{name: moment(name) for name in options if SUBMISSION[name].kind == "moment"},
        "after": [_resolve(given, id) for id in options.get("after", ())],
        "near": None if options.get("near") is None else _resolve(given, options["near"]),
    }
    return fields


def _resolve(given: Given, id: str) -> str:
    return control.resolve(given.store(make=True), id, to_change=True)


def working_directory(folder: str | None) -> str:
    """Where a command is to run, as an absolute path."""
    try:
        return os.path.abspath(folder or os.getcwd())
    except FileNotFoundError:
        raise BadInput("this directory is gone: say where to run with --cwd") from None


def _parameters(data: str | None) -> Value:
    if data is None:
        return None
    if data == "-":
        return codec.parse(_check_size(stdin().read(READ_LIMIT + 1)), "--data -")
    if data.startswith("@"):
        return codec.parse(_check_size(_read(data[1:])), f"--data {data}")
    return codec.parse(data, "--data")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(READ_LIMIT + 1)
    except OSError as error:
        raise BadInput(f"--data: {path} can't be read: {error.strerror}") from None


def _check_size(text: bytes) -> bytes:
    if len(text) > READ_LIMIT:
        raise TooLarge(
            f"the parameters are over {units.format_size(READ_LIMIT)}: store the data elsewhere "
            "and pass where it is"
        )
    return text


def _environment(names: Sequence[str]) -> dict[str, str] | None:
    variables = {}
    for entry in names:
        name, separator, value = entry.partition("=")
        if not name:
            raise BadInput(f"--env {entry!r}: write NAME or NAME=VALUE")
        if not separator:
            if name not in os.environ:
                raise BadInput(f"--env {name}: it is not set here: set it, or write {name}=VALUE")
            value = os.environ[name]
        variables[name] = value
    return variables or None
