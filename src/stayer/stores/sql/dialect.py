"""What databases that speak SQL say in different words, and the statements in the words of one.

`statements.sql` is for all of them. What differs is a macro in braces there, which a `Dialect`
expands once, when the statements are loaded:

| macro | stands for |
|---|---|
| `{in texts ?1}`, `{in numbers ?1}` | is one of a list: one parameter (`Transaction.array`) |
| `{from texts ?1 name}` | such a list as a table of that name with a column `value` |
| `{contains column value}` | the JSON array in a column has this value |
| `{has column ?}` | a text, or `column.member` of a JSON object, has this in it, large or small |
| `{json column path text number}` | the JSON in a column may have this at that path |
| `{first column}` | the first value of the JSON array in a column |
| `{yes}`, `{no}` | booleans |
| `{same}` | is equal, and null is equal to null |
| `{greatest}`, `{least}` | functions of several values (which are not null) |
| `{whole number}` | a number without its fraction |
| `{upsert columns}` … `{excluded column}` | the row is there: change it; what it was to be |
| `{or nothing columns}` | the row is there: leave it |
| `{returning columns}` | what an UPDATE answers, of columns that it does not change |
| `{join in order}` | a join whose first table is to be read first |
| `{lock}`, `{lock alias}` | wait until nobody else changes these rows, and keep them so |
| `{claim}`, `{claim alias}` | the same, but pass by what somebody else has locked |
| `{counted queues}` | `stayer_queues` with its counters added up |

Any other word stands for columns (`rows.py`) or for the statement of that name. Names of tables
begin with `stayer_`, for which a store may have a prefix of its own (`table_names.py`). A statement
that claims is there a second time, for those who only look, as `NAME unclaimed`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from stayer.core.filters import EQUAL
from stayer.stores.sql.notices import COLUMNS as NOTICE_COLUMNS
from stayer.stores.sql.rows import (
    FIELD_COLUMNS,
    FIELD_VALUES,
    NEW_COLUMNS,
    NEW_VALUES,
    SCHEDULE_COLUMNS,
    TASK_COLUMNS,
    column,
    value_cell,
)
from stayer.stores.sql.table_names import DEFAULT_PREFIX, with_prefix
from stayer.stores.sql.transaction import UNCLAIMED, Cell, Composed, Named

_HERE = Path(__file__).parent
_MACRO = re.compile(r"\{([^{}]+)\}")
_PARAMETER = re.compile(r"\?(\d*)")
_GAPS = ("where", "sets")
_COLUMNS = {
    "task": TASK_COLUMNS,
    "new": NEW_COLUMNS,
    "new_values": NEW_VALUES,
    "schedule": SCHEDULE_COLUMNS,
    "notice": NOTICE_COLUMNS,
    "fields": FIELD_COLUMNS,
    "field_values": FIELD_VALUES,
}
_OWN = (
    "count",
    "event",
    "event.old",
    "last_event",
    "reserve.next_of_all",
    "submit.holders",
    "watch",
)
"""Statements that every database has to bring, for there is no way to say them for all …"""
_OWN_IF = {
    "shares_settings": ("queue.share", "queue.keep"),
    "locks_words": ("unique.lock", "unique.lock_of"),
}
"""… and those that it has to bring where its dialect says that it has them."""
_encode = msgspec.json.Encoder().encode
_Macro: TypeAlias = Callable[[str], str]


class Dialect(ABC):
    """The words of one database. What is not abstract is standard SQL, or near to it."""

    yes = "true"
    no = "false"
    same = "IS NOT DISTINCT FROM"
    greatest = "greatest"
    least = "least"
    join_in_order = "JOIN"
    counted_queues = "stayer_queues"
    lock = "FOR UPDATE"
    """Empty: there is one writer at a time, so nothing changes meanwhile."""
    claim = "FOR UPDATE SKIP LOCKED"
    """Empty as well then."""
    counts_what_runs = False
    """Whether the statement `reserve.queue` counts the tasks themselves. Else it goes by counters,
    and what the transaction has done to tasks and not written there yet is added."""
    shares_settings = False
    """Whether there are the statements `queue.share` and `queue.keep`, by which those who take
    tasks and those who set limits keep out of each other's way. Else a queue's row is locked."""
    locks_words = False
    """Whether there are the statements `unique.lock` and `unique.lock_of`, which lock single unique
    words. Else the queue's row is locked."""
    bytes_as_text = False
    """Whether parameters and results that are no text need another form: the column is text."""

    def value_cell(self, packed: str | bytes | None) -> Cell:
        """Parameters or a result, packed, as their column holds them."""
        return value_cell(packed, self.bytes_as_text)

    @abstractmethod
    def placeholder(self, number: int) -> str:
        """A parameter, counted from 1. The same number may come several times."""

    @abstractmethod
    def array(self, values: Iterable[str | int]) -> Cell:
        """A list as one parameter."""

    @abstractmethod
    def in_list(self, kind: str, parameter: str) -> str:
        """`{in kind parameter}`."""

    @abstractmethod
    def from_list(self, kind: str, parameter: str, name: str) -> str:
        """`{from kind parameter name}`."""

    @abstractmethod
    def contains(self, column: str, value: str) -> str:
        """`{contains column value}`."""

    @abstractmethod
    def first(self, column: str) -> str:
        """`{first column}`."""

    @abstractmethod
    def has(self, text: str, word: str) -> str:
        """`{has column word}`, where the text is what the column holds, or a member of that."""

    @abstractmethod
    def member(self, column: str, name: str) -> str:
        """The text of this name in the JSON object in a column."""

    @abstractmethod
    def json(self, column: str, path: str, text: str, number: str) -> str:
        """`{json column path text number}`: may hold for more, since those that are found are
        looked at again, but never for less. `parameters` may be compressed, or no JSON at all.
        """

    def json_path(self, path: Sequence[str | int]) -> Cell:
        """A path into a JSON value as a parameter of that."""
        return "$" + "".join(
            f"[{step}]" if isinstance(step, int) else f".{_encode(step).decode()}" for step in path
        )

    def whole(self, number: str) -> str:
        """`{whole number}`."""
        return f"floor({number})"

    def upsert(self, columns: str) -> str:
        """`{upsert columns}`: assignments follow."""
        return f"ON CONFLICT ({columns}) DO UPDATE SET"

    def excluded(self, column: str) -> str:
        """`{excluded column}`."""
        return f"excluded.{column}"

    def or_nothing(self, columns: str) -> str:
        """`{or nothing columns}`."""
        return f"ON CONFLICT ({columns}) DO NOTHING"

    def returning(self, columns: str) -> str:
        """`{returning columns}`."""
        return f"RETURNING {columns}"

    def locked(self, clause: str, alias: str) -> str:
        """`{lock alias}` or `{claim alias}`, where the clause is not empty."""
        return clause.replace("UPDATE", f"UPDATE OF {alias}") if alias else clause

    def _has(self, rest: str) -> str:
        where, word = rest.split()
        column, _, name = where.partition(".")
        return self.has(self.member(column, name) if name else column, word)

    def macros(self) -> dict[str, _Macro]:
        """Each macro by its name; it is given what follows in the braces."""

        def word(text: str) -> _Macro:
            return lambda _: text

        return {
            "in": lambda rest: self.in_list(*rest.split()),
            "from": lambda rest: self.from_list(*rest.split()),
            "contains": lambda rest: self.contains(*rest.split()),
            "first": self.first,
            "has": self._has,
            "json": lambda rest: self.json(*rest.split()),
            "yes": word(self.yes),
            "no": word(self.no),
            "same": word(self.same),
            "greatest": word(self.greatest),
            "least": word(self.least),
            "whole": self.whole,
            "upsert": self.upsert,
            "excluded": self.excluded,
            "or": lambda rest: self.or_nothing(rest.removeprefix("nothing ")),
            "returning": self.returning,
            "join": word(self.join_in_order),
            "lock": lambda alias: self.locked(self.lock, alias),
            "claim": lambda alias: self.locked(self.claim, alias),
            "counted": word(self.counted_queues),
        }


class Statements(dict[Named, str]):
    """The statements of a dialect. Those that are composed are made when they are first used."""

    def __init__(
        self,
        dialect: Dialect,
        columns: Mapping[str, str],
        *own: Path,
        prefix: str = DEFAULT_PREFIX,
    ) -> None:
        texts = {f"find.{name}": f"{column(name)} = ?" for name in EQUAL}
        for name in ("statements.sql", "notices.sql", "move.sql"):
            texts |= load(_HERE / name)
        for path in own:
            texts |= load(path)
        _check_own(dialect, texts)
        self._dialect = dialect
        self._prefix = prefix
        self._texts = {**texts, **_COLUMNS, **columns}
        super().__init__({name: self._numbered(self._expanded(texts[name])) for name in texts})
        for name, text in texts.items():
            if "{claim" in text:
                looked = re.sub(r"\{claim[^{}]*\}", "", text)
                self[name + UNCLAIMED] = self._numbered(self._expanded(looked))

    def __missing__(self, key: Named) -> str:
        if not isinstance(key, Composed):
            raise KeyError(key)
        conditions = " AND ".join(self._texts[name] for name in key.conditions)
        sets = ", ".join(
            self._texts.get(f"set.{name}", f"{column(name)} = ?") for name in key.columns
        )
        text = self._texts[key.name].replace("{sets}", sets)
        text = text.replace("{where}", f"WHERE {conditions}" if conditions else "")
        self[key] = made = self._numbered(self._expanded(text))
        return made

    def named(self, text: str) -> str:
        """SQL, or the name of a table, with the prefix that the tables of this store have."""
        return with_prefix(text, self._prefix)

    def _expanded(self, text: str) -> str:
        macros = self._dialect.macros()

        def expand(found: re.Match[str]) -> str:
            word, _, rest = found[1].partition(" ")
            if found[1] in _GAPS:
                return found[0]
            if found[1] in self._texts:
                return self._expanded(self._texts[found[1]])
            return macros[word](rest)

        return _MACRO.sub(expand, text)

    def _numbered(self, text: str) -> str:
        """With the dialect's parameters, where one without a number has the next one; and with the
        store's own names.
        """
        count = 0

        def placeholder(found: re.Match[str]) -> str:
            nonlocal count
            count += 1
            return self._dialect.placeholder(int(found[1]) if found[1] else count)

        return _PARAMETER.sub(placeholder, self.named(text))


def _check_own(dialect: Dialect, texts: Mapping[str, str]) -> None:
    """Raise LookupError if a statement is missing that a database has to bring."""
    needed = [*_OWN]
    for attribute, names in _OWN_IF.items():
        needed += names if getattr(dialect, attribute) else ()
    if missing := [name for name in needed if name not in texts]:
        raise LookupError(
            f"{type(dialect).__name__}: its statements.sql lacks {', '.join(missing)}"
        )


def load(path: Path) -> dict[str, str]:
    """The texts of a file by name; a line `-- name: NAME` begins one."""
    texts: dict[str, str] = {}
    for part in path.read_text(encoding="utf-8").split("-- name: ")[1:]:
        name, _, text = part.partition("\n")
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
        texts[name.strip()] = "\n".join(lines).strip().rstrip(";")
    return texts
