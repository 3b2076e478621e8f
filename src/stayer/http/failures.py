"""What failed, by fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from stayer.core.insight import failures
from stayer.core.insight.failures import Failures
from stayer.http.filters import PAGE, Limit, Partial, part_of
from stayer.http.route import Answer, Call


class FailuresQuery(Struct, frozen=True, kw_only=True):
    """Of which queues, and how many faults."""

    queue: Annotated[tuple[str, ...], Meta(description="In this queue. Repeat it for more.")] = ()
    limit: Limit = PAGE
    partial: Partial = False


def find(call: Call) -> Answer:
    """Answer with the most frequent faults."""
    query: FailuresQuery = call.query

    def read(queues: Sequence[str]) -> Failures:
        return call.store.failures(queues, query.limit)

    found, away = part_of(call.store, query.queue, read, query.partial)
    return Answer({**failures.record(found), **away})
