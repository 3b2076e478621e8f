"""`Store.failures`: what failed, by fault, along an index of its own."""

from __future__ import annotations

from collections.abc import Sequence

from stayer.core.insight import failures
from stayer.core.insight.failures import STEP, STEPS, Example, Failures, Group, Part
from stayer.stores.sql.rows import fault_from_cell, kind_from_cells
from stayer.stores.sql.transaction import Transaction


def find(tx: Transaction, queues: Sequence[str], limit: int) -> Failures:
    """The most frequent faults."""
    rows = tx.all("failures", not queues, tx.array(queues))
    groups = failures.group_by_fault(Part(*row) for row in rows)
    shown = groups[:limit]
    examples = {group.fingerprint: _newest(tx, group) for group in shown}
    lately = {group.fingerprint: _lately(tx, group) for group in shown}
    return Failures(
        failures=failures.describe_groups(shown, examples, lately),
        faults=len(groups),
        tasks=sum(group.count for group in groups),
    )


def _newest(tx: Transaction, group: Group) -> Example:
    found = tx.one("failures.newest", group.fingerprint, group.parts[0].queue)
    assert found is not None  # it was counted in this very transaction
    id, name, command, ending, error = found
    return Example(id, kind_from_cells(name, command), ending, fault_from_cell(error))


def _lately(tx: Transaction, group: Group) -> list[int]:
    queues = tx.array(part.queue for part in group.parts)
    counts = [0] * STEPS
    for ago, number in tx.all("failures.lately", tx.now, STEP, STEPS, group.fingerprint, queues):
        counts[STEPS - 1 - ago] += number
    return counts
