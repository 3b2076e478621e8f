"""A bar on stderr for what takes a while."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int, str], None]
"""Takes how much is done, and what to say about it."""


@contextmanager
def progress(total: int | None, *, wanted: bool = True) -> Iterator[Advance]:
    """A bar while the block runs, if somebody is there to see it; None: nobody knows how much."""
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield lambda done, told: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        BarColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as shown:
        bar = shown.add_task("", total=total)
        yield lambda done, text: shown.update(
            bar, description=text, completed=done if total else None
        )
