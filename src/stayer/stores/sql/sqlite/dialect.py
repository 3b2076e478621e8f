"""SQLite's words. A list is one JSON array, unfolded by `json_each`, so that a statement is
prepared once whatever the number; there is one writer at a time, so nothing has to be locked or
claimed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import msgspec

from stayer.stores.sql.dialect import Dialect, Statements
from stayer.stores.sql.sqlite import just_reserved
from stayer.stores.sql.table_names import DEFAULT_PREFIX
from stayer.stores.sql.transaction import Cell

_HERE = Path(__file__).parent
_encode = msgspec.json.Encoder().encode


class SqliteDialect(Dialect):
    """What SQLite says differently."""

    yes, no = "1", "0"
    same = "IS"
    greatest, least = "max", "min"
    join_in_order = "CROSS JOIN"
    characters = "length"
    lock = claim = ""

    def placeholder(self, number: int) -> str:
        return f"?{number}"

    def array(self, values: Iterable[str | int]) -> Cell:
        return _encode(values if isinstance(values, list) else list(values)).decode()

    def in_list(self, kind: str, parameter: str) -> str:
        return f"IN (SELECT value FROM json_each({parameter}))"

    def from_list(self, kind: str, parameter: str, name: str) -> str:
        return f"json_each({parameter}) AS {name}"

    def contains(self, column: str, value: str) -> str:
        return f"EXISTS (SELECT 1 FROM json_each({column}) WHERE value = {value})"

    def first(self, column: str) -> str:
        return f"json_extract({column}, '$[0]')"

    def has(self, text: str, word: str) -> str:
        return f"instr(lower({text}), lower({word})) > 0"

    def member(self, column: str, name: str) -> str:
        return f"json_extract({column}, '$.{name}')"

    def json(self, column: str, path: str, text: str, number: str) -> str:
        # What is true, false or null is of a type that is called so.
        found = (
            f"json_extract({column}, p.path) IN (p.text, p.number) "
            f"OR json_type({column}, p.path) = p.text"
        )
        return (
            f"EXISTS (SELECT 1 FROM (SELECT {path} AS path, {text} AS text, {number} AS number) "
            f"AS p WHERE CASE WHEN typeof({column}) = 'blob' THEN 1 "
            f"WHEN json_valid({column}) THEN {found} ELSE 0 END)"
        )

    def whole(self, number: str) -> str:
        return f"CAST({number} AS INTEGER)"


DIALECT = SqliteDialect()


@lru_cache
def statements(dialect: Dialect = DIALECT, prefix: str = DEFAULT_PREFIX) -> Statements:
    """The statements as SQLite reads them, for tables whose names begin with the prefix."""
    own = (_HERE / "statements.sql", _HERE / "fast.sql")
    return Statements(dialect, just_reserved.COLUMNS, *own, prefix=prefix)
