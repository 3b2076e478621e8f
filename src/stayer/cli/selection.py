"""Which tasks a command is about: ids (or beginnings of them), or a filter, as one `Selection`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, cast

import rich_click as click
from msgspec import Struct
from msgspec.structs import replace

from stayer.cli.command import FILTER, Decorated, argument
from stayer.cli.param_types import SINCE, complete_flow, complete_queue, complete_task, since
from stayer.cli.queue_names import check_queues
from stayer.cli.tries import Tries
from stayer.core.errors import BadInput, UnknownFlow, UnknownTask
from stayer.core.filters import FILTERS, check_filter
from stayer.core.model import STATE_WORDS, STATES, Filter, State, states_meant
from stayer.service.control import flows as flow_control
from stayer.service.control import tasks as control
from stayer.store import Store

_KINDS: dict[str, dict[str, Any]] = {
    "queues": {"shell_complete": complete_queue},
    "states": {"type": click.Choice(STATE_WORDS)},
    "since": {"type": SINCE},
    "flow": {"shell_complete": complete_flow},
}
"""What values of an option are, where they are not just any text."""
_FILTER_OPTIONS = {
    name: click.option(
        *row.option,
        name,
        multiple=row.repeated is not None,
        metavar=row.metavar,
        help=row.help,
        panel=FILTER,
        **_KINDS.get(name, {}),
    )
    for name, row in FILTERS.items()
    if row.option
}
"""By the fields of `Filter` that they set, which is how they are given to a function."""
FILTER_NAMES = tuple(_FILTER_OPTIONS)
"""What an option can't be called that is not about a filter."""
_READ_BY_STORE = ("since", "flow")
"""Those whose text means something only to a store: by its clock, or as the beginning of an id."""


class Selection(Struct, frozen=True, kw_only=True):
    """Which tasks a command is about: those with these ids, else those that match."""

    ids: tuple[str, ...] = ()
    """As they were written: the beginning of one may be enough."""
    filter: Filter = Filter()
    since: str | None = None
    flow: str | None = None

    @property
    def has_filter(self) -> bool:
        """Whether any option of a filter was given."""
        return (self.filter, self.since, self.flow) != (Filter(), None, None)

    def to_filter(
        self, store: Store, *, states: tuple[State, ...] = (), held: bool | None = None
    ) -> Filter:
        """Make the filter that the options mean in this store; raises UnknownQueue.

        `states` are meant if there was no --state.
        """
        check_filter(self.filter)
        check_queues(store, self.filter.queues)
        return replace(
            self.filter,
            states=self.filter.states or states,
            held=held,
            since=None if self.since is None else since(self.since, store.now()),
            flow=None if self.flow is None else flow_control.resolve(store, self.flow),
        )


def filter_options(function: Decorated) -> Decorated:
    """Add the options of a filter; the function is given a `selection`, with the ids if the command
    takes any.
    """

    @wraps(function)
    def gather(*arguments: Any, **values: Any) -> Any:
        options = {name: values.pop(name) for name in _FILTER_OPTIONS}
        texts = {name: options.pop(name) for name in _READ_BY_STORE}
        options["states"] = states_meant(options["states"])
        selection = Selection(ids=values.pop("ids", ()), filter=Filter(**options), **texts)
        return function(*arguments, selection=selection, **values)

    decorated: Any = gather
    for option in reversed(_FILTER_OPTIONS.values()):
        decorated = option(decorated)
    return cast(Decorated, decorated)


def ids_argument(
    *,
    required: bool = False,
    to_change: bool = True,
    metavar: str | None = None,
    help: str | None = None,
) -> Callable[[Decorated], Decorated]:
    """Add any number of ids; the function is given them as `ids`."""
    return argument(
        "ids",
        nargs=-1,
        required=required,
        metavar=metavar or ("ID..." if required else "[ID]..."),
        shell_complete=complete_task,
        help=help
        or "Ids of tasks, flows or sweeps. "
        + (
            f"The first {control.PREFIX_LETTERS} letters of a generated id are enough."
            if to_change
            else "The beginning of an id is enough."
        ),
    )


def choose(
    store: Store,
    selection: Selection,
    tries: Tries,
    *,
    states: tuple[State, ...] = (),
    held: bool | None = None,
    to_change: bool = True,
) -> list[str]:
    """Find the full ids of the tasks that were named, or that match; not both, not neither.

    A filter that says nothing of states means `states`.
    """
    if selection.ids and selection.has_filter:
        raise BadInput("give either ids or a filter such as -q QUEUE, not both")
    if selection.ids:
        return resolve(store, selection.ids, tries, to_change=to_change, states=states)
    if not selection.has_filter:
        raise BadInput("give the ids of tasks, or a filter such as -q QUEUE")
    filter = selection.to_filter(store, states=states, held=held)
    return [task.id for task in control.find_all(store, filter)]


def resolve(
    store: Store,
    ids: Sequence[str],
    tries: Tries,
    *,
    to_change: bool = False,
    states: tuple[State, ...] = (),
) -> list[str]:
    """Find the full ids, each once; those that can't be found are noted. The id of a flow or sweep
    means its tasks, in these states.
    """
    found: dict[str, None] = {}
    for id in ids:
        with tries.each():
            found |= dict.fromkeys(_tasks_named(store, id, to_change, states))
    return list(found)


def _tasks_named(
    store: Store, id: str, to_change: bool, states: tuple[State, ...]
) -> Iterable[str]:
    try:
        return [control.resolve(store, id, to_change=to_change)]
    except UnknownTask:
        flow = flow_named(store, id)
        if flow is None:
            raise
        return (task.id for task in flow_control.tasks_of(store, flow, states or STATES))


def flow_named(store: Store, id: str) -> str | None:
    """Find the full id of the flow or sweep that is meant, if there is one."""
    try:
        return flow_control.resolve(store, id)
    except UnknownFlow:
        return None
