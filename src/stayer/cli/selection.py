"""Which tasks a command is about: ids (or beginnings of them), or a filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple, cast

import rich_click as click

from stayer.cli.command import FILTER, Decorated, argument
from stayer.cli.output import is_terminal, note
from stayer.cli.param_types import SINCE, complete_flow, complete_queue, complete_task, since
from stayer.core.errors import BadInput, StayerError, StoreError, UnknownQueue
from stayer.core.model import STATES, Filter, State
from stayer.service.control import flows as flow_control
from stayer.service.control import tasks as control
from stayer.store import Store

_SEVERITY = (0, 3, 1, 124, 2, 4)
_NAMED = 20
"""How many names an error message lists at most."""


_FILTER_OPTIONS = (
    click.option(
        "-q",
        "--queue",
        multiple=True,
        metavar="QUEUE",
        help="In this queue. May be repeated: in any of them.",
        shell_complete=complete_queue,
        panel=FILTER,
    ),
    click.option(
        "--state",
        multiple=True,
        type=click.Choice(STATES),
        metavar="STATE",
        help=f"In this state: {', '.join(STATES)}. May be repeated: in any of them.",
        panel=FILTER,
    ),
    click.option(
        "--name",
        metavar="NAME",
        help="With this name, or with a command that begins with this word.",
        panel=FILTER,
    ),
    click.option("--owner", metavar="OWNER", help="Of this owner.", panel=FILTER),
    click.option("--key", metavar="KEY", help="With this key.", panel=FILTER),
    click.option(
        "--tag",
        multiple=True,
        metavar="TAG",
        help="With this tag. May be repeated: with all of them.",
        panel=FILTER,
    ),
    click.option(
        "--since",
        type=SINCE,
        metavar="TIME",
        help="Submitted in the last 2h, or since 20:30, or since 2026-11-15.",
        panel=FILTER,
    ),
    click.option(
        "--flow",
        metavar="FLOW",
        help="Of this flow.",
        shell_complete=complete_flow,
        panel=FILTER,
    ),
    click.option(
        "--fingerprint",
        metavar="FINGERPRINT",
        help="Failed in this way: see `stayer failures`.",
        panel=FILTER,
    ),
)


class Asked(NamedTuple):
    """The options of a filter, as they were given."""

    queue: tuple[str, ...]
    state: tuple[State, ...]
    name: str | None
    owner: str | None
    key: str | None
    tag: tuple[str, ...]
    since: str | None
    flow: str | None
    fingerprint: str | None
    held: bool | None = None


class Tries:
    """Several things are tried in turn: each failure is one line, the worst is the exit code."""

    def __init__(self) -> None:
        self.worst = 0

    def count(self, code: int) -> None:
        """Remember this exit code if it is the worst so far."""
        self.worst = max(self.worst, code, key=_SEVERITY.index)

    @contextmanager
    def each(self) -> Iterator[None]:
        """One try; only a store that does not work ends them all."""
        try:
            yield
        except StoreError:
            raise
        except StayerError as error:
            note(str(error))
            self.count(error.exit_code)


def filter_options(function: Decorated) -> Decorated:
    """The options `-q --state --name --owner --key --tag --since --flow --fingerprint`, given as
    `asked`.
    """

    @wraps(function)
    def gather(*arguments: Any, **values: Any) -> Any:
        asked = Asked(**{name: values.pop(name) for name in Asked._fields if name != "held"})
        return function(*arguments, asked=asked, **values)

    decorated: Any = gather
    for option in reversed(_FILTER_OPTIONS):
        decorated = option(decorated)
    return cast(Decorated, decorated)


def ids_argument(
    *, required: bool = False, to_change: bool = True
) -> Callable[[Decorated], Decorated]:
    """Any number of ids, given to the function as `ids`."""
    return argument(
        "ids",
        nargs=-1,
        required=required,
        metavar="ID..." if required else "[ID]...",
        shell_complete=complete_task,
        help="Ids of tasks. "
        + (
            f"The first {control.PREFIX_LETTERS} letters of an id that was drawn are enough."
            if to_change
            else "The beginning of an id is enough."
        ),
    )


def to_filter(store: Store, asked: Asked) -> Filter:
    """The filter that these options mean; raises UnknownQueue."""
    check_queues(store, asked.queue)
    return Filter(
        queues=asked.queue,
        states=asked.state,
        name=asked.name,
        owner=asked.owner,
        key=asked.key,
        tags=asked.tag,
        held=asked.held,
        since=None if asked.since is None else since(asked.since, store.now()),
        flow=None if asked.flow is None else flow_control.resolve(store, asked.flow),
        fingerprint=asked.fingerprint,
    )


def check_queues(store: Store, names: Sequence[str]) -> None:
    """Raise UnknownQueue, naming those there are, if one of these is not there."""
    if unknown := _unknown(store, names):
        raise UnknownQueue(f"no queue {unknown[0]!r} in {store.url}: {_there(store)}")


def note_new_queues(store: Store, names: Sequence[str]) -> None:
    """Say which of these are about to be made: it may be a slip."""
    for name in _unknown(store, names):
        note(f"queue {name} is new ({_there(store)})")


def _unknown(store: Store, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    known = {queue.name for queue in store.queues(names)}
    return [name for name in dict.fromkeys(names) if name not in known]


def _there(store: Store) -> str:
    there = [queue.name for queue in store.queues()]
    listed = ", ".join(there[:_NAMED]) + (" …" if len(there) > _NAMED else "")
    return f"there are {listed}" if there else "there are none yet"


def choose(
    store: Store,
    ids: Sequence[str],
    asked: Asked,
    tries: Tries,
    *,
    states: tuple[State, ...] = (),
    held: bool | None = None,
) -> list[str]:
    """The full ids of the tasks that were named, or that match; not both, not neither.

    A filter that says nothing of states means `states`.
    """
    filtered = any(asked)
    if ids and filtered:
        raise BadInput("give either ids or a filter such as -q QUEUE, not both")
    if ids:
        return resolve(store, ids, tries, to_change=True)
    if not filtered:
        raise BadInput("give the ids of tasks, or a filter such as -q QUEUE")
    filter = to_filter(store, asked._replace(state=asked.state or states, held=held))
    return [task.id for task in control.find_all(store, filter)]


def resolve(
    store: Store, ids: Sequence[str], tries: Tries, *, to_change: bool = False
) -> list[str]:
    """The full ids, each once; those that can't be found are noted."""
    found: dict[str, None] = {}
    for id in ids:
        with tries.each():
            found[control.resolve(store, id, to_change=to_change)] = None
    return list(found)


def confirm(question: str, yes: bool) -> bool:
    """Whether to go on; raises BadInput where there is nobody to ask."""
    if yes:
        return True
    if not is_terminal():
        raise BadInput(f"{question} There is no terminal to ask: say --yes to do it")
    if click.confirm(question, err=True):
        return True
    note("nothing was done")
    return False
