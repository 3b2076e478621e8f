"""What queues did: the figures that the script `sample` writes down."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress

from stayer.core.insight.queue_stats import COUNTED, KEPT, MADE_UP_FOR, MEASURED, Figures
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.record import Raw

_NAMES = (*MEASURED, *COUNTED)


def sample(server: Server) -> bool:
    """Count the minutes that are over; whether nobody else has."""
    kept = (number for pair in KEPT.items() for number in pair)
    return bool(server.run("sample", MADE_UP_FOR, *kept))


def figures(
    server: Server, since: float, until: float, step: int, queues: Sequence[str] | None
) -> list[Figures]:
    """Return those of a stretch of time."""
    now = server.now()  # outside of what is kept there is nothing to look for
    first = math.ceil(max(since, now - KEPT[step] - step) / step) * step
    last = math.ceil(min(until, now + step) / step) * step - step
    wanted = ("all",) if queues is not None and not queues else ("these", *(queues or ("",)))
    answer = server.run("figures", step, first, last, *wanted)
    found = [point for at, known in answer for point in _points(float(at), known)]
    return [each for each in found if each.queue or queues is None]


def _points(at: float, known: Raw) -> Iterator[Figures]:
    named = sorted(zip(known[::2], known[1::2], strict=True))
    for queue, text in named:
        with suppress(ValueError):  # what can't be read is left out
            words = zip(_NAMES, text.decode().split(), strict=True)
            values = {name: _value(name, word) for name, word in words}
            yield Figures(at=at, queue=queue.decode(), **values)


def _value(name: str, word: str) -> Raw:
    if word == "-":
        return None
    return float(word) if name in ("age", "ran", "waited") else int(float(word))
