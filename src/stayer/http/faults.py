"""What failed, by fault."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from stayer.core import failures
from stayer.http.filters import PAGE, Limit
from stayer.http.route import Answer, Call


class FailuresQuery(Struct, frozen=True, kw_only=True):
    """Of which queues, and how many faults."""

    queue: Annotated[tuple[str, ...], Meta(description="In this queue. Repeat it for more.")] = ()
    limit: Limit = PAGE


def find(call: Call) -> Answer:
    """The most frequent faults."""
    asked: FailuresQuery = call.query
    return Answer(failures.record(call.store.failures(asked.queue, asked.limit)))
