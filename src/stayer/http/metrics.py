"""Figures for Prometheus, in its text format.

`METRICS` is the list of them, with what each means: the reference is made from it. What is of the
store comes from the store, so it is the same at each of its servers, and after a restart. Only what
begins with `stayer_http` or `stayer_server` is of one server.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from stayer.core.insight import totals as core
from stayer.core.insight.totals import Totals
from stayer.core.model import STATES
from stayer.core.queue_model import QueueInfo
from stayer.core.worker_model import Worker, WorkerState
from stayer.service.late import Late

HTTP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of durations, in seconds."""
MEDIA = "text/plain; version=0.0.4; charset=utf-8"

_WORKER_STATES: tuple[WorkerState, ...] = ("IDLE", "PROCESSING", "DRAINING", "STALE")


class Metric(Struct, frozen=True):
    """A metric: what it is called and means, and what its labels are."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


T = TypeVar("T")
Sample = tuple[Sequence[str], float]
"""The values of the labels, and the figure."""

SUBMITTED = Metric(
    "stayer_tasks_submitted_total", "counter", "Tasks that were accepted.", ("queue", "kind")
)
STARTED = Metric(
    "stayer_attempts_started_total", "counter", "Attempts that were started.", ("queue", "kind")
)
ENDED = Metric(
    "stayer_tasks_ended_total", "counter",
    "Tasks that ended for good, by their state (complete, failed, cancelled) and how they ended.",
    ("queue", "kind", "state", "ending"),
)  # fmt: skip
RETRIED = Metric(
    "stayer_retries_total", "counter",
    "Tasks that came back to run again, by how their attempt ended; `operator`: somebody asked.",
    ("queue", "kind", "reason"),
)  # fmt: skip
LOST = Metric("stayer_workers_lost_total", "counter", "Workers declared lost, busy or idle.")
WAITED = Metric(
    "stayer_task_wait_seconds", "histogram",
    "How long tasks could be taken before an attempt was started.", ("queue",),
)  # fmt: skip
RAN = Metric(
    "stayer_attempt_run_seconds", "histogram",
    "How long attempts ran that have ended, in whatever way.", ("queue", "kind"),
)  # fmt: skip
COUNTED_SINCE = Metric(
    "stayer_counted_since_timestamp_seconds", "gauge",
    "When counting began: counters of the store tell of what happened since.",
)  # fmt: skip
TASKS = Metric("stayer_tasks", "gauge", "Tasks that are kept, by state.", ("queue", "state"))
LATE = Metric(
    "stayer_tasks_late", "gauge",
    "Running tasks that take over twice as long as the longest of the last ones of their kind.",
    ("queue",),
)  # fmt: skip
AGE = Metric(
    "stayer_queue_age_seconds", "gauge",
    "How long the oldest task that could be taken has waited; 0 if there is none.", ("queue",),
)  # fmt: skip
PAUSED = Metric("stayer_queue_paused", "gauge", "1 if the queue is paused.", ("queue",))
LIMIT = Metric(
    "stayer_queue_limit", "gauge", "How many may run at once, where that is limited.", ("queue",)
)
WORKERS = Metric(
    "stayer_workers", "gauge", "Workers, by state. STALE: its lease is over.", ("state",)
)
SLOTS = Metric(
    "stayer_node_slots", "gauge", "How many tasks the workers of a node may run at once.", ("node",)
)
RUNNING = Metric(
    "stayer_node_running", "gauge", "How many tasks the workers of a node hold.", ("node",)
)
SILENCE = Metric(
    "stayer_node_silence_seconds", "gauge",
    "Time since the last heartbeat of the node's worker that has been silent for longest.",
    ("node",),
)  # fmt: skip
UP = Metric("stayer_store_up", "gauge", "1 if the store answers; 0: only this and http figures.")
LATENCY = Metric("stayer_store_seconds", "gauge", "How long the store took to answer just now.")
STREAMS = Metric("stayer_event_streams", "gauge", "Event streams that this server has open.")
REQUESTS = Metric(
    "stayer_http_requests_total", "counter", "Requests to this server since it began.",
    ("method", "route", "status"),
)  # fmt: skip
REQUEST_TIME = Metric(
    "stayer_http_request_seconds", "histogram", "How long requests to this server took.",
    ("method", "route"),
)  # fmt: skip

OF_STORE = (
    SUBMITTED, STARTED, ENDED, RETRIED, LOST, WAITED, RAN, COUNTED_SINCE, TASKS, LATE, AGE, PAUSED,
    LIMIT, WORKERS, SLOTS, RUNNING, SILENCE,
)  # fmt: skip
OF_SERVER = (UP, LATENCY, STREAMS, REQUESTS, REQUEST_TIME)
METRICS = (*OF_STORE, *OF_SERVER)


class Metrics:
    """What the server counts itself."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._durations: defaultdict[tuple[str, str], list[float]] = defaultdict(
            lambda: [0.0] * (len(HTTP_BUCKETS) + 2)
        )

    def count(self, method: str, path: str, status: int, seconds: float, timed: bool) -> None:
        """Count one request by the path of its route; the duration counts only if `timed`."""
        self._requests[method, path, status] += 1
        if timed:
            cells = self._durations[method, path]
            cells[0] += seconds
            cells[1 + bisect_left(HTTP_BUCKETS, seconds)] += 1

    def requests(self) -> Iterator[str]:
        """Return the figures of requests: how many, and how long they took."""
        yield from samples(
            REQUESTS,
            [
                ((method, path, str(status)), number)
                for (method, path, status), number in sorted(self._requests.items())
            ],
        )
        yield from _histogram(REQUEST_TIME, HTTP_BUCKETS, sorted(self._durations.items()))


def of_store(
    queues: Sequence[QueueInfo],
    workers: Sequence[Worker],
    late: Sequence[Late],
    totals: Totals,
    now: float,
) -> Iterator[str]:
    """Return the figures of the store."""
    yield from _of_totals(totals)
    yield from samples(
        TASKS,
        [((each.name, state), each.counts.get(state, 0)) for each in queues for state in STATES],
    )
    are_late = Counter(each.task.queue for each in late)
    yield from samples(LATE, [((each.name,), are_late[each.name]) for each in queues])
    ages = {
        each.name: 0.0 if each.oldest is None else max(0.0, now - each.oldest) for each in queues
    }
    yield from samples(AGE, [((name,), age) for name, age in ages.items()])
    yield from samples(PAUSED, [((each.name,), int(each.paused)) for each in queues])
    limits = [((each.name,), each.limit) for each in queues if each.limit is not None]
    yield from samples(LIMIT, limits)
    yield from _of_workers(workers, now)


def _of_totals(totals: Totals) -> Iterator[str]:
    """Return what was counted; a counter that is there from the beginning shows its first step."""
    for what, metric in (
        (core.SUBMITTED, SUBMITTED), (core.STARTED, STARTED), (core.ENDED, ENDED),
        (core.RETRIED, RETRIED),
    ):  # fmt: skip
        yield from samples(metric, sorted(_labelled(totals.counts, what)))
    yield from samples(LOST, [((), totals.counts.get(core.LOST, 0))])
    for what, metric in ((core.WAITED, WAITED), (core.RAN, RAN)):
        known = sorted(_labelled(totals.spans, what))
        cells = [(labels[: len(metric.labels)], each) for labels, each in known]
        yield from _histogram(metric, core.BUCKETS[what], cells)
    yield from samples(COUNTED_SINCE, [((), totals.since)])


def _labelled(known: Mapping[str, T], what: str) -> Iterator[tuple[Sequence[str], T]]:
    for key, value in known.items():
        first, *labels = key.split("\t")
        if first == what:
            yield labels, value


def _of_workers(workers: Sequence[Worker], now: float) -> Iterator[str]:
    """Return figures by node: the id of a worker has its pid, and so would be a new label at each
    start.
    """
    states = Counter(worker.state for worker in workers)
    yield from samples(WORKERS, [((state,), states[state]) for state in _WORKER_STATES])
    nodes = sorted({worker.node for worker in workers})
    of_node = {node: [each for each in workers if each.node == node] for node in nodes}
    for metric, figures in (
        (SLOTS, {node: sum(each.slots for each in found) for node, found in of_node.items()}),
        (RUNNING, {node: sum(each.running for each in found) for node, found in of_node.items()}),
        (SILENCE, {node: max(now - each.beat_at for each in of_node[node]) for node in nodes}),
    ):
        yield from samples(metric, [((node,), value) for node, value in figures.items()])


def samples(metric: Metric, found: Iterable[Sample]) -> Iterator[str]:
    """Return the lines of a metric."""
    yield from _head(metric)
    for labels, value in found:
        yield _line(metric.name, dict(zip(metric.labels, labels, strict=True)), value)


def _histogram(
    metric: Metric,
    bounds: Sequence[float],
    found: Iterable[tuple[Sequence[str], Sequence[float]]],
) -> Iterator[str]:
    """Return the lines of a histogram, from the sum and what is in each bucket."""
    yield from _head(metric)
    for values, (sum, *buckets) in found:
        labels = dict(zip(metric.labels, values, strict=True))
        total = 0.0
        for bound, number in zip((*bounds, "+Inf"), buckets, strict=True):
            total += number
            yield _line(f"{metric.name}_bucket", {**labels, "le": str(bound)}, total)
        yield _line(f"{metric.name}_sum", labels, sum)
        yield _line(f"{metric.name}_count", labels, total)


def _head(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.type}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    label_text = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
    return f"{name}{{{label_text}}} {value:.15g}" if label_text else f"{name} {value:.15g}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
