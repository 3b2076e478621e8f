"""Traces, where the program makes them (OpenTelemetry): nothing of it is imported by Stayer itself.

A task carries the context of whoever submitted it in its environment, as W3C names it
(`TRACEPARENT`, `TRACESTATE`): so it is in the record, and whatever process runs it goes on with the
same trace. A program that has loaded OpenTelemetry gets a span for each submit and each attempt.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stayer.core.model import Change, NewTask, Task
from stayer.core.ordering.lanes import TRACE
from stayer.core.version import __version__

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Tracer

PARENT, STATE = TRACE

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
_STATE_LIMIT = 512
_NO_FAULT = ("done", "snoozed", "interrupted", "cancelled", None)
_NANO = 1_000_000_000

Carrier = Mapping[str, str]
"""`TRACEPARENT` and perhaps `TRACESTATE`."""


def read_context(parent: str | None, state: str | None = None) -> dict[str, str]:
    """Read a context as others gave it; nothing if it is none."""
    if not parent or not _TRACEPARENT.fullmatch(parent):
        return {}
    kept = {STATE: state} if state and len(state) <= _STATE_LIMIT and state.isprintable() else {}
    return {PARENT: parent, **kept}


@contextmanager
def trace_submit(
    tasks: Sequence[NewTask], given: Carrier | None = None
) -> Iterator[Sequence[NewTask]]:
    """Give the tasks with the context that they belong to: that of a span for this submit where
    traces are made, else the one given, else that of this process's environment.
    """
    outside = given or read_context(os.environ.get(PARENT), os.environ.get(STATE))
    tracer = _tracer()
    if tracer is None or not tasks:
        yield _with(tasks, outside)
        return
    from opentelemetry.trace import SpanKind

    queue = tasks[0].queue
    one = tasks[0] if len(tasks) == 1 else None
    attributes: dict[str, str | int] = {
        "messaging.system": "stayer",
        "messaging.operation.type": "send",
        "messaging.destination.name": queue,
        **({"messaging.message.id": one.id} if one else {}),
        **({} if one else {"messaging.batch.message_count": len(tasks)}),
    }
    with tracer.start_as_current_span(
        f"submit {queue}", kind=SpanKind.PRODUCER, attributes=attributes,
        context=_extract(outside) if given or not _in_a_span() else None,
    ):  # fmt: skip
        yield _with(tasks, _inject())


def attempt(task: Task, change: Change, began_at: float | None = None) -> None:
    """An attempt is over: a span for it, as a part of the trace of its submit."""
    tracer = _tracer()
    news = change.effect.attempt
    if tracer is None or news is None or news.ending is None:
        return
    from opentelemetry.trace import Link, SpanKind, StatusCode, get_current_span

    end = time.time() - change.ago
    start = min(end, began_at or task.started_at or task.updated or end)
    parent = _extract(task.env or {})
    submit = get_current_span(parent).get_span_context()
    span = tracer.start_span(
        f"run {task.kind or task.queue}", context=parent, kind=SpanKind.CONSUMER,
        links=[Link(submit)] if submit.is_valid else [], start_time=int(start * _NANO),
        attributes={
            "messaging.system": "stayer",
            "messaging.operation.type": "process",
            "messaging.destination.name": task.queue,
            "messaging.message.id": task.id,
            "stayer.kind": task.kind,
            "stayer.attempt": task.attempt,
            "stayer.ending": news.ending,
            "stayer.node": task.node or "",
            "stayer.worker": task.worker or "",
        },
    )  # fmt: skip
    if news.ending not in _NO_FAULT:
        fault = news.error
        text = news.ending if fault is None else f"{fault.type}: {fault.message}"
        span.set_status(StatusCode.ERROR, text)
        if fault is not None:
            span.set_attribute("error.type", fault.type)
    span.end(int(end * _NANO))


class within:  # noqa: N801  # used like a function
    """What is traced meanwhile belongs to the task's trace.

    Not by `contextmanager`, which assigns to what passes through: an exception of a task may be a
    frozen dataclass, and would become another one.
    """

    def __init__(self, task: Task) -> None:
        self._environment = task.env or {}
        self._token: Token[Context] | None = None

    def __enter__(self) -> None:
        if self._environment.get(PARENT) and _tracer() is not None:
            from opentelemetry.context import attach

            self._token = attach(_extract(self._environment))

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            from opentelemetry.context import detach

            detach(self._token)


def is_active() -> bool:
    """Tell whether this program makes traces, or is within one: that somebody has loaded
    OpenTelemetry (Redis's own client does) is not enough.
    """
    module = sys.modules.get("opentelemetry.trace")
    if module is None or not hasattr(module, "get_tracer_provider"):  # it is being loaded
        return False
    provider = module.get_tracer_provider()
    if not isinstance(provider, module.ProxyTracerProvider):
        return True
    return bool(module.get_current_span().get_span_context().is_valid)


def is_near() -> bool:
    """Tell whether what is submitted here may belong to a trace that nobody has named."""
    return is_active() or PARENT in os.environ


def _tracer() -> Tracer | None:
    if not is_active():
        return None
    from opentelemetry.trace import get_tracer

    return get_tracer("stayer", __version__)


def _in_a_span() -> bool:
    from opentelemetry.trace import get_current_span

    return get_current_span().get_span_context().is_valid


def _extract(carrier: Carrier) -> Context:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    named = {name.lower(): value for name, value in carrier.items() if name in (PARENT, STATE)}
    return TraceContextTextMapPropagator().extract(named)


def _inject() -> dict[str, str]:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return {name.upper(): value for name, value in carrier.items()}


def _with(tasks: Sequence[NewTask], context: Carrier) -> Sequence[NewTask]:
    """What a task says of itself goes before."""
    if not context:
        return tasks
    return [
        task if PARENT in (task.env or {}) else replace(task, env={**(task.env or {}), **context})
        for task in tasks
    ]
