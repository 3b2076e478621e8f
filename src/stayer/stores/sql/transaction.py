"""What the operations need of a database: named statements inside a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias

Cell: TypeAlias = Any
"""What a column holds; typed again where rows become records (`rows.py`)."""
Row: TypeAlias = tuple[Cell, ...]


class Transaction(Protocol):
    """A transaction that is open: all it does is committed together, or not at all."""

    now: float
    """The store's clock, read once, after the lock was taken."""

    def all(self, statement: str, *parameters: Cell) -> list[Row]:
        """The rows that a named statement gives."""

    def one(self, statement: str, *parameters: Cell) -> Row | None:
        """Its first row."""

    def run(self, statement: str, *parameters: Cell) -> int:
        """How many rows it changed."""

    def many(self, statement: str, parameters: Iterable[Sequence[Cell]]) -> int:
        """Run it for each of these; how many rows it changed."""


@lru_cache
def load_statements(path: Path) -> dict[str, str]:
    """The statements of a file by name; a line `-- name: NAME` begins one."""
    statements: dict[str, str] = {}
    for part in path.read_text(encoding="utf-8").split("-- name: ")[1:]:
        name, _, text = part.partition("\n")
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
        statements[name.strip()] = "\n".join(lines).strip().rstrip(";")
    return statements
