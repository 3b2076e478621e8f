"""Pages of tasks: as many as are asked for, and as fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Raw

from stayer.core import codec, limits
from stayer.core.model import Page, Task

PAGE_SIZE = limits.LIST
FIRST_TASKS = 50
"""How many tasks are read before it is known how large they are."""
encode = msgspec.json.Encoder().encode


def encode_full(tasks: Sequence[Task]) -> list[Raw]:
    """Encode the records of tasks as JSON."""
    return [Raw(encode(codec.record(task))) for task in tasks]


def read_page(
    find: Callable[[str | None, int], Page],
    cursor: str | None,
    limit: int,
    show: Callable[[Sequence[Task]], list[Raw]] = encode_full,
) -> tuple[list[Raw], str | None]:
    """Records, and where to go on. Read in portions, as large as those before let expect: a page
    ends early where its tasks are large.
    """
    shown: list[Raw] = []
    size, portion = 0, FIRST_TASKS
    while True:
        page = find(cursor, min(portion, limit - len(shown)))
        more = show(page.tasks)
        shown += more
        size += sum(map(len, more))
        cursor = page.next
        if cursor is None or len(shown) >= limit or size >= PAGE_SIZE:
            return shown, cursor
        portion = max(1, min(1000, (PAGE_SIZE - size) * len(shown) // max(1, size)))
