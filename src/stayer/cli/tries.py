"""Trying several things in turn, each of which may fail by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stayer.cli.exit_codes import worst
from stayer.cli.output import note
from stayer.core.errors import StayerError, StoreError


class Tries:
    """Several things are tried in turn: each failure is one line, the worst is the exit code."""

    def __init__(self) -> None:
        self.worst = 0

    def count(self, code: int) -> None:
        """Remember this exit code if it is the worst so far."""
        self.worst = worst(self.worst, code)

    @contextmanager
    def each(self) -> Iterator[None]:
        """One try; only a store that does not work ends them all."""
        try:
            yield
        except StoreError:
            raise
        except StayerError as error:
            note(str(error))
            self.count(error.exit_code)
