"""The words of MariaDB and MySQL, and statements in the form in which they are sent.

A parameter becomes a gap that `Compiled` fills with a literal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from stayer.stores.sql.dialect import Dialect, Statements, quoted
from stayer.stores.sql.mysql import literals
from stayer.stores.sql.mysql.literals import Items
from stayer.stores.sql.rows import NEW_VALUES, TASK_COLUMNS
from stayer.stores.sql.table_names import DEFAULT_PREFIX
from stayer.stores.sql.transaction import Cell, Named

MODE = (
    "STRICT_ALL_TABLES,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,ANSI_QUOTES,"
    "PIPES_AS_CONCAT"
)
"""How our statements are meant to be read, whatever the server's own setting is."""
NUMBERS = 4096
"""How many numbers of events are drawn at a time. Numbers have to stay below 2**53: so there are
2**41 draws."""
_HERE = Path(__file__).parent
_PARAMETER = re.compile(r"\x01(\d+)\x02")
_GAP = re.compile(r"\x05([^\x06]*)\x06|\x01(\d+)\x02")
_RETURNING = re.compile(r"\x03([^\x04]*)\x04")
_UPDATE = re.compile(r"UPDATE (\w+) SET .*?^(WHERE .*)", re.DOTALL | re.MULTILINE)
_VALUES = re.compile(
    r"(INSERT (?:(?!\bVALUES\b).)*VALUES\s*)(\((?:(?!\bON DUPLICATE\b).)*\))"
    r"(\s*ON DUPLICATE KEY UPDATE\s[^\x01\x05]*)?",
    re.DOTALL,
)
_PACKED = tuple(TASK_COLUMNS.split(", ").index(name) for name in ("parameters", "result"))


_COLUMNS = {"their_share": f"?{int(NEW_VALUES.rpartition('?')[2]) + 1}"}
"""The parameter behind those that new tasks have in common."""


_COLUMNS_AND_VALUES = re.compile(r"(INSERT INTO \w+\s*)\(([^()]*)\)\s*VALUES\s*\((.*)\)", re.DOTALL)
_COMMA = re.compile(r",(?![^()]*\))")
"""One that is not in parentheses."""
_SHAPES = 64
"""How many sets of columns of an INSERT are kept."""

_Gaps: TypeAlias = list[tuple[str, tuple[Any, ...]]]
_Split: TypeAlias = tuple[bytes, _Gaps]


class MySqlDialect(Dialect):
    """What both say differently. `collation` is that of texts, in which blanks at the end count
    too."""

    yes, no = "1", "0"
    same = "<=>"
    join_in_order = "STRAIGHT_JOIN"
    counted_queues = "stayer_counted"
    shares_settings = locks_words = True
    words = frozenset(("key", "usage", "before", "lines", "rank"))

    def __init__(self, collation: str) -> None:
        self.collation = collation

    def value_cell(self, packed: str | bytes | None) -> Cell:
        return literals.distinct(packed)

    def placeholder(self, number: int) -> str:
        return f"\x01{number}\x02"

    def array(self, values: Iterable[str | int]) -> Cell:
        return Items(values)

    def in_list(self, kind: str, parameter: str) -> str:
        return f"IN {self._gap('items', parameter)}"

    def from_list(self, kind: str, parameter: str, name: str) -> str:
        return f"{self._gap('rows', parameter)} AS {name}"

    def contains(self, column: str, value: str) -> str:
        return (
            f"EXISTS (SELECT 1 FROM json_table({column}, '$[*]' COLUMNS (value VARCHAR(300) "
            f"CHARACTER SET utf8mb4 COLLATE {self.collation} PATH '$')) AS items "
            f"WHERE items.value = {value})"
        )

    def first(self, column: str) -> str:
        return f"json_unquote(json_extract({column}, '$[0]')) COLLATE {self.collation}"

    def has(self, text: str, word: str) -> str:
        """Parameters are bytes, of which no letters are small: what is no text is nothing then."""
        written = f"CONVERT({text} USING utf8mb4)"
        return f"locate(lower({word}) COLLATE {self.collation}, lower({written})) > 0"

    def member(self, column: str, name: str) -> str:
        return f"json_unquote(json_extract({column}, '$.{name}'))"

    def json(self, column: str, path: str, text: str, number: str) -> str:
        # As bytes: what JSON functions answer has a collation of its own, which does not go with
        # ours. What is compressed begins with FE.
        value = f"CONVERT({column} USING utf8mb4)"
        found = f"json_unquote(json_extract({value}, p.path))"
        return (
            f"EXISTS (SELECT 1 FROM (SELECT {path} AS path, {text} AS text, {number} AS number) "
            f"AS p WHERE CASE WHEN left(CAST({column} AS BINARY), 1) = X'FE' THEN 1 "
            f"WHEN json_valid({value}) THEN CAST({found} AS BINARY) = CAST(p.text AS BINARY) "
            f"OR {found} + 0 = p.number ELSE 0 END)"
        )

    def whole(self, number: str) -> str:
        return f"CAST(floor({number}) AS SIGNED)"

    def along(self, index: str) -> str:
        return f"FORCE INDEX ({'PRIMARY' if index == 'primary key' else index})"

    def upsert(self, columns: str) -> str:
        return "ON DUPLICATE KEY UPDATE"

    def excluded(self, column: str) -> str:
        return f"VALUES({column})"

    def or_nothing(self, columns: str) -> str:
        """The INSERT fails if the row is there, which says how many there are now: none."""
        return ""

    def returning(self, columns: str) -> str:
        """There is no UPDATE … RETURNING: `Compiled` selects these before."""
        return f"\x03{columns}\x04"

    def locked(self, clause: str, alias: str) -> str:
        """MariaDB can't say of which table. Statements that would need it are said otherwise."""
        return clause

    def macros(self) -> dict[str, Callable[[str], str]]:
        return {
            **super().macros(),
            "pairs": lambda rest: self._gap("pairs", *rest.split()),
            "list": lambda rest: self._gap("list", rest),
            "collation": lambda _: self.collation,
        }

    @staticmethod
    def _gap(kind: str, *words: str) -> str:
        """One that is more than a value; what is in it gets its number later, as all do."""
        return f"\x05{kind} {' '.join(words)}\x06"


class Compiled:
    """A statement that only lacks its parameters."""

    def __init__(self, text: str) -> None:
        returning = _RETURNING.search(text)
        text = _RETURNING.sub("", text)
        columns = f"SELECT {quoted(TASK_COLUMNS, MySqlDialect.words)}"
        self.reads_tasks = text.lstrip().startswith((f"{columns} FROM", f"{columns},"))
        self._template, self._gaps = _split(text)
        values = _VALUES.fullmatch(text.strip())
        self._insert = None if values is None else [_split(part or "") for part in values.groups()]
        self._said = lru_cache(_SHAPES)(partial(_without_nulls, text.strip()))
        self.select: Compiled | None = None
        self.own_table_again = False
        self._of_row: Compiled | None = None
        if returning is not None:
            update = _UPDATE.search(text)
            assert update is not None
            self.select = Compiled(f"SELECT {returning[1]} FROM {update[1]} {update[2]} FOR UPDATE")
            self.own_table_again = f"FROM {update[1]}" in update[2]
            self._of_row = Compiled(text[: update.start(2)] + "WHERE seq = \x010\x02")

    def of_row(self, parameters: Sequence[Cell], seq: int) -> bytes:
        """Make an UPDATE one of the row with this number."""
        assert self._of_row is not None
        return self._of_row((*parameters, seq))  # the parameter of number 0 is the last one

    def __call__(self, parameters: Sequence[Cell]) -> bytes:
        """The text with these parameters."""
        return _filled(self._template, self._gaps, parameters)

    def alike(self, rows: Sequence[Sequence[Cell]], common: Sequence[Cell]) -> bytes:
        """An INSERT of many rows whose first parameters differ; the rest is written out once.
        Columns that would get NULL in all of them are left out, which they have by default: of
        some forty values a row, to be read and checked by the server, a dozen remain.
        """
        differ = len(rows[0])
        parameters = [*rows[0], *common]
        nulls = frozenset(at for at, cell in enumerate(common, differ) if cell is None)
        before, (template, gaps) = self._said(nulls)
        own: _Gaps = []
        parts: list[bytes] = []
        for kind, words in gaps:
            is_own = words[0] < differ
            own += [(kind, words)] if is_own else []
            parts.append(b"%b" if is_own else _value(kind, words, parameters).replace(b"%", b"%%"))
        each = template.replace(b"%%", b"%%%%") % tuple(parts)
        return _filled(*before, ()) + b", ".join([_filled(each, own, row) for row in rows])

    def batch(self, parameters: Sequence[Sequence[Cell]]) -> list[bytes]:
        """Texts that do the same for each of these: one, if it is an INSERT of values."""
        if self._insert is None or len(parameters) == 1:
            return [self(each) for each in parameters]
        before, each, behind = self._insert
        tuples = b", ".join([_filled(*each, values) for values in parameters])
        return [_filled(*before, ()) + tuples + _filled(*behind, parameters[0])]


def _without_nulls(insert: str, nulls: frozenset[int]) -> tuple[_Split, _Split]:
    """An INSERT of one row, which ends with VALUES (…), in two parts, without the columns that
    would get one of these parameters.
    """
    found = _COLUMNS_AND_VALUES.fullmatch(insert)
    assert found is not None
    into, columns, values = found.groups()
    said = [
        (column, value)
        for column, value in zip(columns.split(","), _COMMA.split(values), strict=True)
        if not ((gap := _PARAMETER.fullmatch(value.strip())) and int(gap[1]) - 1 in nulls)
    ]
    before = f"{into}({','.join(column for column, _ in said)}) VALUES "
    return _split(before), _split(f"({','.join(value for _, value in said)})")


def _split(text: str) -> _Split:
    """A template with `%b` in it, and what each stands for."""
    gaps: _Gaps = []

    def gap(found: re.Match[str]) -> str:
        kind, *words = _PARAMETER.sub(r"\1", found[1] or f"value {found[2]}").split()
        numbered = (int(word) - 1 if word.isdigit() else word.encode() for word in words)
        gaps.append((kind, tuple(numbered)))
        return "%b"

    return _GAP.sub(gap, text.replace("%", "%%")).encode(), gaps


def _filled(template: bytes, gaps: _Gaps, parameters: Sequence[Cell]) -> bytes:
    return template % tuple([_value(kind, words, parameters) for kind, words in gaps])


def _value(kind: str, words: tuple[Any, ...], parameters: Sequence[Cell]) -> bytes:
    match kind:
        case "value":
            return literals.literal(parameters[words[0]])
        case "items":
            return literals.items(parameters[words[0]])
        case "list":
            return literals.items(parameters[words[0]])[1:-1]
        case "rows":
            return literals.rows(parameters[words[0]])
        case _:
            one, ones, other, others = words
            return literals.pairs(one, parameters[ones], other, parameters[others])


def with_values(row: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """A row of TASK_COLUMNS, its parameters and result as they were packed."""
    cells = list(row)
    for place in _PACKED:
        cells[place] = literals.unpack(cells[place])
    return tuple(cells)


class CompiledStatements:
    """The statements of a store by name, compiled when they are first used."""

    def __init__(self, collation: str, prefix: str = DEFAULT_PREFIX) -> None:
        self.dialect = MySqlDialect(collation)
        self._texts = Statements(self.dialect, _COLUMNS, _HERE / "statements.sql", prefix=prefix)
        self._compiled: dict[Named, Compiled] = {}

    def __getitem__(self, name: Named) -> Compiled:
        found = self._compiled.get(name)
        if found is None:
            found = self._compiled[name] = Compiled(self._texts[name])
        return found

    def named(self, text: str) -> str:
        """SQL with the prefix that the tables of this store have."""
        return self._texts.named(text)


@lru_cache
def statements(collation: str, prefix: str = DEFAULT_PREFIX) -> CompiledStatements:
    """The statements for servers with this collation, and tables with this prefix."""
    return CompiledStatements(collation, prefix)
