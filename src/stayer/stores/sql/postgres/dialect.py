"""PostgreSQL's words. A list is one array, so that a statement is prepared once whatever the
number. Names of tables and functions are given with their schema, for there may be a pooler between
that knows no `search_path`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from stayer.stores.sql.dialect import Dialect, Statements
from stayer.stores.sql.rows import NEW_VALUES, as_text
from stayer.stores.sql.table_names import DEFAULT_PREFIX, with_prefix
from stayer.stores.sql.transaction import Cell

_HERE = Path(__file__).parent
_KINDS = {"texts": "text", "numbers": "bigint"}


class PostgresDialect(Dialect):
    """What PostgreSQL says differently."""

    counted_queues = "stayer_counted_queues"
    counts_what_runs = shares_settings = True
    locks_words = True

    def value_cell(self, packed: str | bytes | None) -> Cell:
        return as_text(packed)

    def placeholder(self, number: int) -> str:
        return f"${number}"

    def array(self, values: Iterable[str | int]) -> Cell:
        return list(values)

    def in_list(self, kind: str, parameter: str) -> str:
        return f"= ANY ({parameter}::{_KINDS[kind]}[])"

    def from_list(self, kind: str, parameter: str, name: str) -> str:
        return f"unnest({parameter}::{_KINDS[kind]}[]) AS {name} (value)"

    def contains(self, column: str, value: str) -> str:
        return f"stayer_has({column}, {value})"

    def first(self, column: str) -> str:
        return f"({column}::json ->> 0)"

    def has(self, text: str, word: str) -> str:
        return f"position(lower({word}) IN lower({text})) > 0"

    def member(self, column: str, name: str) -> str:
        return f"({column}::json ->> '{name}')"

    def json(self, column: str, path: str, text: str, number: str) -> str:
        types = f"{path}::text[], {text}::text, {number}::double precision"
        return f"stayer_json_is({column}, {types})"

    def json_path(self, path: Sequence[str | int]) -> Cell:
        return [str(step) for step in path]

    def whole(self, number: str) -> str:
        return f"floor({number})::bigint"


DIALECT = PostgresDialect()
_FIRST_MORE = int(NEW_VALUES.rpartition("?")[2]) + 1
_COLUMNS = {
    f"more {place}": f"?{_FIRST_MORE + place}::{kind}"
    for place, kind in enumerate(("float8", "text", "bigint", "bigint", "bigint", "boolean"))
}
"""Parameters behind those that new tasks have in common, in the statement `fast.submit_whole`."""


class PostgresStatements(Statements):
    """The statements for tables in a schema."""

    def __init__(self, schema: str | None, prefix: str) -> None:
        self._schema = schema
        # A table or function; not where it stands before a column.
        self._name = re.compile(rf"\b{prefix}[a-z_]+(?![a-z_.])")
        super().__init__(
            DIALECT, _COLUMNS, _HERE / "statements.sql", _HERE / "fast.sql", prefix=prefix
        )

    def named(self, text: str) -> str:
        text = with_prefix(text, self._prefix)
        if self._schema is None:
            return text
        before = quote_name(self._schema) + "."
        return self._name.sub(lambda found: before + found[0], text)


def quote_name(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


@lru_cache
def statements(schema: str | None, prefix: str = DEFAULT_PREFIX) -> PostgresStatements:
    """The statements as PostgreSQL reads them."""
    return PostgresStatements(schema, prefix)
