"""`Store.failures`: what failed, by fault, from sets that are kept with every change."""

from __future__ import annotations

from collections.abc import Sequence

from stayer.core.insight import failures
from stayer.core.insight.failures import STEP, STEPS, Example, Failures, Group, Part
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.record import task


def find(places: Sequence[tuple[Server, Sequence[str]]], limit: int) -> Failures:
    """The most frequent faults in these queues of these servers; none named: all of a server's."""
    homes: dict[str, Server] = {}
    parts: list[Part] = []
    for server, queues in places:
        for part in _parts(server, queues):
            homes[part.queue] = server
            parts.append(part)
    groups = failures.group_by_fault(parts)
    examples, lately = _read_examples(homes, groups[:limit])
    return Failures(
        failures=failures.describe_groups(groups[:limit], examples, lately),
        faults=len(groups),
        tasks=sum(group.count for group in groups),
    )


def _parts(server: Server, queues: Sequence[str]) -> list[Part]:
    answer = iter(server.run("failures", *queues))
    return [
        Part(mark.decode(), queue.decode(), int(count), float(first), float(last))
        for mark, queue, count, first, last in zip(*[answer] * 5, strict=True)
    ]


def _read_examples(
    homes: dict[str, Server], groups: Sequence[Group]
) -> tuple[dict[str, Example], dict[str, list[int]]]:
    """The newest task of each group, and how many failed lately, by fingerprint."""
    wanted: dict[str, list[str]] = {}
    for group in groups:
        for part in group.parts:
            wanted.setdefault(part.queue, []).append(group.fingerprint)
    newest_in = {group.fingerprint: group.parts[0].queue for group in groups}
    examples: dict[str, Example] = {}
    lately = {group.fingerprint: [0] * STEPS for group in groups}
    for queue, marks in wanted.items():
        found = homes[queue].run("fault", queue, STEP, STEPS, *marks)
        for mark, (value, counts) in zip(marks, found, strict=True):
            lately[mark] = [sum(pair) for pair in zip(lately[mark], counts, strict=True)]
            if value is not None and newest_in[mark] == queue:
                last = task(value)
                ending = last.ending or "error"
                examples[mark] = Example(last.id, last.kind, ending, last.error)
    return examples, lately
