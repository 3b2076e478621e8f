"""What `add` and `run` share: the options of a task, and making it of them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import rich_click as click

from stayer.cli.checkout import commit_of
from stayer.cli.code_options import asked_code, code_options
from stayer.cli.command import Decorated, Given
from stayer.cli.output import note, stdin
from stayer.cli.param_types import DURATION, ETA, MEMORY, complete_queue, complete_task
from stayer.core import codec, units
from stayer.core.errors import BadInput, TooLarge
from stayer.core.fields import SUBMISSION, Field, Kind, Panel
from stayer.core.model import JSON, Code, NewTask, Submitted, Value
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
_WHAT: Panel = "What to run"
_COMPLETED = {"queue": complete_queue, "after": complete_task, "near": complete_task}


def option_name(field: Field) -> str:
    """What the option of a field is called in full."""
    return field.row.option[-1] if field.row.option else f"--{field.name.replace('_', '-')}"


def _option(field: Field, without_default: bool) -> Callable[[Any], Any]:
    """The option by which a field is said."""
    more: dict[str, Any] = {"panel": field.row.panel}
    help = field.row.help
    if help is not None and without_default:
        help = re.sub(r" Default: [^.]*\.$", "", help)
    if field.kind == "flag":
        more["is_flag"] = True
    elif field.kind == "choice":
        more["type"] = click.Choice(get_args(field.type))
    else:
        more["type"] = _TYPES.get(field.kind)
        more["metavar"] = field.row.metavar or _METAVARS[field.kind]
        more["multiple"] = field.kind in ("words", "variables", "object")
    names = field.row.option or (option_name(field),)
    return click.option(
        *names, field.name, help=help, shell_complete=_COMPLETED.get(field.name), **more
    )


_OPTIONS = tuple(name for name, field in SUBMISSION.items() if field.row.help is not None)


parameter_option = click.option(
    "-p",
    "--param",
    "set_parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set one of its parameters: JSON, or else text. May be repeated.",
    panel=_WHAT,
)


def submission_options(
    *,
    leave_out: Sequence[str] = (),
    without_defaults: bool = False,
    with_single_parameters: bool = True,
) -> Callable[[Decorated], Decorated]:
    """The options that say what the task is to be, given to the function by the names of the
    fields; None, an empty list or False means that nothing was said. `without_defaults`: the help
    does not say what holds then.
    """

    def decorate(function: Decorated) -> Decorated:
        if "code" not in leave_out:
            function = code_options(_WHAT)(function)
        for name in reversed(_OPTIONS):
            if name not in leave_out:
                function = _option(SUBMISSION[name], without_defaults)(function)
            if name == "parameters" and name not in leave_out and with_single_parameters:
                function = parameter_option(function)
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
    _hint_at_python(words, new)
    if new.notify:
        from stayer.cli.hook_hints import hint_at_hooks  # few have any, and all would pay

        hint_at_hooks(given.config(), new.notify)
    store = given.store(make=True)
    control.check_startable(store, [new])
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


def _hint_at_python(words: Sequence[str], new: NewTask) -> None:
    """`stayer run train.py` needs no `python` if the script has a header (then the command of the
    task has it by now); without one, it is taken as a program.
    """
    if not words or new.command != tuple(words) or not words[0].endswith(".py"):
        return
    if os.path.isfile(os.path.join(new.cwd or "", words[0])) and not shutil.which(words[0]):
        note(
            f"warning: {words[0]} can't be run by itself: write python {words[0]}, or say in a "
            "header of the script what it needs (PEP 723)"
        )


def task_fields(given: Given, words: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """What `new_task` is to make, by these words and options."""
    config = given.config()
    fields = said_fields(given, words, options)
    fields.setdefault("queue", config.queue)
    fields.setdefault("owner", config.owner)
    fields.setdefault("retries", config.retries)
    fields.setdefault("submitted_by", config.submitter or None)
    # A command from a repository runs where that is checked out, one with files among them, one
    # in a container where its image says.
    code: Code | None = fields.get("code")
    has_place = code is not None and bool(code.git or code.files or code.image)
    if words and "cwd" not in fields and not has_place and not is_remote(given):
        fields["cwd"] = working_directory(None)
    if words and config.record_commit and not (code is not None and (code.git or code.image)):
        fields["source_commit"] = commit_of(options.get("cwd"))
    return fields


def said_fields(given: Given, words: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """What these words and options say of a task, and nothing of what they don't."""
    for one, other in (("eta", "delay"), ("start_before", "expire")):
        if options.get(one) is not None and options.get(other) is not None:
            raise BadInput(f"give either --{one.replace('_', '-')} or --{other}, not both")
    fields = {
        name: value for name, value in options.items() if name in SUBMISSION and is_given(value)
    }
    code, words = asked_code(words, options, lambda: given.store(make=True))
    if code is not None:
        fields["code"] = code
    if words:
        fields["command"] = words
    for name, value in fields.items():
        if SUBMISSION[name].kind == "moment":
            # By the store's clock, so that `+10m` is ten minutes wherever this clock stands.
            fields[name] = units.moment(value, given.store(make=True).now())
    if "cwd" in fields and not is_remote(given):
        fields["cwd"] = working_directory(fields["cwd"])
    if "env" in fields:
        fields["env"] = _environment(fields["env"])
    if "meta" in fields:
        fields["meta"] = single_values("--meta", fields["meta"])
    if "after" in fields:
        fields["after"] = [_resolve(given, id) for id in fields["after"]]
    if "near" in fields:
        fields["near"] = _resolve(given, fields["near"])
    single = options.get("set_parameters", ())
    if "parameters" in fields or single:
        fields["parameters"] = parameters_of(fields.get("parameters"), single)
    return fields


def parameters_of(data: str | None, written: Sequence[str]) -> Value:
    """What `--data` gives, with what each `-p NAME=VALUE` sets."""
    given = None if data is None else _parameters(data)
    single = single_values("-p", written)
    if not single:
        return given
    known = {} if data is None else given
    if not isinstance(known, dict):
        raise BadInput("-p sets single parameters of an object: give --data an object, or none")
    return {**known, **single}


def single_values(option: str, written: Sequence[str]) -> dict[str, JSON]:
    """What an option such as `-p NAME=VALUE` sets: what is no JSON is text."""
    found: dict[str, JSON] = {}
    for each in written:
        name, separator, value = each.partition("=")
        if not name or not separator:
            raise BadInput(f"{option} {each!r}: write NAME=VALUE")
        if name in found:
            raise BadInput(f"{option} {name} is there twice: give it once")
        found[name] = codec.json_or_text(value)
    return found


def is_remote(given: Given) -> bool:
    """Whether a server is between: then this machine's folders need not be there where it runs."""
    return given.store(make=True).remote_operator is not None


def _resolve(given: Given, id: str) -> str:
    return control.resolve(given.store(make=True), id, to_change=True)


def working_directory(folder: str | None) -> str:
    """Where a command is to run, as an absolute path."""
    try:
        return os.path.abspath(folder or os.getcwd())
    except FileNotFoundError:
        raise BadInput("this directory is gone: say where to run with --cwd") from None


def _parameters(data: str) -> Value:
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


def _environment(names: Sequence[str]) -> dict[str, str]:
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
    return variables
