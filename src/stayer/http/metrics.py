"""Figures for Prometheus, in its text format."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from stayer.core.model import STATES, QueueInfo, Worker, WorkerState

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of durations, in seconds."""
MEDIA = "text/plain; version=0.0.4; charset=utf-8"

_WORKER_STATES: tuple[WorkerState, ...] = ("IDLE", "PROCESSING", "DRAINING", "STALE")


class Metrics:
    """What the server counts itself."""

    def __init__(self) -> None:
        self.store_latency: float | None = None
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._durations: defaultdict[tuple[str, str], list[int]] = defaultdict(
            lambda: [0] * (len(BUCKETS) + 1)
        )
        self._sums: defaultdict[tuple[str, str], float] = defaultdict(float)

    def count(self, method: str, path: str, status: int, seconds: float, timed: bool) -> None:
        """Count one request by the path of its route; the duration counts only if `timed`."""
        self._requests[method, path, status] += 1
        if timed:
            self._durations[method, path][bisect_left(BUCKETS, seconds)] += 1
            self._sums[method, path] += seconds

    def requests(self) -> Iterable[str]:
        """Return the figures of requests: how many, and how long they took."""
        yield from _head("stayer_http_requests_total", "counter", "Requests, by route and status.")
        for (method, path, status), number in sorted(self._requests.items()):
            yield _line(
                "stayer_http_requests_total",
                {"method": method, "route": path, "status": str(status)},
                number,
            )
        name = "stayer_http_request_seconds"
        yield from _head(name, "histogram", "How long requests took.")
        for (method, path), buckets in sorted(self._durations.items()):
            labels = {"method": method, "route": path}
            total = 0
            for bound, number in zip((*BUCKETS, "+Inf"), buckets, strict=True):
                total += number
                yield _line(f"{name}_bucket", {**labels, "le": str(bound)}, total)
            yield _line(f"{name}_sum", labels, self._sums[method, path])
            yield _line(f"{name}_count", labels, total)


def of_store(queues: Sequence[QueueInfo], workers: Sequence[Worker], now: float) -> Iterable[str]:
    """Return the figures of queues and workers."""
    yield from _head("stayer_tasks", "gauge", "Tasks, by queue and state.")
    for queue in queues:
        for state in STATES:
            labels = {"queue": queue.name, "state": state}
            yield _line("stayer_tasks", labels, queue.counts.get(state, 0))
    yield from _head("stayer_queue_age_seconds", "gauge", "Age of the oldest task to be taken.")
    for queue in queues:
        age = 0.0 if queue.oldest is None else max(0.0, now - queue.oldest)
        yield _line("stayer_queue_age_seconds", {"queue": queue.name}, age)
    yield from _head("stayer_queue_paused", "gauge", "Whether a queue is paused.")
    for queue in queues:
        yield _line("stayer_queue_paused", {"queue": queue.name}, int(queue.paused))
    yield from _head("stayer_queue_limit", "gauge", "How many may run at once, where limited.")
    for queue in queues:
        if queue.limit is not None:
            yield _line("stayer_queue_limit", {"queue": queue.name}, queue.limit)
    yield from _workers(workers, now)


def _workers(workers: Sequence[Worker], now: float) -> Iterable[str]:
    states = Counter(worker.state for worker in workers)
    yield from _head("stayer_workers", "gauge", "Workers, by state.")
    for state in _WORKER_STATES:
        yield _line("stayer_workers", {"state": state}, states[state])
    figures: dict[str, tuple[str, Callable[[Worker], float]]] = {
        "slots": ("Tasks that a worker may run at once.", lambda worker: worker.slots),
        "running": ("Tasks that a worker holds.", lambda worker: worker.running),
        "silence_seconds": ("Time since its last beat.", lambda worker: now - worker.beat_at),
    }
    for name, (help, value) in figures.items():
        yield from _head(f"stayer_worker_{name}", "gauge", help)
        for worker in workers:
            labels = {"worker": worker.id, "node": worker.node}
            yield _line(f"stayer_worker_{name}", labels, value(worker))


def gauge(name: str, help: str, value: float) -> Iterable[str]:
    """Return the lines of one figure."""
    yield from _head(name, "gauge", help)
    yield _line(name, {}, value)


def _head(name: str, kind: str, help: str) -> Iterable[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    label_text = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
    return f"{name}{{{label_text}}} {value:.9g}" if label_text else f"{name} {value:.9g}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
