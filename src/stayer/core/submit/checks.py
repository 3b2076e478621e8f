"""From what a user asks for to a NewTask: the checks that every door shares."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

from stayer.core import codec, ids, limits, units
from stayer.core.errors import BadInput
from stayer.core.limits import PROGRAM, SUBMISSION, shown
from stayer.core.model import JSON, NewTask, Policy, UniqueWhile, Value
from stayer.core.notify.notices import parse_all
from stayer.core.submit.names import check_id, check_word, is_ours
from stayer.core.submit.policy import Asked, checked

_PRIORITY = 2**31
_WRITTEN = (
    "name", "command", "cwd", "env", "priority", "owner", "tags", "eta", "delay", "expire",
    "start_before", "held", "after", "key", "unique", "notify",
)  # fmt: skip


def new_task(
    *,
    queue: str,
    parameters: Value = None,
    id: str | None = None,
    name: str | None = None,
    command: Sequence[str] | None = None,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    priority: int = 0,
    owner: str | None = None,
    tags: Sequence[str] = (),
    eta: float | None = None,
    delay: float | None = None,
    expire: float | None = None,
    start_before: float | None = None,
    held: bool = False,
    after: Sequence[str] = (),
    key: str | None = None,
    unique: str | None = None,
    unique_while: UniqueWhile | None = None,
    unique_for: float | None = None,
    notify: Sequence[str] = (),
    draw: Callable[[], str] = ids.generate,
    **life: Unpack[Asked],
) -> NewTask:
    """A task that is fit to be submitted, or BadInput that says what to mend. Without an id, one is
    drawn at random.
    """
    check_word("queue", queue)
    if id is not None:
        check_id("id", id)
    if name is not None:
        check_word("name", name)
    if command is not None:
        command = _checked_command(command)
        if name is not None:
            raise BadInput("a task has either a name or a command, not both: leave one out")
    elif cwd is not None:
        raise BadInput("cwd goes with a command: add the command, or leave cwd out")
    if cwd is not None or env:
        _check_surroundings(cwd, env or {})
    if owner is not None:
        check_word("owner", owner)
    check_priority(priority)
    if isinstance(tags, str):
        raise BadInput(f"tags {shown(tags)}: give a list of words, such as [{shown(tags)}]")
    limits.check_count("tags", tags, SUBMISSION["tags"].items)
    for tag in tags:
        check_word("tag", tag)
    if eta is not None or delay is not None:
        _check_time("eta", eta, "delay", delay)
    if start_before is not None or expire is not None:
        _check_time("start_before", start_before, "expire", expire)
        if expire == 0:
            raise BadInput(
                "expire 0: it would never get the chance to start: give it some time, or leave it "
                "out"
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
    if key is not None:
        check_word("key", key)
    if unique is not None or unique_while is not None or unique_for is not None:
        _check_unique(unique, unique_while, unique_for)
    if (near := life.get("near")) is not None and near not in after:
        raise BadInput(
            f"near {shown(near)}: give the id of a task that it runs after, as in `after`"
        )
    new = NewTask(
        id=draw() if id is None else id,
        generated=id is None,
        queue=queue,
        name=name,
        command=tuple(command) if command is not None else None,
        cwd=cwd,
        env=dict(env) if env is not None else None,
        parameters=parameters,
        priority=priority,
        owner=owner,
        tags=tuple(tags),
        eta=eta,
        delay=delay,
        expire=expire,
        start_before=start_before,
        held=held,
        key=key,
        unique=unique,
        unique_while=unique_while or "alive",
        unique_for=float(unique_for or 0.0),
        policy=checked(**life),
        notify=parse_all(notify) if notify else (),
        after=_upstreams(after),
    )
    limits.check_record(new)
    return new


def _check_unique(
    unique: str | None, unique_while: UniqueWhile | None, unique_for: float | None
) -> None:
    if unique is not None:
        check_word("unique", unique)
    elif unique_while is not None or unique_for:
        raise BadInput("unique_while and unique_for go with unique: say which word is to be unique")
    if unique_while not in (None, "waiting", "alive"):
        raise BadInput(f"unique_while {shown(unique_while)}: say waiting or alive")
    if unique_for is not None and not (
        math.isfinite(unique_for) and 0 <= unique_for <= units.CENTURY
    ):
        raise BadInput(f"unique_for {shown(unique_for)}: give seconds from 0 to 100 years")
    if unique_for and unique_while == "waiting":
        raise BadInput(
            "unique_for is for the time after its end, but with unique_while = waiting it gives "
            "the word away when it starts: leave one out"
        )


def check_priority(priority: int) -> None:
    """BadInput if it is none."""
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) >= _PRIORITY:
        raise BadInput(
            f"priority {shown(priority)}: give a whole number, such as 10 or -5, "
            f"between {1 - _PRIORITY} and {_PRIORITY - 1}"
        )


def _upstreams(after: Sequence[str]) -> tuple[str, ...]:
    if isinstance(after, str):
        raise BadInput(f"after {shown(after)}: give a list of ids, such as [{shown(after)}]")
    limits.check_count("after", after, SUBMISSION["after"].items)
    for id in after:
        check_word("after", id)
    return tuple(dict.fromkeys(after))


def _checked_command(command: Sequence[str]) -> tuple[str, ...]:
    if isinstance(command, str):
        raise BadInput(f"command {shown(command)}: give its words as a list, the program first")
    words = tuple(command)
    most = SUBMISSION["command"]
    limits.check_count("words of the command", words, most.items)
    if not words or not words[0]:
        raise BadInput("the command is empty: give at least a program")
    _check_text("program", words[0], PROGRAM.characters)
    for word in words[1:]:
        _check_text("command word", word, most.characters)
    return words


def _check_surroundings(cwd: str | None, env: Mapping[str, str]) -> None:
    if cwd is not None:
        _check_text("cwd", cwd, SUBMISSION["cwd"].characters)
    most = SUBMISSION["env"]
    limits.check_count("variables", env, most.items)
    for name, value in env.items():
        _check_text("variable", name, limits.WORD)
        if not name or "=" in name:
            raise BadInput(f"variable {name!r}: give a name without =")
        if is_ours(name):
            raise BadInput(f"variable {name}: those of STAYER_ are for the worker to set")
        _check_text(f"variable {name}:", value, most.characters)


def _check_text(what: str, text: str, most: int) -> None:
    """What a process can be given, and a store can keep."""
    if isinstance(text, str):
        limits.check_length(what, text, most)
    if not isinstance(text, str) or "\0" in text:
        raise BadInput(f"{what} {shown(text)}: give text without NUL characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(
            f"{what} {shown(text)}: it is not UTF-8 text, which is all that fits"
        ) from None


def _check_time(at: str, moment: float | None, after: str, delay: float | None) -> None:
    """One way to say when: as a moment, or as seconds from the store's now."""
    if moment is not None and delay is not None:
        one, other = (f"{'an' if word[0] in 'aeiou' else 'a'} {word}" for word in (at, after))
        raise BadInput(f"give either {one} or {other}, not both")
    if delay is not None and not (math.isfinite(delay) and 0 <= delay <= units.CENTURY):
        raise BadInput(
            f"{after} {delay!r}: give seconds from 0 to {units.CENTURY:.0f} (about 100 years)"
        )
    if moment is not None and not (math.isfinite(moment) and 0 <= moment <= 253402300799):
        raise BadInput(f"{at} {moment!r}: give epoch seconds before the year 10000")


def written(new: NewTask) -> dict[str, JSON]:
    """What asks for this task, as JSON: the way back from a submission that somebody wrote."""
    codec.pack(new.parameters, "parameters", codec.PARAMETERS_LIMIT)  # says what is wrong with it
    shown: dict[str, Any] = {"id": new.id, "queue": new.queue}
    if isinstance(new.parameters, bytes | bytearray | memoryview):
        shown["parameters"] = {"base64": base64.b64encode(new.parameters).decode()}
    else:
        if isinstance(new.parameters, dict) and new.parameters.keys() == {"base64"}:
            raise BadInput('parameters: in JSON {"base64": …} stands for bytes: pass them so')
        shown["parameters"] = new.parameters
    for name in _WRITTEN:
        shown[name] = getattr(new, name)
    if new.unique is not None:
        shown |= {"unique_while": new.unique_while, "unique_for": new.unique_for}
    default = Policy()
    for name in codec.POLICY:
        if (value := getattr(new.policy, name)) != getattr(default, name):
            shown[name] = value
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in shown.items()
        if value is not None
    }
