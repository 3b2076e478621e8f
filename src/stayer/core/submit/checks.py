"""From what a user asks for to a NewTask: the checks that every door shares."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias, get_args

import msgspec

from stayer.core import codec, ids, limits, meta, units
from stayer.core.errors import BadInput, TooLarge
from stayer.core.fields import MOST, OF_QUEUE, SUBMISSION, Kind
from stayer.core.limits import ID, PROGRAM, WORD, quote
from stayer.core.model import JSON, NewTask, Policy, Value
from stayer.core.notify.notices import parse_all
from stayer.core.retries import DEFAULT_WAIT
from stayer.core.submit.names import check_id, check_word, is_ours
from stayer.core.submit.policy import check_policy, named_fields

_PRIORITY = 2**31
_LATEST = 253402300799
"""The end of the year 9999."""
_encode = msgspec.json.Encoder().encode

Check: TypeAlias = Callable[[str, Any], Any]
"""Given the name of a field and what was said of it, answers what is kept; raises BadInput."""


def new_task(
    *,
    queue: str,
    parameters: Value = None,
    id: str | None = None,
    draw: Callable[[], str] = ids.generate,
    **options: Any,
) -> NewTask:
    """Make a task that is fit to be submitted, or raise BadInput that says what to fix. `options`
    has what `fields.SUBMISSION` names; None means the default. Without an id, one is drawn at
    random.
    """
    check_word("queue", queue)
    if id is not None:
        check_id("id", id)
    fields: dict[str, Any] = {}
    life: dict[str, Any] = {}
    said: list[str] = []
    for name, value in options.items():
        if value is not None and name in OF_QUEUE:
            said.append(name)
        check = _CHECKS.get(name)
        if check is not None:
            if value is not None:
                fields[name] = check(name, value)
        elif name in _LIFE:
            life[name] = value
        else:
            raise TypeError(f"no option of a task is called {name!r}")
    _check_what_runs(fields)
    if not fields.keys().isdisjoint(_TIMES):
        _check_times(fields)
    if (deadline := life.get("deadline")) is not None:
        _check_deadline(deadline, fields.get("delay"))
    if not fields.keys().isdisjoint(_UNIQUE):
        _check_unique(fields)
    _check_near(life.get("near"), fields.get("after", ()))
    new = NewTask(
        id=draw() if id is None else id,
        generated=id is None,
        said=tuple(said),
        queue=queue,
        parameters=parameters,
        policy=check_policy(**life),
        **fields,
    )
    check_record(new)
    return new


_TIMES = frozenset(("eta", "delay", "start_before", "expire"))
_UNIQUE = frozenset(("unique", "unique_while", "unique_for"))


def _check_near(near: str | None, after: Collection[str]) -> None:
    if near is not None and near not in after:
        raise BadInput(
            f"near {quote(near)}: give the id of a task that it runs after, as in `after`"
        )


def _check_what_runs(fields: Mapping[str, Any]) -> None:
    if "command" in fields:
        if "name" in fields:
            raise BadInput("a task has either a name or a command, not both: leave one out")
    elif "cwd" in fields:
        raise BadInput("cwd goes with a command: add the command, or leave cwd out")
    elif (code := fields.get("code")) is not None and code.image is not None:
        raise BadInput("an image goes with a command: add the command that is to run in it")


def _check_times(fields: Mapping[str, Any]) -> None:
    """Refuse two ways to say when: it is a moment, or seconds from the store's now."""
    eta, delay, start_before, expire = map(fields.get, ("eta", "delay", "start_before", "expire"))
    if eta is not None and delay is not None:
        raise BadInput("give either an eta or a delay, not both")
    if start_before is not None and expire is not None:
        raise BadInput("give either a start_before or an expire, not both")
    if expire == 0:
        raise BadInput(
            "expire 0: it would never get the chance to start: give it some time, or leave it out"
        )
    if start_before is not None and eta is not None and start_before <= eta:
        raise BadInput(
            f"start_before {units.rfc3339(start_before)} is not after its eta "
            f"{units.rfc3339(eta)}: it would never start"
        )
    if expire is not None and delay and expire <= delay:
        raise BadInput(
            f"expire {expire:g} counts from now, so it would expire before its delay of {delay:g} "
            "seconds is over: let it expire later"
        )


def _check_deadline(deadline: float, delay: float | None) -> None:
    if deadline == 0:
        raise BadInput(
            "deadline 0: it would have ended before it began: give it some time, or leave it out"
        )
    if delay and deadline <= delay:
        raise BadInput(
            f"deadline {deadline:g} counts from now, so it would be over before its delay of "
            f"{delay:g} seconds is: give it more time"
        )


def _check_unique(fields: Mapping[str, Any]) -> None:
    if "unique" not in fields and ("unique_while" in fields or fields.get("unique_for")):
        raise BadInput("unique_while and unique_for go with unique: say which word is to be unique")
    if fields.get("unique_for") and fields.get("unique_while") == "waiting":
        raise BadInput(
            "unique_for is for the time after its end, but with unique_while = waiting it gives "
            "the word away when it starts: leave one out"
        )


def _word(name: str, word: str) -> str:
    check_word(name, word, MOST[name].characters)
    return word


def check_priority(priority: int) -> None:
    """BadInput if it is none."""
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) >= _PRIORITY:
        raise BadInput(
            f"priority {quote(priority)}: give a whole number, such as 10 or -5, "
            f"between {1 - _PRIORITY} and {_PRIORITY - 1}"
        )


def _priority(name: str, priority: int) -> int:
    check_priority(priority)
    return priority


def _check_whole_number(name: str, number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or abs(number) >= _PRIORITY:
        raise BadInput(f"{name} {quote(number)}: give a whole number")
    return number


def _number(name: str, number: float) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise BadInput(f"{name} {quote(number)}: give a number")
    return number


def _as_it_is(name: str, value: Any) -> Any:
    return value


def _choice(name: str, word: str) -> str:
    allowed = get_args(SUBMISSION[name].type)
    if word not in allowed:
        raise BadInput(f"{name} {quote(word)}: say {' or '.join(allowed)}")
    return word


def _words(name: str, words: Sequence[str]) -> tuple[str, ...]:
    what, one = _ONE.get(name, ("words", name))
    if isinstance(words, str):
        raise BadInput(f"{name} {quote(words)}: give a list of {what}, such as [{quote(words)}]")
    limits.check_count(name, words, MOST[name].items)
    for word in words:
        check_word(one, word, MOST[name].characters)
    return tuple(words)


_ONE = {"tags": ("words", "tag"), "after": ("ids", "after")}
"""What messages call the items of a list, and one of them, if not words, and as the list."""


def _upstreams(name: str, after: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_words(name, after)))


def _command(name: str, command: Sequence[str]) -> tuple[str, ...]:
    if isinstance(command, str):
        raise BadInput(f"command {quote(command)}: give its words as a list, the program first")
    words = tuple(command)
    most = MOST["command"]
    limits.check_count("words of the command", words, most.items)
    if not words or not words[0]:
        raise BadInput("the command is empty: give at least a program")
    _check_text("program", words[0], PROGRAM.characters)
    for word in words[1:]:
        _check_text("command word", word, most.characters)
    return words


def _path(name: str, path: str) -> str:
    _check_text(name, path, MOST[name].characters)
    return path


def _variables(name: str, variables: Mapping[str, str]) -> dict[str, str]:
    most = MOST[name]
    limits.check_count("variables", variables, most.items)
    for each, value in variables.items():
        _check_text("variable", each, WORD)
        if not each or "=" in each or not each.isprintable():
            raise BadInput(f"variable {each!r}: give a name without = and control characters")
        if is_ours(each):
            raise BadInput(f"variable {each}: those of STAYER_ are for the worker to set")
        _check_text(f"variable {each}:", value, most.characters)
    return dict(variables)


def _check_text(what: str, text: str, most: int) -> None:
    """BadInput for what a process can't be given, or a store can't keep."""
    if isinstance(text, str):
        limits.check_length(what, text, most)
    if not isinstance(text, str) or "\0" in text:
        raise BadInput(f"{what} {quote(text)}: give text without NUL characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(
            f"{what} {quote(text)}: it is not UTF-8 text, which is all that fits"
        ) from None


def _moment(name: str, moment: float) -> float:
    if not (math.isfinite(moment) and 0 <= moment <= _LATEST):
        raise BadInput(f"{name} {moment!r}: give epoch seconds before the year 10000")
    return moment


def _from_now(name: str, seconds: float) -> float:
    if not (math.isfinite(seconds) and 0 <= seconds <= units.CENTURY):
        raise BadInput(
            f"{name} {seconds!r}: give seconds from 0 to {units.CENTURY:.0f} (about 100 years)"
        )
    return seconds


def _seconds(name: str, seconds: float) -> float:
    if not (math.isfinite(seconds) and 0 <= seconds <= units.CENTURY):
        raise BadInput(f"{name} {quote(seconds)}: give seconds from 0 to 100 years")
    return float(seconds)


def _hooks(name: str, hooks: Sequence[str]) -> tuple[str, ...]:
    return parse_all(hooks) if hooks else ()


_OF_KIND: dict[Kind, Check] = {
    "text": _word,
    "choice": _choice,
    "whole": _check_whole_number,
    "number": _number,
    "flag": _as_it_is,
    "moment": _moment,
    "seconds": _seconds,
    "bytes": _check_whole_number,
    "words": _words,
    "variables": _variables,
    "value": _as_it_is,
}


def _code(what: str, asked: Any) -> Any:
    from stayer.core import code  # its many patterns cost milliseconds, and few tasks have code

    return code.check(what, asked)


_OWN: dict[str, Check] = {
    "command": _command,
    "cwd": _path,
    "priority": _priority,
    "delay": _from_now,
    "expire": _from_now,
    "after": _upstreams,
    "notify": _hooks,
    "code": _code,
    "meta": meta.check,
}
"""Checks that are for one field alone."""
_LIFE = frozenset(name for name, field in SUBMISSION.items() if field.home is Policy)
"""What `check_policy` looks at."""
_CHECKS: dict[str, Check] = {
    name: _OWN.get(name) or _OF_KIND[field.kind]
    for name, field in SUBMISSION.items()
    if name not in _LIFE and name not in ("queue", "id", "parameters")
}

_long: Callable[[NewTask], tuple[Any, ...]] = attrgetter(*(
    f"policy.{name}" if name in _LIFE else name
    for name, most in MOST.items()
    if name != "after" and (most.items is not None or most.characters > ID)
))  # fmt: skip
"""What may be long in a record."""


def record_size(new: NewTask) -> int:
    """Measure what may be long in the record, in bytes as JSON: all the rest is short."""
    long = _long(new)
    return len(_encode(long)) if any(long) else 0


def check_record(new: NewTask) -> None:
    """TooLarge if the record would be."""
    size = record_size(new)
    if size > limits.RECORD:
        raise TooLarge(
            f"the task is {size:,} bytes without its parameters, at most {limits.RECORD:,} fit: "
            "pass what is long in the parameters, or store it elsewhere and pass where it is"
        )


def submission_json(new: NewTask) -> dict[str, JSON]:
    """Write a task as JSON that submits it: the reverse of reading a submission."""
    codec.pack(new.parameters, "parameters", codec.PARAMETERS_LIMIT)  # says what is wrong with it
    shown: dict[str, Any] = {name: getattr(new, name) for name in SUBMISSION if name not in _LIFE}
    shown |= named_fields(new.policy)
    shown |= {name: getattr(new.policy, name) for name in new.said if name in _LIFE}
    if is_wait_filled_in(new):
        shown.pop("retry_wait", None)
    shown["parameters"] = written_value(new.parameters)
    if new.code is not None:
        shown["code"] = msgspec.to_builtins(new.code)
    if new.unique is None:
        del shown["unique_while"], shown["unique_for"]
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in shown.items()
        if value is not None
    }


def is_wait_filled_in(new: NewTask) -> bool:
    """Return whether nobody said how long it waits for a retry: its queue may still do so."""
    return "retry_wait" not in new.said and new.policy.retry_wait == DEFAULT_WAIT


def written_value(parameters: Value) -> JSON:
    """Parameters as JSON: bytes are `{"base64": …}`."""
    if isinstance(parameters, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(parameters).decode()}
    if isinstance(parameters, dict) and parameters.keys() == {"base64"}:
        raise BadInput('parameters: in JSON {"base64": …} stands for bytes: pass them so')
    return parameters
