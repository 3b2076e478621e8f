"""What has failed, gathered by fault: many failures are few faults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import asdict

from stayer.core.model import JSON, Ending, Fault
from stayer.core.units import rfc3339

STEPS = 48
STEP = 1800.0
"""Failures of the last day are counted by the half hour."""
LIMIT = 100


class Part(Struct, frozen=True):
    """The failed tasks of one fault in one queue."""

    fingerprint: str
    queue: str
    count: int
    first: float
    last: float


class Group(Struct, frozen=True):
    """Failures that are alike, over all queues, those of the newest first."""

    fingerprint: str
    parts: tuple[Part, ...]

    @property
    def count(self) -> int:
        return sum(part.count for part in self.parts)


class Example(Struct, frozen=True):
    """The task of a fault that failed last, as far as it is shown."""

    id: str
    kind: str
    ending: Ending
    error: Fault | None


class Failure(Struct, frozen=True, kw_only=True):
    """A fault: all failed tasks that are there and have its fingerprint."""

    fingerprint: str
    count: int
    first: float
    """When the first of those that are there failed, and the last one."""
    last: float
    kind: str
    queues: tuple[str, ...]
    ending: Ending
    type: str
    message: str
    example: str
    """The id of the one that failed last; kind, ending, type and message are its."""
    lately: tuple[int, ...] = ()
    """How many failed in each half hour of the last day, the oldest first."""


class Failures(Struct, frozen=True, kw_only=True):
    """The most frequent faults, and how many there are."""

    failures: tuple[Failure, ...]
    faults: int = 0
    tasks: int = 0


def group_by_fault(parts: Iterable[Part]) -> list[Group]:
    """Group failures by fault, the most frequent first, then those that came last."""
    found: dict[str, list[Part]] = {}
    for part in parts:
        found.setdefault(part.fingerprint, []).append(part)
    groups = [
        Group(fingerprint, tuple(sorted(some, key=lambda part: (-part.last, part.queue))))
        for fingerprint, some in found.items()
    ]
    return sorted(groups, key=lambda group: (-group.count, -group.parts[0].last, group.fingerprint))


def describe_groups(
    groups: Sequence[Group],
    examples: Mapping[str, Example],
    lately: Mapping[str, Sequence[int]],
) -> tuple[Failure, ...]:
    """Describe the faults that are shown; one whose tasks are all gone is left out."""
    return tuple(
        Failure(
            fingerprint=group.fingerprint,
            count=group.count,
            first=min(part.first for part in group.parts),
            last=group.parts[0].last,
            kind=example.kind,
            queues=tuple(part.queue for part in group.parts),
            ending=example.ending,
            type=example.ending if example.error is None else example.error.type,
            message="" if example.error is None else example.error.message,
            example=example.id,
            lately=tuple(lately.get(group.fingerprint, ())),
        )
        for group in groups
        if (example := examples.get(group.fingerprint)) is not None
    )


def record(found: Failures) -> dict[str, JSON]:
    """Return all faults as JSON."""
    shown: list[JSON] = [failure_record(failure) for failure in found.failures]
    return {"failures": shown, "faults": found.faults, "tasks": found.tasks}


def failure_record(failure: Failure) -> dict[str, JSON]:
    """Return one fault as JSON."""
    return {
        **asdict(failure),
        "first": rfc3339(failure.first),
        "last": rfc3339(failure.last),
        "queues": list(failure.queues),
        "lately": list(failure.lately),
    }
