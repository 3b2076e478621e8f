"""The kinds of values that options take, and what a shell may offer to complete them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

import rich_click as click
from click.shell_completion import CompletionItem

from stayer.cli.command import get_given
from stayer.config.parsing import parse_retention
from stayer.core import units
from stayer.core.errors import BadInput, StayerError
from stayer.core.model import Filter
from stayer.store import Store

if TYPE_CHECKING:
    Seconds: TypeAlias = click.ParamType[float]
    Words: TypeAlias = click.ParamType[str]
    Number: TypeAlias = click.ParamType[int]
else:  # older ones have no type arguments
    Seconds = Words = Number = click.ParamType

_MOST_COMPLETIONS = 100
"""How many words a shell is offered at most."""

_EPOCH = re.compile(r"[0-9]{9,}(\.[0-9]+)?")


class Duration(Seconds):
    """`10m`, as seconds."""

    name = "duration"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            return units.duration(value)
        except BadInput as error:
            self.fail(str(error), param, ctx)


class WithUnit(Duration):
    """A duration for what can't be undone: a bare number might be meant in days."""

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, str) and value.strip().replace(".", "", 1).isdigit():
            self.fail(f"{value!r} has no unit: write for example {value.strip()}d", param, ctx)
        return super().convert(value, param, ctx)


class Moment(Words):
    """A time that is understood; kept as text, to be read again by the store's clock."""

    name = "time"

    def __init__(self, read: Callable[[str, float], float]) -> None:
        self.read = read

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            self.read(value, time.time())
        except BadInput as error:
            self.fail(str(error), param, ctx)
        return value


class Limit(Number):
    """A whole number, or `none`; that is 0 here."""

    name = "number"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if value == "none":
            return 0
        written = str(value)
        if not written.isdecimal() or len(written) > 10 or not 0 < int(value) < 2**31:
            self.fail(f"{value!r}: give a whole number from 1 on, or none", param, ctx)
        return int(value)


def since(text: str, now: float) -> float:
    """Return the moment that `2h` (ago), `20:30` (the last one) or a date means."""
    if not _EPOCH.fullmatch(text):
        try:
            return now - units.duration(text)
        except BadInput:
            pass
    try:
        moment = units.moment(text, now)
    except BadInput:
        raise BadInput(
            f"{text!r} is not a time: write for example 2h or 3d (ago), 20:30, 2026-11-15, or "
            "2026-11-15T20:30:00Z"
        ) from None
    if moment > now and ":" in text and len(text) <= len("20:30:00"):
        moment -= units.DAY
    if moment > now:
        raise BadInput(f"{text!r} lies in the future: write for example 2h, 20:30 or 2026-11-15")
    return moment


class Size(Number):
    """`8G`, as bytes."""

    name = "size"
    read = staticmethod(units.size)

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        try:
            return self.read(value)
        except BadInput as error:
            self.fail(str(error), param, ctx)


class Memory(Size):
    """`8G`, as bytes, and no less than a process needs."""

    read = staticmethod(units.memory)


class Keep(Seconds):
    """`7d`, as seconds; `forever`; or `default`, which is -1 here."""

    name = "duration"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if value == "default":
            return -1.0
        if isinstance(value, str) and value.strip().isdecimal():
            self.fail(f"{value!r} has no unit: write for example {value.strip()}d", param, ctx)
        try:
            return parse_retention(value)
        except BadInput as error:
            self.fail(f"{error}, or forever, or default", param, ctx)


DURATION = Duration()
KEEP = Keep()
LONG_AGO = WithUnit()
SIZE = Size()
MEMORY = Memory()
ETA = Moment(units.moment)
SINCE = Moment(since)
LIMIT = Limit()


Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completion(words: Callable[[Store, str], Iterable[str]]) -> Completion:
    """Offers those of these words that begin as what is typed; a store that can't be asked offers
    nothing, and says nothing.
    """

    def complete(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
        try:
            given = get_given(context)
            given.quiet = True
            store = given.unopened_store()
            if store.path is not None and not os.path.exists(store.path):
                return []  # asking would make it
            fit = [word for word in words(store, typed) if word.startswith(typed)]
        except StayerError:
            return []
        return [CompletionItem(word) for word in fit[:_MOST_COMPLETIONS] if word.isprintable()]

    return complete


def _newest_tasks(store: Store, typed: str) -> Iterable[str]:
    tasks = store.find(Filter(prefix=typed or None), None, _MOST_COMPLETIONS).tasks
    return (task.id for task in tasks)


complete_task = _completion(_newest_tasks)
complete_queue = _completion(lambda store, _: (queue.name for queue in store.queues()))
complete_schedule = _completion(lambda store, _: (each.name for each in store.schedules()))
complete_worker = _completion(lambda store, _: (worker.id for worker in store.workers()))
complete_flow = _completion(
    lambda store, _: (flow.id for flow in store.flows(None, 10 * _MOST_COMPLETIONS).flows)
)
