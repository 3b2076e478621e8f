"""Who carries out an operator's verbs on a store: whoever calls, or the server behind it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from stayer.service.control import edits as edit_control
from stayer.service.control import flows, tasks
from stayer.service.control import workers as worker_control
from stayer.service.explain import explain
from stayer.store import Operator, Store

P = ParamSpec("P")
R = TypeVar("R")


def operator_of(store: Store) -> Operator:
    """Choose who carries out the verbs: the server where there is one, else ourselves."""
    return LocalOperator(store) if store.remote_operator is None else store.remote_operator


def _over_store(
    verb: Callable[Concatenate[Store, P], R],
) -> Callable[Concatenate[LocalOperator, P], R]:
    """Make a method of a verb that takes the store first."""

    @functools.wraps(verb)
    def call(self: LocalOperator, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return verb(self.store, *args, **kwargs)

    return call


class LocalOperator:
    """Decides here, and commits to the store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    cancel = _over_store(tasks.cancel)
    complete = _over_store(tasks.complete)
    fail = _over_store(tasks.fail)
    retry = _over_store(edit_control.retry)
    edit = _over_store(edit_control.edit)
    clone = _over_store(edit_control.clone)
    hold = _over_store(tasks.hold)
    release = _over_store(tasks.release)
    pause = _over_store(tasks.pause)
    resume = _over_store(tasks.resume)
    signal = _over_store(tasks.signal)
    stack = _over_store(tasks.stack)
    set = _over_store(tasks.set)
    explain = _over_store(explain)
    cancel_flow = _over_store(flows.cancel)
    retry_flow = _over_store(flows.retry)
    drop_worker = _over_store(worker_control.drop_worker)
    set_worker = _over_store(worker_control.set_worker)
    stop_worker = _over_store(worker_control.stop_worker)
