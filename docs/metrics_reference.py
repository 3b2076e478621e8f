"""Writes the reference of the metrics from their table: `docs/reference/metrics.md`.

`python docs/metrics_reference.py` writes it, `--check` only says whether it is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from stayer.core.insight import totals
from stayer.core.units import format_duration
from stayer.http.metrics import OF_SERVER, OF_STORE, Metric

PAGE = Path(__file__).parent / "reference" / "metrics.md"

OPENING = f"""\
# Metrics

<!-- Written by docs/metrics_reference.py from the metrics themselves. -->

What `GET /metrics` of [`stayer serve`](../how-to/serve-over-http.md) answers, for Prometheus.
[Watch it with Prometheus](../how-to/watch-with-prometheus.md) says how to set it up.

Labels are few, and stay the same across restarts. `queue` and `node` are what they say. `kind` is
the name of the task, or the program that its command runs (of an interpreter, with the script). At
most {totals.MOST_QUEUES} queues and {totals.MOST_SERIES} pairs of a queue and a kind are told
apart; what comes after that counts as `{totals.OTHER}`. A task that was deleted before it was
counted, within some seconds, is of the kind `{totals.UNKNOWN}`.

"""
STORE = """\
## Of the store

They come from the store, not from one server: they are the same at each server of it, and go on
where they were after a restart. Where Prometheus asks several servers, take the `max` of them,
never the `sum`. Counters and histograms are counted from the store's events while any server runs;
one that starts again counts what happened meanwhile, as far as the store still has the events: the
newest million of an SQL store, the newest 100,000 or so of Redis.

"""
SERVER = """\
## Of one server

"""


def table(metrics: Iterable[Metric]) -> Iterator[str]:
    """Rows with name, type, labels and meaning."""
    yield "| metric | type | labels | meaning |"
    yield "|---|---|---|---|"
    for each in metrics:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        yield f"| `{each.name}` | {each.type} | {labels} | {each.help} |"


def page() -> str:
    """The whole page."""
    waits, runs = (
        ", ".join(format_duration(bound) for bound in bounds)
        for bounds in (totals.WAIT_BUCKETS, totals.RUN_BUCKETS)
    )
    lines = [OPENING + STORE + "\n".join(table(OF_STORE)), ""]
    lines += [
        f"The buckets of waits end at {waits}; those of runs at {runs}.",
        "",
        SERVER + "\n".join(table(OF_SERVER)),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text() != page())
    PAGE.write_text(page())
