"""Workers declared lost, for people to see: since when, why, and what they ran.

A store keeps the newest of them as one short text apart from the workers, so that nothing that
judges leases or counts slots can take one for a worker. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec
from msgspec import Struct

from stayer.core.decoding import convert, decode_json
from stayer.core.units import format_duration
from stayer.core.worker_model import Worker

KEPT_S = 86_400.0
"""For how long they are listed, in seconds."""
MOST = 100
"""How many are kept, the newest."""
MOST_TASKS = 10
"""Of how many tasks that one held the ids are kept."""
_LONGEST = 60_000
"""In bytes: some databases take 64 kB at most."""
BY_SERVER = "a server"
BY_OPERATOR = "an operator"


class LostWorker(Struct, frozen=True, kw_only=True):
    """A worker that was declared lost. It is down since its last beat."""

    id: str
    node: str
    pid: int
    version: str
    started_at: float
    beat_at: float
    lost_at: float
    """When it was declared lost."""
    by: str
    """Who declared it lost."""
    running: int = 0
    """How many tasks it held then."""
    tasks: tuple[str, ...] = ()
    """The ids of some of them."""


def by_judge(judge: str | None) -> str:
    """Name who declared a worker lost: another worker, or a server, which is None."""
    return BY_SERVER if judge is None else f"worker {judge}"


def why(lost: LostWorker) -> str:
    """Say why it is down."""
    silence = max(0, int(lost.lost_at - lost.beat_at))
    return f"no heartbeat for {format_duration(silence)}, then declared lost by {lost.by}"


def choose_listed(
    lost: Iterable[LostWorker], alive: Collection[Worker], now: float
) -> list[LostWorker]:
    """Choose those that are to be shown, the newest first: for a day, and not if it is back."""
    back = {worker.id for worker in alive}
    return [each for each in lost if each.lost_at > now - KEPT_S and each.id not in back]


def add(kept: str | None, new: LostWorker) -> str:
    """Put one in front of those that a store keeps, and leave out what is too much."""
    known = [each for each in decode(kept) if each.id != new.id]
    listed = [new, *(each for each in known if each.lost_at > new.lost_at - KEPT_S)][:MOST]
    while len(text := msgspec.json.encode(listed)) > _LONGEST and len(listed) > 1:
        del listed[-1 - len(listed) // 10 :]
    return text.decode()


def decode(kept: str | bytes | None) -> list[LostWorker]:
    """Read what a store keeps; what can't be read is left out."""
    try:
        cells: Sequence[object] = decode_json(kept or b"[]", list[object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    found: list[LostWorker] = []
    for cell in cells:
        try:
            found.append(convert(cell, LostWorker, strict=False))
        except msgspec.ValidationError:
            continue
    return found
